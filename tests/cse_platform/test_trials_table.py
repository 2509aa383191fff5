from typing import Any

import pytest
from stored_trials import apply_events
from sweep_events import sweep_started, trial_evaluated, trial_life, trial_reused

from cse_platform.errors import NotFoundError, QueryError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.trials import (
    find_one_trial,
    find_trial,
    is_trial_reference,
    trial_of_key,
)
from cse_platform.leaderboard.trials_table import TrialChoice
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store
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
def lab(board) -> Leaderboard:
    """One sweep with a trial in every state, in each kind of store."""
    events: list[Event] = [sweep_started("all", spec={"sweep": "all", "space": SPACE})]
    for number, (state, value, values) in enumerate(TRIALS):
        events += trial_life(
            number, {0: 0.5, 10 + number: value}, sweep="all", state=state,
            trial=f"{number:x}" * 64, values={**values, "always": "here", "batch_size": 64},
            searched=tuple(SPACE),
        )  # fmt: skip
    apply_events(board, events)
    return Leaderboard(board)


def numbers(lab: Leaderboard, where: str = "", **choice: Any) -> list[int]:
    asked = TrialChoice(parse_conditions(where), **choice)
    found = [one.number for one in lab.table_trials("all", asked)]
    assert lab.count_trials("all", asked) == len(found)
    return found


def test_a_line_has_what_is_known_of_a_trial(lab) -> None:
    lines = list(lab.table_trials("all"))
    assert [one.state for one in lines] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert [one.best_value for one in lines] == [0.81, 0.83, 0.60, 0.5, 0.70]
    assert [one.best_step for one in lines] == [10, 11, 12, 0, 14]  # of the value
    assert lines[3].error == "loss is NaN"
    assert (lines[0].wall_seconds, lines[4].wall_seconds, lines[4].finished) == (1.5, None, None)
    assert lines[0].searched_values["depth"] == 2
    assert "depth" not in lines[1].searched_values  # it has no effect in this kind
    varying, same = lab.hyperparameters("all")
    assert varying == ("rate", "kind", "depth", "heads", "flag")
    assert same == {"always": "here", "batch_size": 64}


def test_a_value_counts_where_its_comparison_holds(board) -> None:
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
    "seed = 42 and step in [12, 13]": [2],
    "state in [FAIL, PRUNED]": [2, 3],
    'error = "loss is NaN"': [3],
    "seconds = null": [4],
    "kind >= 1": [],
    "state > 1": [],
    "always = here and batch_size = 64": [0, 1, 2, 3, 4],
    f"rate in [{', '.join(map(str, range(498)))}, 9e-4]": [3],  # databases limit an OR's depth
    f"kind in [{', '.join(f'k{n}' for n in range(499))}, a]": [0, 2, 3],
    f"heads in [{', '.join(f'[{n}]' for n in range(499))}, [1, 2]]": [0, 1, 3, 4],
    f"seed in [{', '.join(map(str, range(100, 598)))}, 1e300, 42]": [0, 1, 2, 3, 4],
    "flag in [true, false]": [0, 1, 2, 3, 4],
}


def test_conditions_narrow_and_order_goes_both_ways(lab) -> None:
    assert {where: numbers(lab, where) for where in CONDITIONS} == CONDITIONS
    for where, expected in CONDITIONS.items():
        conditions = parse_conditions(where)
        assert parse_conditions(format_conditions(conditions)) == conditions
        found = lab.search("all", conditions=conditions).trials
        assert [one.number for one in found] == expected, where
    for sort, (up, down) in ORDERS.items():
        assert numbers(lab, sort=sort) == up, sort
        assert numbers(lab, sort=sort, descending=True) == down, sort
    choice = TrialChoice(descending=True)
    assert [one.number for one in lab.table_trials("all", choice, limit=2, offset=1)] == [3, 2]
    assert numbers(lab, state="COMPLETE") == [0, 1]
    assert numbers(lab, "kind = a", state="FAIL") == [3]
    for asked in (TrialChoice(parse_conditions("rat = 1")), TrialChoice(sort="rat")):
        with pytest.raises(NotFoundError, match=r"no hyperparameter.* 'rat'; .*; did you"):
            list(lab.table_trials("all", asked))


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


def test_a_sweep_without_trials_has_none(board) -> None:
    LeaderboardSink(board).apply("j", [(1, sweep_started("new"))])
    lab = Leaderboard(board)
    assert lab.hyperparameters("new") == ((), {})
    assert list(lab.table_trials("new")) == []


def test_what_is_written_is_read_back_and_what_means_nothing_names_the_way_out() -> None:
    odd = (
        Condition(
            "a b", "=", ("1", "and", "50%", 'x "y"', "", "true", True, None, [1, {"a": "b"}])
        ),
        Condition("key", "=", ("1234e567",)),
        Condition("dev/stsb", ">=", (-1.5,)),
        Condition("in", "<", (3e-05,)),
    )
    assert parse_conditions(format_conditions(odd)) == odd
    assert parse_conditions(" ") == ()
    for written, said in NOT_CONDITIONS.items():
        with pytest.raises(ValueError) as refused:
            parse_conditions(written)
        assert said in str(refused.value), written


NOT_CONDITIONS = {
    **{text: f"{text!r} is not a condition; write NAME = VALUE" for text in (
        "kind", "kind in [a, ]", "kind in []", "= a", "rate >= x", "rate > NaN", "a = 1e999",
        "heads = [NaN]",
    )},
    "kind = a b": "expected 'and' before 'b'",
    f"a = {'[' * 100_000}": "is not a condition: together conditions have at most 10000 characters",
    f"a in [{', '.join(map(str, range(501)))}]": "together at most 500 values",
    " and ".join(f"a >= {n}" for n in range(51)): "at most 50 conditions",
    **dict.fromkeys((
        f"a = {'[' * 400}{']' * 400}", f"a = {'[' * 11}{']' * 11}", f"a = {'9' * 5000}",
        f"a = [{'9' * 5000}]", r'a = "\ud800"', r'"\ud800" = 1', r'a = "\u0000"',
    ), "is not a condition; write"),
}  # fmt: skip


FIRST, SECOND = "0a1b2c3d" + "0" * 56, "0a1b2c3e" + "f" * 56


@pytest.fixture
def two_trials(board) -> Store:
    """Two trials whose keys begin alike; the second sweep reuses the first trial."""
    life = trial_life(0, {10: 0.75}, trial=FIRST, model="/models/one")
    second = trial_life(1, {10: 0.5}, trial=SECOND, seed=7)
    reused = trial_reused(life, "again", model=None)
    events = [sweep_started(), *life, *second, sweep_started("again"), reused]
    apply_events(board, events)
    return board


def test_a_prefix_or_a_number_in_a_sweep_names_a_trial_or_none(two_trials) -> None:
    prefixes = ("0a1b2c3d", "0A1B2C3D", "0a1b2c3d0000", FIRST)
    assert [one for one in prefixes if not is_trial_reference(one)] == []
    with two_trials.session() as session:
        assert {find_trial(session, one).key for one in prefixes} == {FIRST}
        found = find_trial(session, prefixes[0])
        numbers = {"first#0": FIRST, "first#1": SECOND, "again#0": FIRST}
        assert {one: find_trial(session, one).key for one in numbers} == numbers
        keys = {FIRST: FIRST, SECOND: SECOND, SECOND[:16]: None, "1" * 64: None, "": None}
        trials = {key: trial_of_key(session, key) for key in keys}
    assert (found.sweep, found.seed, found.configuration) == ("first", 42, "c0")
    assert (found.method, found.backbone, found.model) == ("rankcse", "mini", "/models/one")
    assert {key: trial and trial.key for key, trial in trials.items()} == keys
    for prefix, message in NONE.items():
        with pytest.raises(QueryError, match=message), two_trials.session() as session:
            find_trial(session, prefix)


NONE = {
    "0a1b2": "'0a1b2' was not found; give SWEEP, SWEEP#N, METHOD@",
    "": "'' was not found",
    "0a1b2_": "'0a1b2_' was not found",
    "simcse%": "'simcse%' was not found",
    "first#": "'first#' was not found",
    "frist": "did you mean 'first'",
    "first#2": "sweep 'first' has no trial 2; its last one is first#1",
    "frist#0": "no sweep 'frist' on this leaderboard; did you mean 'first'",
    "0a1b2c4": "no trial's key begins with '0a1b2c4'",
    "0a1b2c": "'0a1b2c' matches the keys of several trials .0a1b2c3d00…, 0a1b2c3eff….; write",
}


def test_a_sweep_and_a_configuration_stand_for_their_best_trial_in_every_command(board) -> None:
    lives = [
        *trial_life(0, {10: 0.5}, configuration="c0ffee", seed=1),
        *trial_life(1, {10: 0.75}, configuration="c0ffee", seed=2),
        *trial_life(2, {10: 0.6}, configuration="decade"),
    ]
    tests = [trial_evaluated(key, {"test/stsb_spearman": 0.4}) for key in ("c0ffee-1", "c0ffee-2")]
    apply_events(board, [sweep_started(), *lives, *tests])
    best = {"first": "c0ffee-2", "rankcse@c0ff": "c0ffee-2", "rankcse@dec": "decade-42"}
    with board.session() as session:
        assert {name: find_one_trial(session, name).key for name in best} == best
        with pytest.raises(QueryError, match="neither a configuration nor a trial"):
            find_one_trial(session, "simcse@c0ff")
    name, rows = Leaderboard(board).candidates("first")
    assert (name, [row.seeds for row in rows]) == ("first", [[1, 2]])
