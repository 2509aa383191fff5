import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import grimp
import pytest
from in_process import new_spec
from outside_methods import keep_registry, lay_metadata
from processes import python

from cse_methods.code_hash import code_hashes
from cse_methods.registry import get_method
from cse_platform.runner import OUTSIDE
from cse_platform.runner.pinned_packages import (
    DRIVER_PACKAGES,
    TAGGER_PACKAGES,
    TRIAL_PACKAGES,
    find_installed,
    find_pinned,
    list_lacking,
)
from cse_platform.runner.shipping import Shipment, shipment_of

METHOD = """
from pathlib import Path

from cse_methods import MethodConfig, Paper, register
from shipped_beside import SCALE

TABLE = (Path(__file__).parent / "table.csv").read_text()

@register("shipped", config=MethodConfig, paper=Paper("A", "https://example.org", 2024), revision=1)
def train(config, run):
    return {"dev/stsb_spearman": SCALE}
"""
BASE = """
from cse_methods import Paper, TrainingConfig, TwoViewObjective, info_nce, register_objective
from shipped_beside import SCALE

class Lab(TwoViewObjective):
    def losses(self, first, second, *_, **__):
        return {"contrastive": info_nce(first, second, temperature=SCALE)}

@register_objective(
    "shipped", config=TrainingConfig, paper=Paper("A", "https://example.org", 2024), revision=1
)
def build(config, corpus, student) -> Lab:
    return Lab()
"""
REQUIRES = ("numpy>=2", "torch", "pytest", "never-installed; extra == 'gpu'", "absent-package")
ON_A_NODE = """
import json, sys
from importlib.metadata import version
import cse_methods, cse_platform.errors, cse_platform.runner
from cse_methods.code_hash import code_hashes
from cse_methods.registry import get_method
method = get_method("shipped")
files = cse_methods.__file__, cse_platform.errors.__file__, sys.modules["shipped.method"].__file__
print(json.dumps([files, version("shipped"), version("cse-platform"), code_hashes(method)]))
"""
IN_A_WORKER = """
import importlib, json, pkgutil, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import cse_methods
for module in pkgutil.walk_packages(cse_methods.__path__, "cse_methods."):
    importlib.import_module(module.name)
ours = ("cse_methods", "cse_platform")
print(json.dumps([name for name in sys.modules if name.startswith(ours)]))
"""
RUNNER = "cse_platform.runner"
NEVER_IN_A_TRIAL = {"Jinja2", "sentence-transformers"}
"""`new-method` writes a package with the one; with the other, strange models are scored by hand."""
BEHIND_OTHERS = {"fsspec", "sentencepiece", "tokenizers"}
"""Ray Tune imports the first, transformers the others."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source folder: a method's package, a module beside it that it uses, and other things."""
    keep_registry(monkeypatch)
    folder = tmp_path / "site"
    lay_metadata(folder, "shipped", {"shipped": "shipped.method"})
    with (folder / "shipped-1.0.dist-info" / "METADATA").open("a") as metadata:
        metadata.writelines(f"Requires-Dist: {line}\n" for line in REQUIRES)
    (folder / "shipped" / "__pycache__").mkdir(parents=True)
    (folder / "shipped" / "__pycache__" / "method.pyc").write_text("")
    (folder / "shipped" / "method.py").write_text(METHOD)
    (folder / "shipped" / "table.csv").write_text("1\n")
    (folder / "shipped_beside.py").write_text("SCALE = 0.5\n")
    (folder / "private.txt").write_text("of nobody's concern")
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("shipped")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return folder


@pytest.fixture
def shipped(site: Path) -> Callable[[], Shipment]:
    spec = new_spec(method="shipped", space={}, fixed={}, backbone="mini")
    return lambda: shipment_of([spec])


def lay(shipment: Shipment, folder: Path) -> list[Path]:
    """The folders of Python's path on a node, with what Ray has unpacked there."""
    environment = shipment.environment(folder / "sent")
    for number, module in enumerate(environment["py_modules"]):
        shutil.copytree(module, folder / str(number) / Path(module).name)
    return [folder / str(n) for n in range(number + 1)]


def files_of(shipment: Shipment, folder: Path) -> set[str]:
    outside = lay(shipment, folder)[-1] / OUTSIDE
    files = {str(file.relative_to(outside)) for file in outside.rglob("*") if file.is_file()}
    return files - {"__init__.py"}


def test_a_node_runs_what_has_travelled(shipped, tmp_path) -> None:
    folders = lay(shipped(), tmp_path)
    # This Python has cse-platform, too, and another version of `shipped` comes later in its path.
    lay_metadata(tmp_path / "older", "shipped", {"shipped": "older.method"})
    path = os.pathsep.join(map(str, [*folders, tmp_path / "older"]))
    done = python(ON_A_NODE, env=os.environ | {"PYTHONPATH": path})
    files, *versions, hashes = json.loads(done.stdout)
    assert all(Path(file).is_relative_to(tmp_path) for file in files)
    assert versions == ["1.0", version("cse-platform")]
    assert hashes == code_hashes(get_method("shipped"))
    assert {"shipped.method", "shipped_beside"} <= hashes.keys()


def test_nothing_else_of_the_user_s_folder_travels(site, shipped, tmp_path) -> None:
    (site / "scale.txt").write_text("0.5")
    (site / "shipped_beside.py").write_text("SCALE, TABLE = 0.5, 'scale.txt'\n")
    metadata = {f"shipped-1.0.dist-info/{name}" for name in ("METADATA", "entry_points.txt")}
    source = {"shipped/method.py", "shipped/table.csv", "shipped_beside.py", "scale.txt"}
    assert files_of(shipped(), tmp_path / "node") == metadata | source


def test_the_base_of_a_method_of_ours_travels(site, tmp_path) -> None:
    (site / "shipped" / "method.py").write_text(BASE)
    fixed = {"teachers": "mini", "base": "shipped"}
    spec = new_spec(method="rankcse", space={}, fixed=fixed, backbone="mini")
    shipment = shipment_of([spec])
    files = files_of(shipment, tmp_path / "node")
    assert {"shipped/method.py", "shipped_beside.py"} <= files
    assert "shipped-1.0.dist-info/entry_points.txt" in files
    assert "pytest" in shipment.packages
    hashes = code_hashes(spec.find_method())
    assert {"cse_methods.papers.rankcse", "shipped.method", "shipped_beside"} <= hashes.keys()


def test_an_outside_method_s_own_requirements_are_pinned(shipped) -> None:
    packages = shipped().packages
    assert packages["pytest"] == version("pytest")
    assert packages["numpy"] == version("numpy")
    assert not {"ray", "torch", "never-installed", "absent-package"} & packages.keys()
    # What was installed from a folder is not asked of an index.
    assert find_pinned(["cse-platform", "numpy"]) == {"numpy": version("numpy")}


def test_a_machine_lacks_what_it_has_in_another_version() -> None:
    wanted = {"numpy": version("numpy"), "pydantic": "0.1", "never-installed": "2"}
    there = find_installed(wanted)
    assert list_lacking(wanted, there) == ["pydantic==0.1", "never-installed==2"]
    assert {"Python", "torch"} < there.keys()


def imported_by(wanted: Callable[[str], bool]) -> set[str]:
    """What modules of ours import that is neither of ours nor of Python."""
    graph = grimp.build_graph(
        "cse_methods", "cse_platform", include_external_packages=True, cache_dir=None
    )
    return {
        name
        for module in filter(wanted, graph.modules)
        for name in graph.find_modules_directly_imported_by(module)
        if name.partition(".")[0] not in sys.stdlib_module_names | {"cse_methods", "cse_platform"}
    }


@pytest.mark.slow
def test_the_packages_of_a_trial_are_those_that_its_modules_import() -> None:
    """Also within functions, which import what most trials do not need."""
    processes = ("worker", "model_tasks")
    modules = (*processes, "node_facts", "pinned_packages")
    done = python(IN_A_WORKER, *(f"{RUNNER}.{name}" for name in modules))
    imported = imported_by(set(json.loads(done.stdout)).__contains__)
    expected = {*TRIAL_PACKAGES, *TAGGER_PACKAGES, *NEVER_IN_A_TRIAL} - BEHIND_OTHERS
    modules_of = {"scikit-learn": "sklearn", "ruamel.yaml": "ruamel", "Jinja2": "jinja2"}
    here = {modules_of.get(name, name.replace("-", "_")) for name in expected}
    assert imported == here | {"click", "pydantic_core", "ray", "spacy", "torch"}  # Ray has click


def test_a_driver_gets_all_that_the_platform_imports() -> None:
    """What is not its own comes with Ray, or is never needed by a job."""
    imported = imported_by(lambda module: module.startswith("cse_platform"))
    named_alike = {name.replace("-", "_") for name in (*TRIAL_PACKAGES, *DRIVER_PACKAGES)}
    others = {
        "apprise",
        "mteb",
        "packaging",
        "pydantic_core",
        "ray",
        "requests",
        "ruamel",
        "tomli_w",
    }
    others |= {"torch"}
    assert imported - named_alike == others
