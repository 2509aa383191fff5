"""Which configurations the study proposes, in which order, and with which values."""

from typing import Any

from search_studies import asked, opened

from cse_platform.search.proposals import preview
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.history import History

MIXED: dict[str, Any] = {
    "depth": {"low": 1, "high": 64, "when": {"kind": "b"}},
    "kind": ["a", "b"],
    "temperature": {"low": 0.1, "high": 0.9, "step": 0.1},
    "parts": [["x"], ["x", "y"]],
    "extra": [{"p": 0.5, "q": 1.0}, {}],
}


def test_the_sequence_follows_from_seed_and_number(new_spec) -> None:
    """Replayed between two asks, or only previewed: the same."""
    spec, history = new_spec(space=MIXED), History()
    expected = asked(opened(spec), 4)
    first = asked(opened(spec), 2, history)
    assert first + asked(opened(spec, history=history), 2) == expected
    assert preview(spec, start_points=(), count=4) == expected
    assert len({str(one) for one in expected}) > 1
    elsewhere = new_spec(space=MIXED, search={"seed": 2})
    assert preview(elsewhere, start_points=(), count=4) != expected


def test_the_order_of_the_file_changes_nothing(new_spec) -> None:
    turned = dict(reversed(MIXED.items()))
    one, other = (preview(new_spec(space=s), start_points=(), count=5) for s in (MIXED, turned))
    assert one == other


def test_a_proposal_that_does_not_begin_leaves_nothing_and_comes_again(new_spec) -> None:
    """Also of a sampler that counts in the study."""
    search = opened(new_spec(space=MIXED, search={"sampler": "qmc"}))
    first = search.ask()
    assert search.ask() == first and search.study.trials == []


def test_values_come_back_as_the_file_has_them(new_spec) -> None:
    drawn = preview(new_spec(space=MIXED), start_points=(), count=30)
    for one in drawn:
        assert one["parts"] in (["x"], ["x", "y"])
        assert one["extra"] in ({"p": 0.5, "q": 1.0}, {})
        assert one["temperature"] in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        assert ("depth" in one) == (one["kind"] == "b")
        assert isinstance(one.get("depth", 1), int)
    assert len({one["temperature"] for one in drawn}) > 4


def test_start_points_come_first_and_once(new_spec) -> None:
    spec = new_spec(space=MIXED, search={"sampler": "tpe"})
    full = {"kind": "b", "depth": 7, "temperature": 0.3, "parts": ["x", "y"], "extra": {}}
    points = (full, {"temperature": 0.7})
    history = History()
    assert asked(opened(spec, *points), 1, history) == [full]
    second, third = asked(opened(spec, *points, history=history), 2)
    assert second["temperature"] == 0.7
    assert third != full


def test_a_grid_is_every_point_once(new_spec) -> None:
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


def test_a_point_that_a_person_enqueues_is_not_tried_again(new_spec) -> None:
    """Neither in the same run nor after a restart; the next point, a later one, or the last."""
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


def test_a_grid_of_any_size_is_counted_and_only_asked_points_are_made(new_spec) -> None:
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
    assert preview(spec, start_points=(start,), count=2) == expected
    search = opened(spec, start)
    assert asked(search, 2) == expected
    assert [trial.params for trial in search.study.trials] == expected
