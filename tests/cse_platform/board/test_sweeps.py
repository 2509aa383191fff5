import math
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from stored_trials import apply_events
from sweep_events import NOON, sweep_started, trial_life

from cse_platform.cli.following import FollowedSweep
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trials_table import TrialChoice
from cse_platform.presentation.sweeps import sweeps_table
from cse_platform.search.confirmation import count_left_behind
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import Store
from cse_platform.sweep.conditions import parse_conditions
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import Event, SearchEnded, SweepFinished, TrialPoint
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal

SPEC = {
    "sweep": "first", "method": "rankcse", "backbone": "mini", "corpus": [{"name": "builtin"}],
    "dev": {"checkpoint": "stsb", "search": "sickr"},
    "space": {"tau2": [0.025, 0.05], "tau3": {"choices": [0.1], "when": {"tau2": 0.05}}},
    "search": {"trials": 4}, "seeds": {"search": 42, "confirm": {"top": 1, "seeds": [42, 0, 1]}},
    "tags": ["word", "alpha"],
}  # fmt: skip


def at(minutes: float, *events: Event) -> list[Event]:
    time = NOON + timedelta(minutes=minutes)
    return [event.model_copy(update={"time": time}) for event in events]


def seen(board: Store, *, minutes: float, name: str = "first") -> SweepOverview:
    return Leaderboard(board).sweep(name, now=NOON + timedelta(minutes=minutes))


@pytest.fixture
def half_way() -> list[Event]:
    """Trials 0 to 3: the better complete one, the pruned one, the running one, and a failed one."""
    lives = [
        trial_life(0, {0: 0.4, 5: 0.6}),
        trial_life(1, {0: 0.4, 5: 0.7}, state="PRUNED"),
        trial_life(2, {0: 0.4, 5: 0.55}, state=None),
        trial_life(3, {}, state="FAIL"),
        trial_life(4, {5: 0.5}),
    ]
    ends = (10, 12, 15, 13, 14)
    told = [event for life, end in zip(lives, ends, strict=True) for event in at(end, *life)]
    return [*at(0, sweep_started(spec=SPEC)), *told]


def best_of(found: SweepOverview) -> tuple[Any, ...]:
    best = found.best
    assert best is not None
    return best.key, best.number, best.seed, best.best_value, best.best_step


def test_half_way(board, half_way) -> None:
    """Two of six are missing and one runs: at four in 20 minutes, 10 minutes for two more."""
    apply_events(board, half_way[:1])
    new = seen(board, minutes=1)
    assert (new.trials, new.planned, new.best, new.left, new.quiet) == (0, 6, None, None, 60)
    apply_events(board, half_way)
    found = seen(board, minutes=20)
    assert found.counts == {"RUNNING": 1, "COMPLETE": 2, "PRUNED": 1, "FAIL": 1}
    assert (found.trials, found.ended, found.planned) == (5, 4, 6)
    assert best_of(found) == ("c0-42", 0, 42, 0.6, 5)
    assert (found.elapsed, found.left, found.quiet) == (20 * 60, 10 * 60, 5 * 60)
    assert (found.started, found.restarted, found.finished) == (NOON, NOON, None)
    assert (found.state, found.dev, found.tags) == ("RUNNING", "sickr", ("alpha", "word"))
    assert (found.method, found.backbone) == ("rankcse", "mini")
    assert Leaderboard(board).sweep_spec("first") == SPEC


def test_further_seeds_of_a_configuration_that_was_overtaken_are_planned_besides(board) -> None:
    """The seeds 0 and 1 of the first configuration ran before a better one was found."""
    first, further = {"configuration": "c0"}, {"configuration": "c0", "role": "confirm"}
    events = [
        *at(0, sweep_started(spec=SPEC)),
        *at(1, *trial_life(0, {5: 0.6}, **first)),
        *at(2, *trial_life(1, {5: 0.9}, seed=0, **further)),
        *at(3, *trial_life(2, {5: 0.9}, seed=1, **further)),
    ]
    better = at(4, *trial_life(3, {5: 0.7}))
    for known, left_behind in ((events, 0), ([*events, *better], 2)):
        history = History(known)
        assert count_left_behind(history, SweepSpec.model_validate(SPEC)) == left_behind
        apply_events(board, known[len(events) * bool(left_behind) :])
        assert seen(board, minutes=5).planned == 4 + 2 + left_behind


def test_no_view_reads_a_sweeps_file(board, half_way, monkeypatch) -> None:
    """What a sweep is stands on its row since its start; a file that is not known has less."""
    search = {"trials": 4, "sampler": {"kind": "gp"}}
    odd = sweep_started("odd", spec={"sweep": "odd", "search": {"sampler": "tpe"}})
    apply_events(board, [*half_way, sweep_started(spec=SPEC | {"search": search}), odd])
    monkeypatch.setattr(SweepSpec, "model_validate", Mock(side_effect=AssertionError))
    found = seen(board, minutes=20)
    assert (found.planned, found.dev) == (6, "sickr")
    assert seen(board, minutes=20, name="odd").planned == 0
    samplers = {name: Leaderboard(board).search(name).sampler for name in ("first", "odd")}
    assert samplers == {"first": "gp", "odd": "tpe"}


@pytest.mark.parametrize(
    ("budget", "minutes"),
    [
        ({}, 80),  # eight of ten trials, at two in 20 minutes
        ({"time": "30min"}, 10),
        ({"time": "8h"}, 80),
        ({"gpu_hours": 0.3}, 20),  # half of 0.3 hours are used up, by two trials
        ({"time": "8h", "gpu_hours": 0.3}, 20),
        ({"gpu_hours": 0.1}, 0),
    ],
)
def test_a_budget_that_ends_the_search_sooner_leaves_less_time(budget, minutes, board) -> None:
    """Trials run from 0 to 8, from 0 to 10 and from 10 minutes on, on half a GPU each."""
    search = {"trials": 10, "budget": budget or None}
    changes = {"search": search, "seeds": {"search": 42}, "resources": {"gpu": 0.5}}
    events = at(0, sweep_started(spec=SPEC | changes))
    for number, (begun, ended) in enumerate([(0, 8), (0, 10), (10, None)]):
        *life, end = trial_life(number, {5: 0.5})
        events += at(begun, *life)
        if ended is not None:
            took = {"wall_seconds": 60.0 * (ended - begun), "gpus": 0.5}
            events += at(ended, end.model_copy(update=took))
    apply_events(board, events)
    assert seen(board, minutes=20).left == pytest.approx(60 * minutes)


def test_when_its_trials_have_ended_it_scores_them_on_test_sets(board) -> None:
    """The budget has ended the search after two of ten trials."""
    changes = {"search": {"trials": 10, "budget": {"time": "30min"}}, "seeds": {"search": 42}}
    evaluate = {"top": 1, "tasks": ["sts"]}
    events = at(0, sweep_started(spec=SPEC | changes | {"evaluate": evaluate}))
    events += at(10, *trial_life(0, {5: 0.5}))
    events += at(30, SearchEnded(sweep="first", budget="time: 30min"))
    apply_events(board, [*events, *at(30, *trial_life(1, {5: 0.5}, state=None))])
    found = seen(board, minutes=35)
    assert (found.left, found.scoring) == (35 * 60, False)
    apply_events(board, at(40, *trial_life(1, {5: 0.5})))
    found = seen(board, minutes=45)
    assert (found.left, found.scoring) == (None, True)
    assert sweeps_table([found]).rows[0][3].text == "RUNNING, scoring on test sets"
    followed = FollowedSweep(board, "first")
    followed.new_lines()
    assert followed.summary().endswith(" · scoring on test sets")
    apply_events(board, at(50, SweepFinished(sweep="first", state="COMPLETE")))
    assert not seen(board, minutes=55).scoring


def test_a_sweep_whose_trials_all_failed_scores_none(board) -> None:
    evaluate = {"top": 1, "tasks": ["sts"]}
    changes = {"search": {"trials": 1}, "seeds": {"search": 42}, "evaluate": evaluate}
    failed = at(10, *trial_life(0, {}, state="FAIL"))
    apply_events(board, [*at(0, sweep_started(spec=SPEC | changes)), *failed])
    assert not seen(board, minutes=15).scoring


def test_what_was_done_before_the_last_start_says_nothing_of_its_pace(board, half_way) -> None:
    apply_events(board, half_way)
    again = at(100, sweep_started(spec=SPEC))
    apply_events(board, again)
    found = seen(board, minutes=103)
    assert (found.started, found.restarted) == (NOON, NOON + timedelta(minutes=100))
    assert (found.elapsed, found.left, found.quiet) == (180, None, 180)
    apply_events(board, at(104, *trial_life(5, {5: 0.5})))
    found = seen(board, minutes=105)
    assert (found.elapsed, found.left, found.quiet) == (300, 300, 60)


def test_only_a_running_sweep_has_time_left(board, half_way) -> None:
    ends = {"INTERRUPTED": 6, "COMPLETE": 5}
    for minutes, (state, planned) in enumerate(ends.items(), start=20):
        event = SweepFinished(sweep="first", state=state)  # type: ignore[arg-type]
        apply_events(board, [*half_way, *at(minutes, event)])
        found = seen(board, minutes=500)
        assert (found.state, found.planned) == (state, planned)
        assert (found.elapsed, found.left, found.quiet) == (minutes * 60, None, None)


def test_a_sweep_whose_driver_was_killed_took_until_it_last_moved(
    board, half_way, tmp_path
) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        apply_events(board, half_way, journal=journal.id)
        with Lease(board, "first", journal):
            pass
    found = seen(board, minutes=500)
    assert (found.state, found.elapsed) == ("INTERRUPTED", 15 * 60)
    assert (found.left, found.quiet, found.scoring) == (None, None, False)


def test_sweeps_the_last_started_first_and_unknown_ones(board, half_way) -> None:
    reader = Leaderboard(board)
    assert reader.sweeps() == []
    with pytest.raises(NotFoundError, match="no sweep 'frst': this leaderboard has none yet"):
        reader.sweep("frst")
    apply_events(board, half_way)
    asked = (reader.sweep, reader.running, reader.search, reader.sweep_spec)
    for question in asked:
        with pytest.raises(NotFoundError, match=r"no sweep 'frst' .*did you mean 'first'"):
            question("frst")
    with pytest.raises(NotFoundError, match=r"no sweep 'xyz' on .*; the last ones are first"):
        reader.sweep("xyz")
    second = trial_life(0, {5: 0.9}, sweep="second", seed=7)
    apply_events(board, [*at(30, sweep_started("second")), *at(31, *second)])
    later, first = reader.sweeps()
    assert (later.name, best_of(later)) == ("second", ("c0-7", 0, 7, 0.9, 5))
    assert (first.name, first.counts["COMPLETE"], first.tags) == ("first", 2, ("alpha", "word"))
    assert later.counts == {"RUNNING": 0, "COMPLETE": 1, "PRUNED": 0, "FAIL": 0}
    assert reader.sweep("second").best == later.best
    # A trial that another sweep has completed is told by what this one has of it.
    own = [sweep_started("third"), *trial_life(0, {5: 0.4}, sweep="third", state=None)]
    apply_events(board, at(40, *own), journal="third's own")
    third, [cut] = reader.sweep("third"), reader.running("third", curves=True)
    assert (third.counts["COMPLETE"], third.counts["RUNNING"], third.best) == (0, 1, None)
    assert (cut.key, cut.best_value, len(cut.points)) == ("c0-42", 0.4, 1)
    assert [trial.state for trial in reader.search("third").trials] == ["RUNNING"]
    assert best_of(reader.sweep("first")) == ("c0-42", 0, 42, 0.6, 5)


SO_FAR = (
    # The dev score that picks checkpoints and the one that the search climbs, by step; the best.
    ({0: (0.8, 0.9), 5: (0.7, 0.6), 10: (0.6, 0.65)}, (0.6, 5)),
    ({0: (0.8, 0.9), 5: (0.7, 0.5), 10: (0.7, 0.65)}, (0.5, 5)),  # of equal ones the first
    ({0: (0.8, 0.9), 5: (math.nan, 0.7), 10: (0.1, 0.4)}, (0.4, 10)),
    ({0: (0.8, 0.9), 5: (0.7, math.nan), 10: (0.1, 0.4)}, (None, None)),
    ({0: (0.8, 0.9)}, (None, None)),  # not trained yet
    ({}, (None, None)),
)


def test_the_best_so_far_is_of_trained_steps_and_the_same_everywhere(board) -> None:
    events: list[Event] = [sweep_started(spec=SPEC)]
    for number, (curve, _) in enumerate(SO_FAR):
        life = trial_life(number, {step: value for step, (_, value) in curve.items()}, state=None)
        for event in life:
            if isinstance(event, TrialPoint):
                picks, value = curve[event.step]
                event.metrics.update({"dev/stsb_spearman": picks, "dev/sickr_spearman": value})
        events += life
    apply_events(board, events)
    lab, driver = Leaderboard(board), History(events)
    expected = {number: best for number, (_, best) in enumerate(SO_FAR)}
    best = [trial.best(picked_by="stsb") for trial in driver.trials.values()]
    views = {
        "table": {
            trial.number: (trial.best_value, trial.best_step) for trial in lab.table_trials("first")
        },
        "running": {
            trial.number: (trial.best_value, trial.best_step) for trial in lab.running("first")
        },
        "status": {t.number: (t.best_value, t.best_step) for t in lab.running_and_ended("first")},
        "page": {
            n: (t.best_value, t.best_step) for n in expected if (t := lab.trial(f"first#{n}"))
        },
        "driver": {n: (p.value, p.step) if p else (None, None) for n, p in enumerate(best)},
    }
    assert {name: view for name, view in views.items() if view != expected} == {}
    values = {t.number: t.value_so_far(picked_by="stsb") for t in driver.trials.values()}
    assert values == {number: value for number, (value, _) in expected.items()}
    for where, found in {
        "score >= 50": [0, 1],
        "step = 5": [0, 1],
        "score = null": [3, 4, 5],
    }.items():
        passing = TrialChoice(parse_conditions(where))
        assert [trial.number for trial in lab.table_trials("first", passing)] == found, where
    falling = TrialChoice(sort="score", descending=True)
    assert [trial.number for trial in lab.table_trials("first", falling)] == [0, 1, 2, 3, 4, 5]


def test_running_trials(board, half_way) -> None:
    new = trial_life(5, {}, state=None, values={"tau2": 0.05, "tau3": 0.1, "batch_size": 8})
    apply_events(board, [*half_way, *at(16, *new)])
    newest, older = Leaderboard(board).running("first")
    assert (newest.number, newest.last_step, newest.last_value) == (5, None, None)
    assert newest.searched_values == {"tau2": 0.05, "tau3": 0.1}
    assert (older.key, older.number, older.seed) == ("c2-42", 2, 42)
    assert (older.last_step, older.last_value) == (5, 0.55) and older.searched_values == {
        "tau2": 0.025
    }
    assert older.started == NOON + timedelta(minutes=15)
