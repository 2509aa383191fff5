"""What the search of a sweep has taken so far: time, and hours of GPUs."""

from datetime import datetime

from cse_platform.tracking import events


class SearchEffort:
    """Put together from a sweep's events, in their order; further seeds do not count."""

    def __init__(self) -> None:
        self.gpu_seconds = 0.0
        """Of whole GPUs, by the trials that have ended."""
        self._seconds = 0.0
        self._running: set[str] = set()
        self._last: datetime | None = None

    def apply(self, event: events.Event) -> None:
        """Take one event; one that is repeated changes nothing."""
        if isinstance(event, events.SweepStarted):  # nothing ran while the driver was away
            self._running.clear()
        self._seconds = self.seconds(event.time)
        self._last = event.time
        if isinstance(event, events.TrialStarted) and event.role != "confirm":
            self._running.add(event.trial)
        if isinstance(event, events.TrialFinished) and event.trial in self._running:
            self._running.remove(event.trial)
            self.gpu_seconds += (event.wall_seconds or 0.0) * event.gpus

    def seconds(self, now: datetime) -> float:
        """How long a trial of the search ran, one at least, until now."""
        if not self._running or self._last is None:
            return self._seconds
        return self._seconds + max((now - self._last).total_seconds(), 0.0)
