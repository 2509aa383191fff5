"""When a trial takes too long, or has been silent for too long."""

from typing import Any

import pytest
from pydantic import ValidationError

from cse_platform.runner.failure_policy import AWAY, LEAST_SILENCE, RHYTHM, TrialLimits
from cse_platform.runner.state import LiveTrial
from cse_platform.sweep.blocks import Resources


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, limits: TrialLimits, seconds: float, *running: LiveTrial) -> set[LiveTrial]:
        """Let the driver look often enough meanwhile. Returns the trials that broke a limit."""
        end, broken = self.now + seconds, set(limits.find_broken(running))
        while self.now < end:
            self.now = min(self.now + AWAY, end)
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


def test_a_trial_that_takes_too_long(clock) -> None:
    limits, (old, new) = limits_of(clock, timeout="2min"), new_trials(2)
    assert not clock.pass_time(limits, 100, old)
    assert not clock.pass_time(limits, 20, old, new)
    limits.note_report(old)
    assert not limits.find_broken([old, new])
    assert clock.pass_time(limits, 1, old, new) == {old}
    assert "longer than 2 min" in old.killed
    assert not limits.find_broken([old, new])  # it is told once
    assert (old.stalled, new.stalled) == (True, False)


def test_a_trial_that_is_silent_for_too_long(clock) -> None:
    limits, (quiet, busy) = limits_of(clock, silent_for="30s"), new_trials(2)
    assert not clock.pass_time(limits, 20, quiet, busy)
    assert (quiet.stalled, busy.stalled) == (True, True)
    limits.note_report(busy)
    assert clock.pass_time(limits, 11, quiet, busy) == {quiet}
    assert (quiet.stalled, busy.stalled) == (True, False)


def test_without_a_limit_the_rhythm_of_the_trial_is_one(clock) -> None:
    limits, (slow, quick) = limits_of(clock), new_trials(2)
    clock.pass_time(limits, 500, slow, quick)  # to start
    for live in (quick, slow):
        limits.note_report(live)
    for live, gap in ((quick, 1.0), (slow, 100.0)):
        clock.pass_time(limits, gap, slow, quick)
        limits.note_report(live)
    assert clock.pass_time(limits, LEAST_SILENCE + 1, slow, quick) == {quick}
    assert clock.pass_time(limits, RHYTHM * 101 - LEAST_SILENCE, slow, quick) == {slow}


def test_a_quick_start_makes_no_rhythm(clock) -> None:
    """The first points of a large encoder can lie further apart than its start takes."""
    limits, [slow] = limits_of(clock), new_trials(1)
    clock.pass_time(limits, 40, slow)
    limits.note_report(slow)
    assert not clock.pass_time(limits, 100_000, slow)


def test_before_there_is_a_rhythm_that_of_the_others_holds(clock) -> None:
    limits, (first, other, later) = limits_of(clock), new_trials(3)
    assert not clock.pass_time(limits, 100_000, first)
    assert not first.stalled
    for _ in range(2):
        clock.pass_time(limits, 60, other)
        limits.note_report(other)
    assert clock.pass_time(limits, RHYTHM * 60 + 1, other, later) == {other, later}


def test_while_the_driver_is_held_up_no_time_passes(clock) -> None:
    limits, [live] = limits_of(clock, silent_for="1min", timeout="1h"), new_trials(1)
    assert not limits.find_broken([live])
    clock.now += 100_000
    assert not limits.find_broken([live])
    assert clock.pass_time(limits, 61, live) == {live}


def test_times_in_a_file() -> None:
    times = {"90s": 90, "20min": 1200, "1.5 h": 5400, "1d": 86400, 7: 7, 0.5: 0.5}
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
