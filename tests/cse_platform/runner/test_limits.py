from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from sweep_events import sweep_started, trial_life

from cse_platform.leaderboard import Leaderboard
from cse_platform.runner.failure_policy import TrialLimits
from cse_platform.runner.state import LiveTrial
from cse_platform.search.budgets import gpu_seconds, spent_budget, trials_left
from cse_platform.sweep.blocks import Budget, Resources, trials_within
from cse_platform.tracking.events import Event, SweepRequested, TrialFinished, TrialStarted
from cse_platform.tracking.history import SearchEffort


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, limits: TrialLimits, seconds: float, *running: LiveTrial) -> set[LiveTrial]:
        """Let the driver look often enough meanwhile. Returns the trials that broke a limit."""
        end, broken = self.now + seconds, set(limits.find_broken(running))
        while self.now < end:
            self.now = min(self.now + 10, end)
            broken |= set(limits.find_broken(running))
        return broken


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits_of(clock: Clock, **resources: Any) -> TrialLimits:
    return TrialLimits(Resources.model_validate(resources), seconds=clock)


def new_trials(count: int) -> list[LiveTrial]:
    history: Any = None  # no limit depends on it
    return [LiveTrial(history) for _ in range(count)]


def test_a_trial_that_takes_or_is_silent_for_too_long(clock) -> None:
    limits, (old, new) = limits_of(clock, timeout="2min"), new_trials(2)
    assert not clock.pass_time(limits, 100, old)
    assert not clock.pass_time(limits, 20, old, new)
    limits.note_report(old)
    assert not limits.find_broken([old, new])
    assert clock.pass_time(limits, 1, old, new) == {old}
    assert "longer than 2 min" in old.killed
    assert not limits.find_broken([old, new])  # it is told once
    limits, (quiet, busy) = limits_of(clock, silent_for="30s"), new_trials(2)
    assert not clock.pass_time(limits, 20, quiet, busy)
    limits.note_report(busy)
    assert clock.pass_time(limits, 11, quiet, busy) == {quiet}
    limits, [live] = limits_of(clock, silent_for="1min", timeout="1h"), new_trials(1)
    assert not limits.find_broken([live])
    for seconds in (100, 100_000):  # while the driver is held up
        clock.now += seconds
        assert not limits.find_broken([live])
    assert clock.pass_time(limits, 61, live) == {live}


def test_without_a_limit_the_rhythm_of_the_trial_is_one_or_that_of_others(clock) -> None:
    """20 times the longest silence so far, at least 10 minutes."""
    limits, (slow, quick) = limits_of(clock), new_trials(2)
    clock.pass_time(limits, 500, slow, quick)  # to start
    for live in (quick, slow):
        limits.note_report(live)
    for live, gap in ((quick, 1.0), (slow, 100.0)):
        clock.pass_time(limits, gap, slow, quick)
        limits.note_report(live)
    assert clock.pass_time(limits, 10 * 60 + 1, slow, quick) == {quick}
    assert clock.pass_time(limits, 20 * 101 - 10 * 60, slow, quick) == {slow}
    limits, [slow] = limits_of(clock), new_trials(1)
    clock.pass_time(limits, 40, slow)  # a quick start, which makes no rhythm
    limits.note_report(slow)
    assert not clock.pass_time(limits, 100_000, slow)
    limits, (first, other, later) = limits_of(clock), new_trials(3)
    assert not clock.pass_time(limits, 100_000, first)
    for _ in range(2):
        clock.pass_time(limits, 60, other)
        limits.note_report(other)
    assert clock.pass_time(limits, 20 * 60 + 1, other, later) == {other, later}


def test_times_in_a_file() -> None:
    times = {"90s": 90, "20min": 1200, "1.5 h": 5400, "1d": 86400, 0.5: 0.5}
    for written, seconds in times.items():
        resources = Resources.model_validate({"timeout": written})
        assert resources.timeout == seconds
        assert Resources.model_validate(resources.model_dump(mode="json")) == resources
    for wrong in ("soon", "2 weeks", "-1s", "0s", -1, True, "5"):
        with pytest.raises(ValidationError):
            Resources.model_validate({"silent_for": wrong})
    of_file = {"checkpoint_every": "0s", "timeout": "1d", "silent_for": "9s"}
    asked = Resources.model_validate(of_file)
    assert (asked.checkpoint_every, asked.silent_for) == (0, 9)


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
    spent.state.apply_requests([request])
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
    left = trials_left(drive.spec, drive.history, seconds=1800, at_once=1)
    assert left == pytest.approx(4, abs=0.1)


def test_time_is_spent_when_it_has_passed_and_not_before(start) -> None:
    drive = start(search=limited({"time": "100s"}))
    (plan,) = drive.start()
    begun = drive.history.trials[plan.key].last_heard
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(seconds=90)) is None
    assert spent_budget(drive.spec, drive.history, now=begun + timedelta(seconds=110)) is not None


def test_time_is_that_in_which_the_search_runs() -> None:
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
        ({"time": "100s"}, None, 20),
        ({"time": "100s"}, 7, 7),
        ({"gpu_hours": 1}, None, 720),
        ({"time": "100s", "gpu_hours": 0.01}, None, 7.2),
    ):
        known = None if budget is None else Budget.model_validate(budget)
        found = trials_within(known, each=10.0, at_once=2, gpu=0.5, count=count)
        assert found == (trials and pytest.approx(trials)), budget
