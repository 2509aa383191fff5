"""Draws under `require`: every trial satisfies it, and none is spent on finding that out."""

from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from search_studies import in_memory

from cse_platform.search.proposals import preview

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
    {"kind": "tpe", "startup_trials": 5},
    {"kind": "cmaes", "population": 4},
]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler["kind"])
@pytest.mark.parametrize("require", [HALF, CORNER], ids=["half", "corner"])
def test_every_trial_satisfies_and_is_told_truly(new_spec, sampler, require) -> None:
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


def test_a_dry_run_shows_what_satisfies(new_spec) -> None:
    spec = new_spec(space=SPACE, require=HALF)
    drawn = preview(spec, start_points=(), count=10)
    assert all(point["x"] >= point["y"] and point.get("depth", 0) <= 5 for point in drawn)
    grid = {"a": [1, 2, 3], "b": [1, 2, 3]}
    of_grid = new_spec(space=grid, require=["a < b"], search={"sampler": "grid", "trials": None})
    assert preview(of_grid, start_points=(), count=of_grid.budget) == [
        {"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 2, "b": 3}
    ]  # fmt: skip
