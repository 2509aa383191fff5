"""When a trial takes too long, or has been silent for too long."""

from typing import Any

import pytest
from pydantic import ValidationError

from cse_platform.runner.failure_policy import AWAY, LEAST_SILENCE, RHYTHM, TrialLimits
from cse_platform.sweep.blocks import Resources


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, limits: TrialLimits, seconds: float) -> None:
        """Let the driver look often enough meanwhile."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + AWAY, end)
            limits.find_broken()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits_of(clock: Clock, *trials: str, **resources: Any) -> TrialLimits:
    limits = TrialLimits(Resources.model_validate(resources), seconds=clock)
    limits.watch_only(trials)
    return limits


def test_a_trial_that_takes_too_long(clock) -> None:
    limits = limits_of(clock, "old", timeout="2min")
    clock.pass_time(limits, 100)
    limits.watch_only(["old", "new"])
    clock.pass_time(limits, 20)
    limits.note_report("old")
    assert limits.find_broken() == {}
    clock.pass_time(limits, 1)
    assert list(limits.find_broken()) == ["old"]
    limits.watch_only(["new"])
    assert limits.find_broken() == {}


def test_a_trial_that_is_silent_for_too_long(clock) -> None:
    limits = limits_of(clock, "quiet", "busy", silent_for="30s")
    clock.pass_time(limits, 20)
    assert limits.find_stalled() == {"quiet", "busy"}
    limits.note_report("busy")
    clock.pass_time(limits, 11)
    assert (list(limits.find_broken()), limits.find_stalled()) == (["quiet"], {"quiet"})


def test_without_a_limit_the_rhythm_of_the_trial_is_one(clock) -> None:
    limits = limits_of(clock, "slow", "quick")
    clock.pass_time(limits, 500)  # to start
    for name in ("quick", "slow"):
        limits.note_report(name)
    for name, gap in (("quick", 1.0), ("slow", 100.0)):
        clock.pass_time(limits, gap)
        limits.note_report(name)
    clock.pass_time(limits, LEAST_SILENCE + 1)
    assert list(limits.find_broken()) == ["quick"]
    clock.pass_time(limits, RHYTHM * 101 - LEAST_SILENCE)
    assert set(limits.find_broken()) == {"quick", "slow"}


def test_a_quick_start_makes_no_rhythm(clock) -> None:
    """The first points of a large encoder can lie further apart than its start takes."""
    limits = limits_of(clock, "slow")
    clock.pass_time(limits, 40)
    limits.note_report("slow")
    clock.pass_time(limits, 100_000)
    assert limits.find_broken() == {}


def test_before_there_is_a_rhythm_that_of_the_others_holds(clock) -> None:
    limits = limits_of(clock, "first")
    clock.pass_time(limits, 100_000)
    assert (limits.find_broken(), limits.find_stalled()) == ({}, set())
    limits.watch_only(["other"])
    for _ in range(2):
        clock.pass_time(limits, 60)
        limits.note_report("other")
    limits.watch_only(["other", "next"])
    clock.pass_time(limits, RHYTHM * 60 + 1)
    assert set(limits.find_broken()) == {"other", "next"}


def test_while_the_driver_is_held_up_no_time_passes(clock) -> None:
    limits = limits_of(clock, "one", silent_for="1min", timeout="1h")
    clock.now += 100_000
    assert limits.find_broken() == {}
    clock.pass_time(limits, 61)
    assert list(limits.find_broken()) == ["one"]


def test_times_in_a_file() -> None:
    times = {"90s": 90, "20min": 1200, "1.5 h": 5400, "1d": 86400, 7: 7, 0.5: 0.5}
    for written, seconds in times.items():
        resources = Resources.model_validate({"timeout": written})
        assert resources.timeout == seconds
        assert Resources.model_validate(resources.model_dump(mode="json")) == resources
    for wrong in ("soon", "2 weeks", "-1s", "0s", -1, True, "5"):
        with pytest.raises(ValidationError):
            Resources.model_validate({"silent_for": wrong})
    of_file = {"checkpoint_every": "5min", "grace": "0s", "timeout": "1d", "silent_for": "9s"}
    asked = Resources.model_validate(of_file)
    assert (asked.checkpoint_every, asked.grace) == (300, 0)
