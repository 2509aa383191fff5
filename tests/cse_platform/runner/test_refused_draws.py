"""Draws that the method's validator refuses: they are made again, and no trial is spent on them."""

from dataclasses import replace
from typing import Any

import pytest
from cheap import CheapConfig
from pydantic import model_validator
from search_studies import asked, in_memory, opened, score
from sweep_events import life

from cse_methods import registry
from cse_methods.errors import SettingError
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.search.proposals import preview
from cse_platform.sweep import spec as spec_module
from cse_platform.tracking.events import TrialStarted
from cse_platform.tracking.history import History

SPACE: dict[str, Any] = {
    "x": {"low": 0.0, "high": 1.0},
    "y": {"low": 0.0, "high": 1.0},
    "kind": ["a", "b"],
    "depth": {"low": 1, "high": 9, "when": {"kind": "b"}},
}
GRID: dict[str, Any] = {"sampler": "grid", "trials": None}


class RuledConfig(CheapConfig):
    """`x` is at least `y`, and by `gap` more."""

    x: float = 1
    y: float = 0
    gap: float = 0

    @model_validator(mode="after")
    def _check_order(self) -> "RuledConfig":
        if self.x < self.y + self.gap or (self.depth or 0) > 8:
            raise SettingError("x", f"x={self.x:g} is below y={self.y:g} + {self.gap:g}")
        return self


@pytest.fixture(autouse=True)
def ruled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry._METHODS, "cheap", replace(get_method("cheap"), config=RuledConfig)
    )


def is_allowed(point: dict[str, Any], gap: float = 0) -> bool:
    return point["x"] >= point["y"] + gap and point.get("depth", 0) <= 8


def slow(*values: Any) -> list[Any]:
    return [pytest.param(*value, marks=pytest.mark.slow) for value in values]


@pytest.mark.parametrize(
    ("sampler", "gap"),
    [
        ({"kind": "tpe", "startup_trials": 3}, 0),
        ({"kind": "random"}, 0.8),
        *slow(({"kind": "gp", "startup_trials": 4}, 0.5), ({"kind": "cmaes"}, 0.8)),
    ],
)
def test_a_search_with_refused_draws_goes_on_after_each_stop_as_without_one(
    new_spec, sampler, gap
) -> None:
    """A fiftieth of the square is allowed where the gap is 0.8."""
    trials = 8
    search = {"sampler": sampler, "trials": trials}
    spec = new_spec(space=SPACE, fixed={"gap": gap}, search=search)
    undisturbed = in_memory(spec, trials)
    assert all(is_allowed(point, gap) for point in undisturbed)
    assert len({point["x"] for point in undisturbed}) > 4
    found, history = [], History()
    for number in range(trials):
        (point,) = asked(opened(spec, history=history), 1, history)
        found.append(point)
        for event in life(number, {0: score(point)}, sweep="small", trial=f"t{number}")[1:]:
            history.apply(event)
    assert found == undisturbed


def test_a_grid_leaves_out_what_is_refused(new_spec, monkeypatch) -> None:
    whole = {name: {"low": 1, "high": 3} for name in "xy"}
    spec = new_spec(space=whole, fixed={"gap": 1}, search=GRID)
    expected = [{"x": 2, "y": 1}, {"x": 3, "y": 1}, {"x": 3, "y": 2}]
    assert preview(spec, start_points=(), count=3) == expected
    search = opened(spec)
    assert asked(search, 3) == expected and search.has_tried_grid
    monkeypatch.setattr(spec_module, "MOST_REFUSED", 3)
    with pytest.raises(SweepRefusedError, match="cheap refuses 3 points of the grid in a row"):
        preview(spec, start_points=(), count=1)


def test_no_trial_is_spent_on_what_is_refused(new_spec, new_drive, tmp_path) -> None:
    plane = {name: SPACE[name] for name in "xy"}
    drive = new_drive(tmp_path, new_spec(space=plane, search={"trials": 4})).run()
    started = [event for event in drive.events() if isinstance(event, TrialStarted)]
    assert len(started) == len(drive.trials) == 4
    assert all(is_allowed(event.values) for event in started)
    assert [event.search_number for event in started] == [0, 1, 2, 3]
