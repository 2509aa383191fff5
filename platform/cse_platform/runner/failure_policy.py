"""Decide when to give up on a trial, a node or a sweep, by time limits and repeated failures."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from cse_platform.render.formats import clock
from cse_platform.runner.failures import End
from cse_platform.runner.state import SweepState
from cse_platform.sweep.blocks import Resources
from cse_platform.tracking.history import TrialHistory

MAX_CRASHES = 3
GOES_ON: dict[End, int] = {"error": 0, "crash": MAX_CRASHES, "limit": 1}
"""How often a trial is resumed from its last checkpoint, by what ended it. A newer checkpoint
resets the count of crashes, because it is not the trial's fault if its node is taken away."""
STOPPED = "it was stopped by hand"
"""The reason given for a trial that a person stopped, or its error if it had reported nothing."""

RHYTHM = 20
"""Silence longer than this many times the longest gap between reports counts as a hang."""
LEAST_SILENCE = 600.0
"""Seconds of silence that are always allowed, unless the file sets `silent_for`."""
STALLED = 0.5
"""The share of the allowed silence after which a trial is shown as stalled."""
AWAY = 10.0
"""Seconds between two readings of the clock beyond which the driver itself counts as blocked."""


@dataclass
class _Watch:
    """The times of one trial, as readings of the clock in seconds."""

    begun: float
    heard: float
    longest: float = 0.0
    """The longest time between two reports."""
    has_reported: bool = False


class TrialLimits:
    """Enforces the time limits of a sweep's running trials, each known by a name.

    Without `silent_for`, the allowed silence follows from the longest gap between the trial's own
    reports; before it has one, from the longest gap of any trial; before that there is no limit.
    Time during which the driver is blocked, for example by a full disk, does not count.
    """

    def __init__(
        self, resources: Resources, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._resources, self._seconds = resources, seconds
        self._watches: dict[str, _Watch] = {}
        self._longest, self._looked = 0.0, seconds()

    def watch_only(self, running: Collection[str]) -> None:
        """Watch exactly these trials; those not watched before start now."""
        now = self._read_clock()
        kept = {name: watch for name, watch in self._watches.items() if name in running}
        self._watches = {name: kept.get(name) or _Watch(now, now) for name in running}

    def note_report(self, name: str) -> None:
        """Note that a trial has reported."""
        if watch := self._watches.get(name):
            now = self._read_clock()
            if watch.has_reported:  # the first gap includes the start of the process
                watch.longest = max(watch.longest, now - watch.heard)
                self._longest = max(self._longest, watch.longest)
            watch.heard, watch.has_reported = now, True

    def find_broken(self) -> dict[str, str]:
        """Find the trials that exceed a limit. Returns the reason for each, by name."""
        now, reasons = self._read_clock(), {}
        for name, watch in self._watches.items():
            limit, silence = self._compute_allowed_silence(watch), self._resources.silent_for
            timeout = self._resources.timeout
            if timeout is not None and now - watch.begun > timeout:
                reasons[name] = (
                    f"it took longer than {clock(timeout)} (`resources: {{timeout: …}}`)"
                )
            elif limit is not None and now - watch.heard > limit:
                why = "" if silence else f", {RHYTHM} times as long as ever before"
                reasons[name] = (
                    f"it has said nothing for {clock(limit)}{why} (`resources: {{silent_for: …}}`)"
                )
        return reasons

    def find_stalled(self) -> set[str]:
        """Find the trials that have been silent for more than half of the allowed time."""
        now = self._read_clock()
        return {
            name
            for name, watch in self._watches.items()
            if (limit := self._compute_allowed_silence(watch))
            and now - watch.heard > STALLED * limit
        }

    def _compute_allowed_silence(self, watch: _Watch) -> float | None:
        if self._resources.silent_for is not None:
            return self._resources.silent_for
        rhythm = watch.longest or self._longest
        return max(RHYTHM * rhythm, LEAST_SILENCE) if rhythm else None

    def _read_clock(self) -> float:
        """Read the clock, and discount the time during which the driver was blocked."""
        now = self._seconds()
        if (away := now - self._looked) > AWAY:
            for watch in self._watches.values():
                watch.begun, watch.heard = watch.begun + away, watch.heard + away
        self._looked = now
        return now


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


@dataclass
class _Node:
    """The results of trials on one node."""

    progressed: set[str] = field(default_factory=set)
    """Trials that have reported a trained step there."""
    failed: set[str] = field(default_factory=set)
    in_a_row: list[str] = field(default_factory=list)
    """Trials that have failed there since the last success, each listed once."""


class BadNodes:
    """Detects nodes on which trials keep failing. Trials are known by key, nodes by Ray's id."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, _Node] = defaultdict(_Node)
        self._node_of: dict[str, str] = {}
        self._bad: set[str] = set()

    def note_start(self, trial: str, node: str) -> None:
        """Note the node on which a trial starts or resumes."""
        self._node_of[trial] = node

    def note_progress(self, trial: str) -> None:
        """Note that a trial has reported a trained step."""
        if node_id := self._node_of.get(trial):
            self._nodes[node_id].progressed.add(trial)
            self._nodes[node_id].in_a_row.clear()

    def note_failure(self, trial: str) -> tuple[str, list[str]] | None:
        """Note that a trial has failed. If its node is bad now, return the node and failed trials.

        These trials, the latest consecutive failures, may succeed on another node.
        """
        if (node_id := self._node_of.pop(trial, None)) is None:
            return None
        node = self._nodes[node_id]
        node.failed.add(trial)
        if trial not in node.in_a_row:
            node.in_a_row.append(trial)
        if node_id in self._bad or self._compute_chance(node_id) > SURE:
            return None
        self._bad.add(node_id)
        return node_id, [*node.in_a_row]

    def _compute_chance(self, node_id: str) -> float:
        """Compute the probability of a node's consecutive failures at the other nodes' rate."""
        others = [node for other, node in self._nodes.items() if other != node_id]
        progressed = sum(len(node.progressed) for node in others)
        failed = sum(len(node.failed) for node in others)
        rate = (failed + 1) / (progressed + failed + 2) if progressed else 1.0
        return float(rate ** len(self._nodes[node_id].in_a_row))
