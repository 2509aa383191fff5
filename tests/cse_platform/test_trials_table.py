"""The trials of a sweep as a table: what passes, in which order, and what is the same for all."""

from typing import Any

import pytest
from stored_trials import apply_events

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.trials_table import TrialChoice
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.sweep.conditions import Condition, format_conditions, parse_conditions
from cse_platform.tracking.events import Event

SPACE = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "kind": ["a", "b,c"],
    "depth": {"choices": [1, 2], "when": {"kind": "a"}},
    "heads": [[1, 2], "neither"],
    "flag": [True, False],
    "always": ["here"],
}
TRIALS: tuple[tuple[Any, ...], ...] = (
    ("COMPLETE", 0.81, {"rate": 1e-4, "kind": "a", "depth": 2, "heads": [1, 2], "flag": True}),
    ("COMPLETE", 0.83, {"rate": 3e-4, "kind": "b,c", "depth": 2, "heads": [1, 2], "flag": False}),
    ("PRUNED", 0.60, {"rate": 2e-5, "kind": "a", "depth": 1, "heads": "neither", "flag": True}),
    ("FAIL", 0.10, {"rate": 9e-4, "kind": "a", "depth": 1, "heads": [1, 2], "flag": True}),
    (None, 0.70, {"rate": 5e-4, "kind": "b,c", "depth": 1, "heads": [1, 2], "flag": True}),
)


@pytest.fixture
def lab(board, sweep_started, trial_life) -> Leaderboard:
    """One sweep with a trial in every state, in each kind of store."""
    events: list[Event] = [sweep_started("all", spec={"sweep": "all", "space": SPACE})]
    for number, (state, value, values) in enumerate(TRIALS):
        events += trial_life(
            number,
            {0: 0.5, 10 + number: value},
            sweep="all",
            state=state,
            trial=f"{number:x}" * 64,
            values={**values, "always": "here", "batch_size": 64},
            searched=tuple(SPACE),
        )
    apply_events(board, events)
    return Leaderboard(board)


def numbers(lab: Leaderboard, where: str = "", **choice: Any) -> list[int]:
    asked = TrialChoice(parse_conditions(where), **choice)
    found = [one.number for one in lab.trials("all", asked)]
    assert lab.count_trials("all", asked) == len(found)
    return found


def test_a_line_has_what_is_known_of_a_trial(lab) -> None:
    lines = list(lab.trials("all"))
    assert [one.state for one in lines] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert [one.value for one in lines] == [0.81, 0.83, 0.60, 0.5, 0.70]
    assert [one.last_step for one in lines] == [10, 11, 12, 13, 14]
    assert lines[3].error == "loss is NaN"
    assert (lines[0].wall_seconds, lines[4].wall_seconds, lines[4].finished) == (1.5, None, None)
    assert lines[0].values["depth"] == 2
    assert "depth" not in lines[1].values  # it has no effect in this kind
    found = lab.hyperparameters("all")
    assert found.varying == ("rate", "kind", "depth", "heads", "flag")
    assert dict(found.same) == {"always": "here", "batch_size": 64}


def test_a_value_counts_where_its_comparison_holds(board, sweep_started, trial_life) -> None:
    space = {"w": {"low": 0.0, "high": 1.0}, "d": {"choices": [1, 2], "when": {"w": "> 0.5"}}}
    events: list[Event] = [sweep_started("all", spec={"sweep": "all", "space": space})]
    for number, weight in enumerate((0.0, 0.5, 0.75)):
        values = {"w": weight, "d": 1, "m": [1e-5, "é"]}
        events += trial_life(
            number, {0: 0.5}, sweep="all", trial=f"{number:x}" * 64, values=values, searched=("w",)
        )
    apply_events(board, events)
    found = Leaderboard(board)
    assert numbers(found, "d = 1") == numbers(found, "d >= 1 and d <= 2") == [2]
    assert numbers(found, "d = null") == [0, 1]
    assert numbers(found, 'm = [0.00001, "é"]') == [0, 1, 2]


CONDITIONS = {
    "rate >= 1e-4 and rate <= 5e-4": [0, 1, 4],
    "rate <= 1e-4": [0, 2],
    "rate > 1e-4 and rate <= 5e-4 and flag = true": [4],
    "rate in [0.0001, 9e-4]": [0, 3],
    "kind = a": [0, 2, 3],
    'kind = "b,c"': [1, 4],
    "depth = 2": [0],  # trial 1 has it, too, without an effect
    "depth = null": [1, 4],
    "depth in [1, 2, null]": [0, 1, 2, 3, 4],
    "heads = [1, 2]": [0, 1, 3, 4],
    "heads in [[1,2], neither] and flag = false": [1],
    "heads = neither": [2],
    "flag = 1": [],
    "score >= 70 and score <= 82": [0, 4],
    "score = 81": [0],
    "seed = 42 and step in [12, 13]": [2, 3],
    "state in [FAIL, PRUNED]": [2, 3],
    'error = "loss is NaN"': [3],
    "seconds = null": [4],
    "kind >= 1": [],
    "state > 1": [],
    "always = here and batch_size = 64": [0, 1, 2, 3, 4],
}


def test_conditions_narrow(lab) -> None:
    assert {where: numbers(lab, where) for where in CONDITIONS} == CONDITIONS
    for where, expected in CONDITIONS.items():
        conditions = parse_conditions(where)
        assert parse_conditions(format_conditions(conditions)) == conditions
        found = lab.search("all", where=conditions).trials
        assert [one.number for one in found] == expected, where


ORDERS = {
    "number": ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]),
    "score": ([3, 2, 4, 0, 1], [1, 0, 4, 2, 3]),
    "rate": ([2, 0, 1, 4, 3], [3, 4, 1, 0, 2]),
    "kind": ([0, 2, 3, 1, 4], [1, 4, 0, 2, 3]),
    "depth": ([2, 3, 0, 1, 4], [0, 2, 3, 1, 4]),
    "flag": ([1, 0, 2, 3, 4], [0, 2, 3, 4, 1]),
    "error": ([3, 0, 1, 2, 4], [3, 0, 1, 2, 4]),
    "seconds": ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
}


def test_order_goes_both_ways(lab) -> None:
    for sort, (up, down) in ORDERS.items():
        assert numbers(lab, sort=sort) == up, sort
        assert numbers(lab, sort=sort, descending=True) == down, sort
    choice = TrialChoice(descending=True)
    assert [one.number for one in lab.trials("all", choice, limit=2, offset=1)] == [3, 2]
    assert numbers(lab, state="COMPLETE") == [0, 1]
    assert numbers(lab, "kind = a", state="FAIL") == [3]
    for asked in (TrialChoice(parse_conditions("rat = 1")), TrialChoice(sort="rat")):
        with pytest.raises(NotFoundError, match=r"all has no hyperparameter.* 'rat'; did"):
            list(lab.trials("all", asked))


def test_a_sweep_without_trials_has_none(board, sweep_started) -> None:
    LeaderboardSink(board).apply("j", [(1, sweep_started("new"))])
    lab = Leaderboard(board)
    assert lab.hyperparameters("new").names == ()
    assert list(lab.trials("new")) == []


def test_what_is_written_is_read_back() -> None:
    odd = (
        Condition(
            "a b", "=", ("1", "and", "50%", 'x "y"', "", "true", True, None, [1, {"a": "b"}])
        ),
        Condition("dev/stsb", ">=", (-1.5,)),
        Condition("in", "<", (3e-05,)),
    )
    assert parse_conditions(format_conditions(odd)) == odd
    assert parse_conditions(" ") == ()


NOT_CONDITIONS = {
    **{text: f"{text!r} is not a condition; write NAME = VALUE" for text in (
        "kind", "kind in [a, ]", "kind in []", "= a", "rate >= x", "rate > NaN", "a = 1e999",
        "heads = [NaN]",
    )},
    "kind = a b": "expected 'and' before 'b'",
    f"a = {'[' * 100_000}": "is not a condition",
}  # fmt: skip


def test_a_text_like_a_number_too_large_is_written_in_quotes() -> None:
    (condition,) = parse_conditions('key = "1234e567"')
    assert parse_conditions(str(condition)) == (condition,)


def test_what_means_nothing_names_the_way_out() -> None:
    for written, said in NOT_CONDITIONS.items():
        with pytest.raises(ValueError) as refused:
            parse_conditions(written)
        assert said in str(refused.value), written
