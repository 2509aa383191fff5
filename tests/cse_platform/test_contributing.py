"""CONTRIBUTING's package from outside: its four files, copied as they stand, work."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from outside_methods import lay_metadata

from cse_methods import registry
from cse_methods.entry_points import ENTRY_POINT_GROUP
from cse_methods.testing import (
    loss_parts_sum_to_the_loss,
    progress_ends_at_one,
    reports_dev_points,
)
from cse_platform.sweep.reading.loader import load_sweep

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
FILES: dict[str, str] = dict(
    re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip leaves it: its files, and metadata that names its entry points."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    lay_metadata(tmp_path, project["name"], project["entry-points"][ENTRY_POINT_GROUP])
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.syspath_prepend(tmp_path)
    for module in (project["name"], f"test_{project['name']}"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def test_its_method_is_found_and_its_sweep_fits(package: Path) -> None:
    assert list(FILES) == ["pyproject.toml", "labcse.py", "test_labcse.py", "labcse.yaml"]
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
