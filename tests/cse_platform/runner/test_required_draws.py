"""Draws under `require`: every trial satisfies it, and none is spent on finding that out."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from in_process import NewSpec
from optuna.distributions import FloatDistribution
from search_studies import alone, asked, in_memory, opened

from cse_platform.errors import SweepRefusedError
from cse_platform.search.proposals import preview
from cse_platform.sweep.start_points import point_to_try

SPACE: dict[str, Any] = {
    "x": {"low": 0.0, "high": 1.0},
    "y": {"low": 0.0, "high": 1.0},
    "kind": ["a", "b"],
    "depth": {"low": 1, "high": 9, "when": {"kind": "b"}},
}
HALF = ["x >= y", "depth <= 5"]
CORNER = ["x + y >= 1.98"]
SAMPLERS: list[dict[str, Any]] = [
    {"kind": "random"},
    {"kind": "qmc"},
    {"kind": "tpe", "startup_trials": 5},
    {"kind": "gp", "startup_trials": 5},
    {"kind": "cmaes", "population": 4},
    {"kind": "nsgaii", "population": 4},
]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler["kind"])
@pytest.mark.parametrize("require", [HALF, CORNER], ids=["half", "corner"])
def test_every_trial_satisfies_and_is_told_truly(
    new_spec: NewSpec, sampler: dict[str, Any], require: list[str]
) -> None:
    spec = new_spec(space=SPACE, require=require, search={"sampler": sampler})
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    points = in_memory(spec, 16, study=study)
    assert [spec.requirements.broken_by(point) for point in points] == [None] * 16
    assert [trial.params for trial in study.trials] == points
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}
    assert {trial.distributions["x"] for trial in study.trials} == {FloatDistribution(0.0, 1.0)}
    assert len({point["x"] for point in points}) > 4
    assert in_memory(spec, 16) == points


@pytest.mark.slow
def test_what_a_start_point_leaves_open_is_drawn_so_that_it_holds(
    tmp_path: Path, new_spec: NewSpec
) -> None:
    spec = new_spec(space=SPACE, require=["x >= y"], search={"sampler": "random"})
    starts = [{"y": 0.9}, {"y": 0.999, "kind": "b"}, {"x": 0.5, "y": 0.5}]
    points = asked(opened(tmp_path, spec, *starts), 3)
    for start, point in zip(starts, points, strict=True):
        assert start.items() <= point.items()
    assert all(point["x"] >= point["y"] for point in points)
    assert [trial.params for trial in alone(tmp_path).trials] == points


@pytest.mark.slow
def test_what_is_put_in_by_hand_has_to_satisfy(new_spec: NewSpec) -> None:
    spec = new_spec(space=SPACE, require=["x >= y"])
    assert point_to_try(spec, {"x": 0.5, "y": 0.4}) == {"x": 0.5, "y": 0.4}
    with pytest.raises(SweepRefusedError, match=r"cannot try breaks require 'x >= y', got"):
        point_to_try(spec, {"x": 0.4, "y": 0.5})


def test_a_dry_run_shows_what_satisfies(new_spec: NewSpec) -> None:
    spec = new_spec(space=SPACE, require=HALF)
    drawn = preview(spec, start_points=(), count=10)
    assert all(point["x"] >= point["y"] and point.get("depth", 0) <= 5 for point in drawn)
    grid = {"a": [1, 2, 3], "b": [1, 2, 3]}
    of_grid = new_spec(space=grid, require=["a < b"], search={"sampler": "grid", "trials": None})
    assert preview(of_grid, start_points=(), count=of_grid.budget) == [
        {"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 2, "b": 3}
    ]  # fmt: skip
