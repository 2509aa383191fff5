import math
from typing import Any

from in_process import new_spec
from search_studies import asked, lived, opened, tell_live

from cse_platform.sweep.space.space import Space
from cse_platform.tracking.history import History

MIXED: dict[str, Any] = {
    "depth": {"low": 1, "high": 64, "when": {"kind": "b"}},
    "kind": ["a", "b"],
    "temperature": {"low": 0.1, "high": 0.9, "step": 0.1},
    "parts": [["x"], ["x", "y"]],
    "extra": [{"p": 0.5, "q": 1.0}, {}],
}


def test_the_sequence_follows_from_seed_and_number_in_any_order_of_the_file() -> None:
    spec, history = new_spec(space=MIXED), History()
    expected = asked(opened(spec), 4)
    first = asked(opened(spec), 2, history)
    assert first + asked(opened(spec, history=history), 2) == expected
    assert opened(spec).preview(4) == expected
    assert len({str(one) for one in expected}) > 1
    elsewhere = new_spec(space=MIXED, search={"seed": 2})
    assert opened(elsewhere).preview(4) != expected
    turned = dict(reversed(MIXED.items()))
    one, other = (opened(new_spec(space=s)).preview(5) for s in (MIXED, turned))
    assert one == other
    search = opened(new_spec(space=MIXED, search={"sampler": "qmc"}))
    first = search.ask()
    assert search.ask() == first and search.study.trials == []


def test_values_come_back_as_the_file_has_them() -> None:
    drawn = opened(new_spec(space=MIXED)).preview(30)
    for one in drawn:
        assert one["parts"] in (["x"], ["x", "y"])
        assert one["extra"] in ({"p": 0.5, "q": 1.0}, {})
        assert one["temperature"] in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        assert ("depth" in one) == (one["kind"] == "b")
        assert isinstance(one.get("depth", 1), int)
    assert len({one["temperature"] for one in drawn}) > 4


def test_start_points_come_first_and_once() -> None:
    spec = new_spec(space=MIXED, search={"sampler": "tpe"})
    full = {"kind": "b", "depth": 7, "temperature": 0.3, "parts": ["x", "y"], "extra": {}}
    points = (full, {"temperature": 0.7})
    history = History()
    assert asked(opened(spec, *points), 1, history) == [full]
    second, third = asked(opened(spec, *points, history=history), 2)
    assert second["temperature"] == 0.7
    assert third != full


def test_a_grid_is_every_point_once() -> None:
    space = {
        "kind": ["a", "b"],
        "depth": {"low": 1, "high": 3, "when": {"kind": "b"}},
        "temperature": {"low": 0.1, "high": 0.3, "step": 0.1},
    }
    spec = new_spec(space=space, search={"sampler": "grid", "trials": None})
    start = {"kind": "b", "depth": 2}  # three points of the grid, and they come first
    history = History()
    drawn = asked(opened(spec, start), 5, history)
    drawn += asked(opened(spec, start, history=history), spec.budget - 5)
    assert spec.budget == 12
    assert sorted(map(str, drawn)) == sorted(map(str, spec.space.grid_points()))
    assert [one.get("depth") for one in drawn[:3]] == [2, 2, 2]


def test_a_point_that_a_person_enqueues_is_not_tried_again() -> None:
    grid = [{"kind": kind} for kind in "abcd"]
    spec = new_spec(space={"kind": list("abcd")}, search={"sampler": "grid", "trials": None})
    history = History()
    search = opened(spec)
    drawn = asked(search, 1, history, grid[1], request="next")
    drawn += asked(search, 1, history) + asked(search, 1, history, grid[3], request="last")
    again = opened(spec, history=history)
    for one in (search, again):
        assert not one.has_tried_grid and one.ask().assignment == grid[2]
    drawn += asked(search, 1, history)
    assert drawn == [grid[1], grid[0], grid[3], grid[2]]
    assert search.has_tried_grid and opened(spec, history=history).has_tried_grid
    start = new_spec(space={"kind": list("abcd")})
    search = opened(start, *grid[:2])
    assert asked(search, 1, point=grid[0], request="r") + asked(search, 1) == grid[:2]


def test_a_grid_of_any_size_is_counted_and_only_asked_points_are_made() -> None:
    """4 kinds, of which b has 1000 depths: (3 + 1000) x 10^9 x 200 points."""
    space = {
        "kind": ["a", "b", "c", "d"],
        "depth": {"low": 1, "high": 1000, "when": {"kind": "b"}},
        "temperature": {"low": 0.001, "high": 1.0, "step": 0.001},
        "y": {"low": 1, "high": 1000000},
        "x": {"low": 1, "high": 200},
    }
    grid: dict[str, Any] = {"sampler": "grid", "trials": None}
    spec = new_spec(space=space, search=grid)
    assert spec.budget == spec.planned == 1003 * 10**9 * 200
    assert new_spec(space=space, search=grid | {"trials": 7}).budget == 7
    assert spec.model_copy(update={"space": Space({"x": spec.space["x"]})}).budget == 200
    start = {"depth": 3, "x": 5}
    expected = [{"kind": "b", "depth": 3, "temperature": 0.001, "y": y, "x": 5} for y in (1, 2)]
    assert opened(spec, start).preview(2) == expected
    search = opened(spec, start)
    assert asked(search, 2) == expected
    assert [trial.params for trial in search.study.trials] == expected


def test_the_study_has_the_truth() -> None:
    search = opened(new_spec())
    asked(search, 3)
    tell_live(search, lived(0, [0.1, 0.6, 0.4], state="COMPLETE"))
    tell_live(search, lived(1, [0.1, 0.3], state="PRUNED"))
    tell_live(search, lived(2, [math.nan, math.nan], state="FAIL"))
    complete, pruned, failed = search.study.get_trials()
    assert [t.state.name for t in (complete, pruned, failed)] == ["COMPLETE", "PRUNED", "FAIL"]
    assert complete.value == 0.6  # the best, not the last
    assert complete.intermediate_values == {1: 0.6, 2: 0.6}  # what would have been kept
    assert pruned.intermediate_values == {1: 0.3}
    assert failed.value is None and math.isnan(failed.intermediate_values[1])


def test_pruners_stop_the_worst() -> None:
    for pruner, stopped_at in PRUNERS:
        search = opened(new_spec(pruner=pruner))
        asked(search, 3)
        for number, level in enumerate((0.7, 0.8)):
            curve = [0.1, *(level + 0.01 * step for step in range(4))]
            verdicts = tell_live(search, lived(number, curve, state="COMPLETE"))
            assert number == 0 or not any(verdicts), pruner
        worst = [0.9, *[0.2] * 4]
        verdicts = tell_live(search, lived(2, worst))
        assert next((step for step, stops in enumerate(verdicts) if stops), None) == stopped_at


def test_a_further_seed_is_trained_to_its_end() -> None:
    search = opened(new_spec(pruner={"kind": "threshold", "lower": 0.3}))
    asked(search, 2)
    assert any(tell_live(search, lived(0, [0.9, 0.2])))
    assert not any(tell_live(search, lived(1, [0.9, 0.2], role="confirm")))


PRUNERS: list[tuple[dict[str, Any], int | None]] = [
    ({"kind": "none"}, None),
    ({"kind": "median", "startup_trials": 2, "min_step": 2}, 2),
    ({"kind": "threshold", "lower": 0.3, "min_step": 2}, 2),
    ({"kind": "patient", "patience": 2, "min_step": 4}, 4),
    # One of two passes a rung: rungs at 1, 2, 4, and it is the worst of three at the first.
    ({"kind": "successive_halving", "min_step": 1, "reduction_factor": 2}, 1),
    # One bracket, which is a successive halving from step 2.
    ({"kind": "hyperband", "min_step": 2, "max_step": 3, "reduction_factor": 2}, 2),
]
"""Each with the step at which it stops the worst of three."""


def test_a_trial_is_patient_for_as_many_points_as_it_says() -> None:
    """A rise of the first of the last two points is still waited for."""
    for scores, stops in (([0.5, 0.6, 0.6], False), ([0.5, 0.6, 0.6, 0.6], True)):
        search = opened(new_spec(pruner={"kind": "patient", "patience": 2}))
        asked(search, 1)
        assert any(tell_live(search, lived(0, [0.9, *scores]))) is stops


def test_step_0_and_a_fall_after_the_peak_say_nothing_about_what_was_trained() -> None:
    """Step 0 is the highest of some curves; and a trial is no worse for what comes after its best.

    The worst are stopped where training lowers the score, and none for its fall.
    """
    for kind, began, curves, stops in (
        ({"kind": "median", "startup_trials": 2}, 0.6, [[0.5] * 3, [0.4] * 3, [0.1] * 3], True),
        (
            {"kind": "successive_halving", "min_step": 2},
            0.1,
            [[0.5] * 3] * 4 + [[0.6, 0.2, 0.2]],
            False,
        ),
    ):
        search = opened(new_spec(pruner=kind))
        asked(search, len(curves))
        for number, curve in enumerate(curves[:-1]):
            tell_live(search, lived(number, [began, *curve], state="COMPLETE"))
        assert any(tell_live(search, lived(len(curves) - 1, [began, *curves[-1]]))) is stops
