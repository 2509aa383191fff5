"""The sweep files that come with the package: those of the methods, and of the papers' tables."""

import re
from contextlib import suppress
from pathlib import Path

from cse_methods.errors import nearest_names

_PACKAGED, _CHECKOUT = (Path(__file__).parents[up] / "sweeps" for up in (1, 3))

SHIPPED = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
"""Their folder: part of an installed package, `sweeps/` of a checkout."""
_MOST_CHARACTERS = 100_000
"""How much of a file is searched for the name of a sweep."""


def find_sweep_file(name: Path) -> Path:
    """Return the shipped sweep file of that name, such as `quickstart`, if there is no file here.

    Any other path, such as one that leads out of the shipped files, is returned as it is.
    """
    shipped = SHIPPED / f"{name}.yaml"
    leads_out = name.is_absolute() or ".." in name.parts
    return name if leads_out or name.is_file() or not shipped.is_file() else shipped


def suggest_sweep_file(missing: Path) -> str:
    """Suggest the file that is meant by one that is missing, as the end of a sentence.

    It is a file in the same folder, in `sweeps/` there, or shipped, that has a sweep of this name,
    or else the nearest name.
    """
    shipped = {
        file.relative_to(SHIPPED).with_suffix("").as_posix(): file
        for file in sorted(SHIPPED.rglob("*.yaml"))
    }
    near = [
        file
        for folder in (missing.parent / "sweeps", missing.parent)
        for file in sorted(folder.glob("*.y*ml"))
    ]
    files = {**shipped, **{str(file): file for file in near}}
    has_sweep = re.compile(rf"^[\s-]*sweep: *[\"']?{re.escape(missing.name)}[\"']?\s*(#.*)?$", re.M)
    meant = None
    for name, file in files.items():
        with suppress(OSError), file.open(errors="replace") as text:
            if has_sweep.search(text.read(_MOST_CHARACTERS)):
                meant = name
    if meant is None:
        names = {file.stem: name for name, file in files.items()}
        stem = missing.stem if missing.suffix in (".yaml", ".yml") else missing.name
        meant = next((names[word] for word in nearest_names(stem, names)), None)
    if meant is not None:
        return f"; did you mean {meant}?"
    is_name = not missing.suffix
    return f"; name the file of the sweep, such as sweeps/{missing.name}.yaml" * is_name
