"""How long a trial may take, and how long it may say nothing."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from cse_platform.render.formats import clock
from cse_platform.sweep.resources import Resources

RHYTHM = 20
"""So many times the longest time between two reports is no rhythm any more."""
LEAST_SILENCE = 600.0
"""Seconds of silence that are never too long, where the file does not say so."""
STALLED = 0.5
"""The share of the allowed silence after which a trial is shown as stalled."""
AWAY = 10.0
"""Seconds between two looks after which it was the driver that did nothing."""


@dataclass
class _Watch:
    """The times of one trial, in seconds of the clock."""

    begun: float
    heard: float
    longest: float = 0.0
    """Between two signs of life."""
    has_reported: bool = False


class TrialLimits:
    """Watches the running trials of one sweep, each by a name.

    Without `silent_for`, a trial's own rhythm says how long it may be silent; until it has one, the
    slowest that the sweep has seen; and before that, nothing does. While the driver is held up, as
    on a full disk, no trial can be heard, and that time does not count.
    """

    def __init__(
        self, resources: Resources, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._resources, self._seconds = resources, seconds
        self._watches: dict[str, _Watch] = {}
        self._longest, self._looked = 0.0, seconds()

    def follow(self, running: Collection[str]) -> None:
        """Watch these trials, the new ones from now on, and no others."""
        now = self._now()
        kept = {name: watch for name, watch in self._watches.items() if name in running}
        self._watches = {name: kept.get(name) or _Watch(now, now) for name in running}

    def hear(self, name: str) -> None:
        """Note a sign of life."""
        if watch := self._watches.get(name):
            now = self._now()
            if watch.has_reported:  # how long a process takes to start is no rhythm
                watch.longest = max(watch.longest, now - watch.heard)
                self._longest = max(self._longest, watch.longest)
            watch.heard, watch.has_reported = now, True

    def broken(self) -> dict[str, str]:
        """Why trials are to be ended, by name."""
        now, found = self._now(), {}
        for name, watch in self._watches.items():
            limit, silence = self._allowed_silence(watch), self._resources.silent_for
            timeout = self._resources.timeout
            if timeout is not None and now - watch.begun > timeout:
                found[name] = f"it took longer than {clock(timeout)} (`resources: {{timeout: …}}`)"
            elif limit is not None and now - watch.heard > limit:
                why = "" if silence else f", {RHYTHM} times as long as ever before"
                found[name] = (
                    f"it has said nothing for {clock(limit)}{why} (`resources: {{silent_for: …}}`)"
                )
        return found

    def stalled(self) -> set[str]:
        """The trials that are silent for so long that they will probably be ended."""
        now = self._now()
        return {
            name
            for name, watch in self._watches.items()
            if (limit := self._allowed_silence(watch)) and now - watch.heard > STALLED * limit
        }

    def _allowed_silence(self, watch: _Watch) -> float | None:
        if self._resources.silent_for is not None:
            return self._resources.silent_for
        rhythm = watch.longest or self._longest
        return max(RHYTHM * rhythm, LEAST_SILENCE) if rhythm else None

    def _now(self) -> float:
        """The time, after which the time that the driver was away is taken out of all watches."""
        now = self._seconds()
        if (away := now - self._looked) > AWAY:
            for watch in self._watches.values():
                watch.begun, watch.heard = watch.begun + away, watch.heard + away
        self._looked = now
        return now
