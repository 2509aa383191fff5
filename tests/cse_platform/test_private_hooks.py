"""What is used of Ray and Optuna that is not public: all there, or a sweep is refused."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cse_platform.cli.sweep import main
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.private_ray import RAY, RAY_HOOKS, refuse_other_ray
from cse_platform.search.private_optuna import OPTUNA, OPTUNA_HOOKS, refuse_other_optuna


@pytest.mark.parametrize("refuse", [refuse_other_ray, refuse_other_optuna])
def test_the_installed_version_has_all_of_them(refuse: Callable[[], None]) -> None:
    refuse()


@pytest.mark.parametrize("hook", [*RAY_HOOKS, *OPTUNA_HOOKS])
def test_a_name_that_no_version_has_is_missed(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its kind, so that each of them is really looked for."""
    monkeypatch.setattr("cse_platform.runner.private_ray.RAY_HOOKS", [f"{hook}_gone"])
    with pytest.raises(SweepRefusedError, match="_gone; pip install 'ray"):
        refuse_other_ray()


def test_a_sweep_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cse_platform.runner.private_ray.RAY_HOOKS", ["ray.tune:Gone._part"])
    result = CliRunner().invoke(main, [str(tmp_path / "sweep.yaml")])
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1
    assert "ray.tune:Gone._part" in line and f"'{RAY}'" in line


def test_the_project_asks_for_these_versions() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    asked = [one.replace("[tune]", "") for one in project["dependencies"]]
    assert {RAY, OPTUNA} <= set(asked)
