"""The package that `cse-sweep new-method` writes: a page shows it, and it works as it stands."""

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from outside_methods import keep_registry, lay_metadata

from cse_methods import registry
from cse_methods.entry_points import ENTRY_POINT_GROUP
from cse_methods.testing import loss_parts_sum_to_the_loss, progress_ends_at_one, reports_dev_points
from cse_platform.cli.sweep import main
from cse_platform.sweep.file import load_sweep

ROOT = Path(__file__).parents[2]
typed = partial(invoke, main, "new-method")


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """The package as pip leaves it: its files, and metadata that names its entry points."""
    folder = tmp_path / "a lab" / "labcse"
    typed("labcse", folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lay_metadata(folder, project["name"], project["entry-points"][ENTRY_POINT_GROUP])
    keep_registry(monkeypatch)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for module in ("labcse", "test_labcse"):
        sys.modules.pop(module, None)


def test_the_page_shows_it_whole_and_its_sweep_and_checks_pass(package) -> None:
    written = {path.name: path.read_text("utf-8") for path in package.iterdir() if path.is_file()}
    assert sorted(written) == ["labcse.py", "labcse.yaml", "pyproject.toml", "test_labcse.py"]
    block = re.compile(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    page = ROOT / "docs" / "own-method.md"
    assert dict(block.findall(page.read_text("utf-8"))) == written
    assert "labcse" in registry.available_methods()
    [sweep] = load_sweep(package / "labcse.yaml").stages
    config = sweep.config({"learning_rate": 1e-3, "pull": "hinge", "margin": 0.5})
    assert config.hyperparameters()["margin"] == 0.5
    tests: Any = import_module("test_labcse")
    assert len(tests.CHECKS) >= 8
    settings = {"backbone": "mini", "dev": tests.DEV, "max_steps": 2, "pull": "hinge"}
    trained = tests.train_once("labcse", settings, folder=package / "checkpoints")
    for check in (reports_dev_points, loss_parts_sum_to_the_loss, progress_ends_at_one):
        assert check in tests.CHECKS
        check(trained)


def test_the_name_is_that_of_method_module_and_entry_point(tmp_path) -> None:
    written = typed("my_cse2", tmp_path / "new" / "folder")
    names = ["pyproject.toml", "my_cse2.py", "test_my_cse2.py", "my_cse2.yaml"]
    files = [tmp_path / "new" / "folder" / name for name in names]
    assert written.stdout.splitlines()[:4] == [str(file) for file in files]
    project = tomllib.loads(files[0].read_text())["project"]
    assert project["entry-points"]["cse.methods"] == {"my_cse2": "my_cse2"}
    module = files[1].read_text()
    compile(module, "my_cse2.py", "exec")
    assert "class MyCse2Config(TrainingConfig)" in module
    assert '@register_objective(\n    "my_cse2",' in module


def test_an_empty_folder_is_as_good_as_a_new_one(tmp_path) -> None:
    typed("labcse", tmp_path)
    again = typed("labcse", tmp_path, code=1)
    assert again.stdout == ""
    assert f"{tmp_path} is not empty (labcse.py, " in again.stderr
    (tmp_path / "file").touch()
    refused = typed("labcse", tmp_path / "file" / "labcse", code=1)
    assert refused.stdout == ""
    assert "labcse cannot be written: " in refused.stderr
