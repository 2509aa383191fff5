"""Draws that the method's validator refuses: they are made again, and no trial is spent on them."""

from dataclasses import replace
from typing import Any

import pytest
from cheap import CheapConfig
from pydantic import model_validator
from search_studies import asked, in_memory, opened, score
from sweep_events import life

from cse_methods import registry
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.search.proposals import preview
from cse_platform.sweep import spec as spec_module
from cse_platform.tracking.events import TrialStarted
from cse_platform.tracking.history import History

PLANE: dict[str, Any] = {name: {"low": 0.0, "high": 1.0} for name in "xy"}
TPE, GP = ({"kind": kind, "startup_trials": 3} for kind in ("tpe", "gp"))


class RuledConfig(CheapConfig):
    x: float = 1
    y: float = 0
    gap: float = 0

    @model_validator(mode="after")
    def _check_order(self) -> "RuledConfig":
        if self.x < self.y + self.gap:
            raise ValueError("x is too low")
        return self


@pytest.fixture(autouse=True)
def ruled(monkeypatch: pytest.MonkeyPatch) -> None:
    method = replace(get_method("cheap"), config=RuledConfig)
    monkeypatch.setitem(registry._METHODS, "cheap", method)


@pytest.mark.parametrize(
    ("sampler", "gap"),
    [
        (TPE, 0),
        ({"kind": "random"}, 0.8),  # a fiftieth of the square
        pytest.param(GP, 0.5, marks=pytest.mark.slow),
        pytest.param({"kind": "cmaes"}, 0.8, marks=pytest.mark.slow),
    ],
)
def test_a_search_with_refused_draws_goes_on_after_each_stop(new_spec, sampler, gap) -> None:
    spec = new_spec(space=PLANE, fixed={"gap": gap}, search={"sampler": sampler, "trials": 8})
    undisturbed = in_memory(spec, 8)
    assert all(point["x"] >= point["y"] + gap for point in undisturbed)
    assert len({point["x"] for point in undisturbed}) > 4
    found, history = [], History()
    for number in range(8):
        (point,) = asked(opened(spec, history=history), 1, history)
        found.append(point)
        for event in life(number, {0: score(point)}, sweep="small", trial=f"t{number}")[1:]:
            history.apply(event)
    assert found == undisturbed


def test_a_grid_leaves_out_what_is_refused(new_spec, monkeypatch) -> None:
    whole = {name: {"low": 1, "high": 3} for name in "xy"}
    search = {"sampler": "grid", "trials": None}
    spec = new_spec(space=whole, fixed={"gap": 1}, search=search)
    expected = [{"x": 2, "y": 1}, {"x": 3, "y": 1}, {"x": 3, "y": 2}]
    study = opened(spec)
    assert preview(spec, start_points=(), count=3) == asked(study, 3) == expected
    assert study.has_tried_grid
    monkeypatch.setattr(spec_module, "MOST_REFUSED", 3)
    with pytest.raises(SweepRefusedError, match="cheap refuses 3 points of the grid in a row"):
        preview(spec, start_points=(), count=1)


def test_no_trial_is_spent_on_what_is_refused(new_spec, new_drive, tmp_path) -> None:
    drive = new_drive(tmp_path, new_spec(space=PLANE, search={"trials": 4})).run()
    started = [event for event in drive.events() if isinstance(event, TrialStarted)]
    assert [event.search_number for event in started] == [0, 1, 2, 3]
    assert all(event.values["x"] >= event.values["y"] for event in started)
