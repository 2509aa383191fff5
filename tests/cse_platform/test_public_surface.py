import ast
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from commands import invoke
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import python

from cse_methods import load_encoder, read_published
from cse_methods.testing import RecordedRun
from cse_platform import load_sweep, private_hooks
from cse_platform.cli.sweep import main
from cse_platform.errors import SweepRefusedError
from cse_platform.private_hooks import HOOKS, refuse_missing_hooks

ROOT = Path(__file__).parents[2]
PACKAGES = ("cse_methods", "cse_platform")


def test_every_public_name_exists_where_type_checkers_look_and_is_on_the_page() -> None:
    for package in PACKAGES:
        module = import_module(package)
        nodes = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text("utf-8")).body
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        typed = {f"{one.module}.{alias.name}" for one in imports for alias in one.names}
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


def test_what_the_packages_import_is_declared() -> None:
    """Except spaCy, whose models are in no registry, and the installed package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    declared = {
        canonicalize_name(Requirement(text).name) for text in (*project["dependencies"], *extras)
    }
    imported = set[str]()
    for package in ("methods/cse_methods", "platform/cse_platform", "dashboards/cse_dashboards"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
    outside = {name for name in imported - sys.stdlib_module_names if not name.startswith("cse_")}
    assert {"torch", "werkzeug"} <= outside
    homes = packages_distributions() | {"umap": ["umap-learn"]}
    undeclared = {
        name
        for name in outside - {"spacy"}
        if declared.isdisjoint(map(canonicalize_name, homes.get(name, [name])))
    }
    assert not undeclared


def test_importing_a_package_loads_none_of_its_libraries() -> None:
    done = python(f"import sys, {', '.join(PACKAGES)}; print(*sys.modules)")
    heavy = {"torch", "numpy", "transformers", "pydantic", "ray", "optuna", "mlflow", "sqlalchemy"}
    assert not heavy & set(done.stdout.split())


def test_a_library_that_cannot_be_imported_says_why(monkeypatch) -> None:
    for error, optimized in (
        (AttributeError("'NoneType' object has no attribute 'strip'"), 2),
        (AttributeError("module 'numpy' has no attribute 'long'"), 0),
        (ImportError("libcuda.so.1: cannot open shared object file"), 0),
        (ModuleNotFoundError("No module named 'msgpack'", name="msgpack"), 1),
        (ModuleNotFoundError("No module named 'ray'", name="ray"), 0),
    ):

        def fail(name: str, error: Exception = error) -> ModuleType:
            raise error

        with monkeypatch.context() as patch, pytest.raises(SweepRefusedError) as refused:
            patch.setattr(private_hooks, "import_module", fail)
            flags = SimpleNamespace(optimize=optimized)
            patch.setattr(private_hooks, "sys", SimpleNamespace(flags=flags))
            refuse_missing_hooks()
        told = str(refused.value)
        assert told.startswith(f"ray cannot be imported: {type(error).__name__}: {error}"), told
        assert ("unset PYTHONOPTIMIZE" in told) is (optimized == 2), told
    gone = ("ray.gone:Part", "ray.gone.further:Part")
    monkeypatch.setattr(private_hooks, "HOOKS", {"ray>=2.60,<2.61": gone})
    with pytest.raises(SweepRefusedError, match=f"lacks .* {', '.join(gone)}; pip install"):
        refuse_missing_hooks()


QUICKSTART = Path(__file__).parents[2] / "sweeps" / "quickstart.yaml"


def test_functions_take_strings_for_paths(tmp_path: Path) -> None:
    load_encoder("mini", pooler="avg").save(str(tmp_path / "encoder"))
    assert load_encoder(str(tmp_path / "encoder")).width == 192
    assert load_sweep(str(QUICKSTART)).stages == load_sweep(QUICKSTART).stages
    table = ROOT / "methods" / "cse_methods" / "published" / "simcse.csv"
    assert read_published(str(table)) == read_published(table)
    run = RecordedRun(str(tmp_path), resume_from=str(tmp_path / "5"))  # type: ignore[arg-type]
    run.report(step=0, metrics={"dev/stsb_spearman": 0.5}, save=Path.mkdir)
    assert (tmp_path / "0").is_dir() and run.resume_from == tmp_path / "5"


def test_a_sweep_is_refused_if_a_private_part_is_missing(tmp_path, monkeypatch) -> None:
    refuse_missing_hooks()
    for requirement, hooks in list(HOOKS.items()):
        monkeypatch.setitem(HOOKS, requirement, tuple(f"{hook}_gone" for hook in hooks))
        with pytest.raises(SweepRefusedError) as refused:
            refuse_missing_hooks()
        missed = [hook for hook in hooks if f"{hook}_gone" in str(refused.value)]
        assert missed == list(hooks) and f"pip install '{requirement}'" in str(refused.value)
        monkeypatch.undo()

    imported = list[str]()

    def note_import(name: str) -> ModuleType:
        imported.append(name)
        return import_module(name)

    monkeypatch.setattr(private_hooks, "import_module", note_import)
    refuse_missing_hooks(gaussian_process=False)
    assert imported and not [name for name in imported if "_gp" in name]  # which import torch

    ray, _ = HOOKS
    monkeypatch.setitem(HOOKS, ray, ("ray.tune:Gone._part",))
    command = [QUICKSTART, "--runs", tmp_path / "runs"]
    (line,) = invoke(main, *command, code=1).stderr.splitlines()
    assert not list(tmp_path.iterdir())
    assert "ray.tune:Gone._part" in line and f"'{ray}'" in line
    invoke(main, *command, "--dry-run")
