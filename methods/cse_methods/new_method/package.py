"""Write a package for a new method: module, tests, entry point and example sweep."""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from cse_methods.errors import NewMethodError
from cse_methods.registry import available_methods, own_methods

_FILES = {
    "pyproject.toml": "pyproject.toml.j2",
    "{name}.py": "method.py.j2",
    "test_{name}.py": "test_method.py.j2",
    "{name}.yaml": "method.yaml.j2",
}
_READ_OTHERWISE = {"conftest": "pytest", "true": "YAML", "false": "YAML", "null": "YAML"}


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a package whose method passes the checks of `cse_methods.testing`.

    Args:
        name: of the method, of its module and of the package.
        folder: where its files are written; new or empty.

    Returns:
        The files.

    NewMethodError if a method or module cannot be named so, the folder has something in it, or it
    cannot be written.
    """
    if problem := _find_problem(name):
        raise NewMethodError(f"a new method cannot be named {name!r}: {problem}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if there := sorted(path.name for path in folder.iterdir()):
            raise NewMethodError(
                f"{folder} is not empty ({', '.join(there[:3])}); choose a new folder"
            )
        templates = Environment(
            loader=PackageLoader(__package__),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            autoescape=False,
        )
        title = "".join(word.capitalize() for word in name.split("_"))
        written = []
        for file, template in _FILES.items():
            written.append(folder / file.format(name=name))
            text = templates.get_template(template).render(name=name, title=title)
            written[-1].write_text(text, encoding="utf-8")
        return written
    except OSError as error:
        raise NewMethodError(f"{folder} cannot be written: {error.strerror}") from error


def _find_problem(name: str) -> str | None:
    """Explain why a method, its module and its package cannot have this name; None if they can."""
    if not re.fullmatch(r"[a-z]([a-z0-9_]*[a-z0-9])?", name) or keyword.iskeyword(name):
        return "expected a lower-case Python name, such as labcse"
    if name in own_methods():
        return "it is a built-in method"
    if name in available_methods():
        return "an installed package has a method of this name"
    if name in sys.stdlib_module_names:
        return "it is a module of Python itself"
    if name in _READ_OTHERWISE or name.startswith("test_"):
        return f"{_READ_OTHERWISE.get(name, 'pytest')} reads it as something else"
    if find_spec(name) is not None:
        return "a module of this name is installed"
    return None
