"""The package that `cse-sweep new-method` writes: the pages show it, and it works as it stands."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from outside_methods import keep_registry, lay_metadata

from cse_methods import registry
from cse_methods.entry_points import ENTRY_POINT_GROUP
from cse_methods.testing import (
    loss_parts_sum_to_the_loss,
    progress_ends_at_one,
    reports_dev_points,
)
from cse_platform.cli.sweep import main
from cse_platform.sweep.file import load_sweep

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package as pip leaves it: its files, and metadata that names its entry points."""
    folder = tmp_path / "a lab" / "labcse"
    written = CliRunner().invoke(main, ["new-method", "labcse", str(folder)])
    assert written.exit_code == 0, written
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lay_metadata(folder, project["name"], project["entry-points"][ENTRY_POINT_GROUP])
    keep_registry(monkeypatch)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for module in ("labcse", "test_labcse"):
        sys.modules.pop(module, None)


def test_the_pages_show_it_whole_and_its_sweep_fits(package: Path) -> None:
    written = {path.name: path.read_text("utf-8") for path in package.iterdir() if path.is_file()}
    assert sorted(written) == ["labcse.py", "labcse.yaml", "pyproject.toml", "test_labcse.py"]
    block = re.compile(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    for page in ("CONTRIBUTING.md", "docs/own-method.md"):
        assert dict(block.findall((ROOT / page).read_text("utf-8"))) == written, page
    assert "labcse" in registry.available_methods()
    [sweep] = load_sweep(package / "labcse.yaml").stages
    config = sweep.config({"learning_rate": 1e-3, "pull": "hinge", "margin": 0.5})
    assert config.hyperparameters()["margin"] == 0.5


def test_its_method_passes_the_checks_that_its_tests_name(package: Path) -> None:
    tests: Any = import_module("test_labcse")
    assert len(tests.CHECKS) >= 8
    settings = {"backbone": "mini", "dev": tests.DEV, "max_steps": 2, "pull": "hinge"}
    trained = tests.train_once("labcse", settings, folder=package / "checkpoints")
    for check in (reports_dev_points, loss_parts_sum_to_the_loss, progress_ends_at_one):
        assert check in tests.CHECKS
        check(trained)
