"""What ends a search beside the number of its trials: time and GPU-hours."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cse_platform.leaderboard import Leaderboard
from cse_platform.search.budgets import gpu_seconds, spent_budget, trials_left
from cse_platform.sweep.blocks import Budget, trials_within
from cse_platform.tracking.events import Event, SweepRequested, TrialFinished, TrialStarted
from cse_platform.tracking.history import SearchEffort

AT_ONCE = {"time": 1e-9}
"""Spent as soon as a trial has run."""
CONFIRM = {"confirm": {"top": 1, "seeds": [0, 1]}}


def roles(drive: Any) -> list[str]:
    return [trial.role for trial in drive.trials]


def limited(budget: Mapping[str, Any]) -> dict[str, Any]:
    return {"trials": None, "budget": budget}


def ended_by(drive: Any) -> str | None:
    return Leaderboard(drive.close().state.leaderboard).sweep("small").ended_by


def test_time_ends_the_search_and_further_seeds_follow(start) -> None:
    drive = start(search=limited(AT_ONCE), seeds=CONFIRM, capacity=2).run().assert_sound()
    assert roles(drive) in (["search", *extra, "confirm", "confirm"] for extra in ([], ["search"]))
    assert drive.history.spent == "1e-09s of trials" == ended_by(drive)
    assert [event.kind for event in drive.events()].count("search_ended") == 1


def test_a_search_stays_ended_after_a_restart_and_a_larger_budget_goes_on(start) -> None:
    spent = start(search=limited(AT_ONCE)).run()
    values = {"temperature": 0.5}
    request = SweepRequested(sweep="small", request="r", action="enqueue", who="a", values=values)
    spent.state.act_on(request, stop_trial=lambda key: None)
    spent.run().close()
    assert [one.values["temperature"] for one in spent.trials][1:] == [0.5]
    again = start(search=limited(AT_ONCE))
    assert (again.start(), again.state.finished) == ([], True)
    again.close()
    drive = start(search={"trials": 5, "budget": {"time": "100d"}})
    assert drive.history.spent is None
    assert roles(drive.run()) == ["search"] * (5 + 1)
    assert drive.history.spent is ended_by(drive) is None


def test_gpu_hours_count_what_has_ended_and_what_runs(start) -> None:
    drive = start(search=limited({"gpu_hours": 1.0}), resources={"gpu": 0.5})
    (plan,) = drive.start()
    begun = drive.history.trials[plan.key].last_heard
    assert gpu_seconds(drive.spec, drive.history, begun + timedelta(hours=1)) == pytest.approx(1800)
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(hours=1)) is None
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(hours=2)) == "1 GPU-hours"
    # A trial takes half an hour of half a GPU; the running one has just begun.
    left = trials_left(drive.spec, drive.history, count=drive.state.budget, seconds=1800, at_once=1)
    assert left == pytest.approx(4, abs=0.1)


def test_time_is_spent_when_it_has_passed_and_not_before(start) -> None:
    drive = start(search=limited({"time": 100}))
    (plan,) = drive.start()
    begun = drive.history.trials[plan.key].last_heard
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(seconds=90)) is None
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(seconds=110)) is not None


def test_time_is_that_in_which_the_search_runs(trial_life, sweep_started) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float, event: Event) -> Event:
        return event.model_copy(update={"time": start + timedelta(seconds=seconds)})

    def ends(number: int, **changes: Any) -> tuple[Event, Event]:
        life = trial_life(number, {0: 0.3}, **changes)
        first = next(event for event in life if isinstance(event, TrialStarted))
        last = next(event for event in life if isinstance(event, TrialFinished))
        return first, last.model_copy(update={"wall_seconds": 10.0, "gpus": 0.5})

    one, two, further = ends(0), ends(1), ends(2, role="confirm")
    effort = SearchEffort()
    for seconds, event in (
        *((0, sweep_started()), (5, one[0]), (10, two[0]), (20, one[1]), (20, one[1])),
        *((100, sweep_started()), (110, two[0])),  # killed at 20
        *((115, further[0]), (130, two[1]), (500, further[1])),
    ):
        effort.apply(at(seconds, event))
    assert effort.seconds(start + timedelta(seconds=900)) == (20 - 5) + (130 - 110)
    assert effort.gpu_seconds == 10.0


def test_trials_within_a_budget() -> None:
    for budget, count, trials in (
        (None, 7, 7),
        ({"time": 100}, None, 20),
        ({"time": 100}, 7, 7),
        ({"gpu_hours": 1}, None, 720),
        ({"time": 100, "gpu_hours": 0.01}, None, 7.2),
    ):
        known = None if budget is None else Budget.model_validate(budget)
        found = trials_within(known, each=10.0, at_once=2, gpu=0.5, count=count)
        assert found == (trials and pytest.approx(trials)), budget
