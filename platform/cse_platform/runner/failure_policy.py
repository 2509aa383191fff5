"""Decide when to give up on a trial, a node or a sweep, by time limits and repeated failures."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from cse_platform.numbers import clock
from cse_platform.runner.failures import End
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.sweep.blocks import Resources
from cse_platform.tracking.events import FailureCause
from cse_platform.tracking.history import TrialHistory

MAX_CRASHES = 3
GOES_ON: dict[End, int] = {"error": 0, "divergence": 0, "crash": MAX_CRASHES, "limit": 1}
"""How often a trial is resumed from its last checkpoint, by what ended it. A newer checkpoint
resets the count of crashes, because it is not the trial's fault if its node is taken away."""
CAUSES: dict[End, FailureCause] = {
    "error": "error", "divergence": "trial", "crash": "machine", "limit": "trial"
}  # fmt: skip
"""Why a trial failed, by what ended it."""
STOPPED = "it was stopped by hand"
"""The reason given for a trial that a person stopped, or its error if it had reported nothing."""

RHYTHM = 20
"""Silence longer than this many times the longest gap between reports counts as a hang."""
LEAST_SILENCE = 600.0
"""Seconds of silence that are always allowed, unless the file sets `silent_for`."""
AWAY = 10.0
"""Seconds between two readings of the clock beyond which the driver itself counts as blocked."""


class TrialLimits:
    """Enforces the time limits of a sweep's running trials.

    Without `silent_for`, the allowed silence follows from the longest gap between the trial's own
    reports; before it has one, from the longest gap of any trial; before that there is no limit.
    Time during which the driver is blocked, for example by a full disk, does not count.
    """

    def __init__(
        self, resources: Resources, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._resources, self._seconds = resources, seconds
        self._longest_gap, self._looked, self._blocked = 0.0, seconds(), 0.0

    def note_report(self, live: LiveTrial) -> None:
        """Note that a trial has reported."""
        now = self._read_clock()
        if live.reported_at is not None:  # the first gap includes the start of the process
            live.longest_gap = max(live.longest_gap, now - live.reported_at)
            self._longest_gap = max(self._longest_gap, live.longest_gap)
        live.reported_at = now

    def find_broken(self, running: Iterable[LiveTrial]) -> list[LiveTrial]:
        """Find the trials that now exceed a limit, and note in each why it is to be killed."""
        now, broken = self._read_clock(), []
        timeout, silent_for = self._resources.timeout, self._resources.silent_for
        for live in running:
            if live.killed:
                continue
            live.begun_at = now if live.begun_at is None else live.begun_at
            silence = now - (live.begun_at if live.reported_at is None else live.reported_at)
            limit, rhythm = silent_for, live.longest_gap or self._longest_gap
            if limit is None and rhythm:
                limit = max(RHYTHM * rhythm, LEAST_SILENCE)
            if timeout is not None and now - live.begun_at > timeout:
                live.killed = f"it took longer than {clock(timeout)} (`resources: {{timeout: …}}`)"
            elif limit is not None and silence > limit:
                why = "" if silent_for else f", {RHYTHM} times as long as ever before"
                live.killed = (
                    f"it has reported nothing for {clock(limit)}{why} (`resources: "
                    "{silent_for: …}`)"
                )
            if live.killed:
                broken.append(live)
        return broken

    def _read_clock(self) -> float:
        """Read the clock, without the time during which the driver was blocked."""
        now = self._seconds()
        if (away := now - self._looked) > AWAY:
            self._blocked += away
        self._looked = now
        return now - self._blocked


def common_cause(state: SweepState) -> str | None:
    """Return the error that all ended trials share, once `give_up_after` have failed with it.

    Trials that a person stopped do not count as failures. Trials whose processes died share that,
    although each has printed something else.
    """
    retried = {trial.key for trial in state.to_retry}
    failed: list[TrialHistory] = []
    for trial in state.history.trials.values():
        if trial.state == "RUNNING" or trial.key in retried:
            continue
        by_itself = trial.state == "FAIL" and trial.error != STOPPED
        first = failed[0] if failed else trial
        died = trial.cause == first.cause == "machine"
        if not by_itself or not (died or trial.error == first.error):
            return None  # even among thousands of trials, one of the first few ends the loop
        failed.append(trial)
    enough = failed and len(failed) >= state.spec.search.give_up_after
    return failed[0].error if enough else None


SURE = 0.00001
"""A node is bad once its run of consecutive failures has a probability below this, at the failure
rate of the other nodes. Even if every third trial fails by chance, fewer than one sweep in a
hundred loses a node."""


class BadNodes:
    """Detects nodes on which trials keep failing. Nodes are known by Ray's id, trials by key."""

    def __init__(self) -> None:
        self._progressed: defaultdict[str, set[str]] = defaultdict(set)
        """Trials that have reported a trained step, by node."""
        self._failed: defaultdict[str, set[str]] = defaultdict(set)
        self._in_a_row: defaultdict[str, list[str]] = defaultdict(list)
        """Trials that have failed since the last success on a node, each listed once."""

    def note_progress(self, trial: str, node_id: str) -> None:
        """Note that a trial has reported a trained step."""
        self._progressed[node_id].add(trial)
        self._in_a_row[node_id].clear()

    def note_failure(self, trial: str, node_id: str) -> list[str]:
        """Note that a trial has failed. If that shows its node to be bad, return the failed trials.

        These trials, the latest consecutive failures, may succeed on another node.
        """
        self._failed[node_id].add(trial)
        in_a_row = self._in_a_row[node_id]
        if trial not in in_a_row:
            in_a_row.append(trial)
        progressed = sum(len(t) for node, t in self._progressed.items() if node != node_id)
        failed = sum(len(t) for node, t in self._failed.items() if node != node_id)
        rate = (failed + 1) / (progressed + failed + 2) if progressed else 1.0
        if rate ** len(in_a_row) > SURE:
            return []
        return self._in_a_row.pop(node_id)
