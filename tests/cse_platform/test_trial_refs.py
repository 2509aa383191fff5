"""A trial by the beginning of its key, or by the whole."""

import pytest
from stored_trials import apply_events

from cse_platform.errors import QueryError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.trials import (
    find_one_trial,
    find_trial,
    is_trial_reference,
    trial_of_key,
)
from cse_platform.stores.sql.store import Store

FIRST, SECOND = "0a1b2c3d" + "0" * 56, "0a1b2c3e" + "f" * 56


@pytest.fixture
def two_trials(board, sweep_started, trial_life, trial_reused) -> Store:
    """Two trials whose keys begin alike; the second sweep reuses the first trial."""
    life = trial_life(0, {10: 0.75}, trial=FIRST, model="/models/one")
    second = trial_life(1, {10: 0.5}, trial=SECOND, seed=7)
    reused = trial_reused(life, "again", model=None)
    events = [sweep_started(), *life, *second, sweep_started("again"), reused]
    apply_events(board, events)
    return board


def test_a_prefix_or_a_number_in_a_sweep_names_a_trial(two_trials) -> None:
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


def test_a_sweep_and_a_configuration_stand_for_their_best_trial_in_every_command(
    board, sweep_started, trial_life, trial_evaluated
) -> None:
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


def test_a_prefix_that_names_none(two_trials) -> None:
    for prefix, message in NONE.items():
        with pytest.raises(QueryError, match=message), two_trials.session() as session:
            find_trial(session, prefix)
