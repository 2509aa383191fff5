"""The public names of both packages: they exist, are documented, and cost nothing until used."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("cse_methods", "cse_platform")


def typed_names(package: str) -> set[str]:
    """What the package imports for type checkers alone."""
    file = import_module(package).__file__
    assert file is not None
    blocks = [
        node for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If)
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {f"{one.module}.{alias.name}" for one in imports for alias in one.names}


def test_every_public_name_exists_where_type_checkers_look_and_is_on_the_page() -> None:
    for package in PACKAGES:
        module, typed = import_module(package), typed_names(package)
        assert {place.rpartition(".")[2] for place in typed} == set(module.__all__)
        for place in typed:
            home, _, name = place.rpartition(".")
            assert getattr(module, name) is getattr(import_module(home), name)
        assert set(module.__all__) <= set(dir(module))
        with pytest.raises(AttributeError, match="no_such_name"):
            module.no_such_name  # noqa: B018
        page = (ROOT / "docs" / "api.md").read_text("utf-8")
        section = page.split(f"## {package}\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
        assert sorted(named) == sorted(module.__all__)


def test_importing_a_package_loads_none_of_its_libraries() -> None:
    script = f"import sys, {', '.join(PACKAGES)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy = {"torch", "numpy", "transformers", "pydantic", "ray", "optuna", "mlflow", "sqlalchemy"}
    assert not heavy & set(done.stdout.split())
