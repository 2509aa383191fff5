"""Records every event of a sweep in the journal, and fills the stores from it in the background."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from cse_platform.errors import JournalError, LeaseLostError, StoreDownError, StoreError
from cse_platform.secrets import mask_text
from cse_platform.tracking.events import Event
from cse_platform.tracking.journal import Journal

_BATCH = 500
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
"""First and longest delay between attempts on a sink that is down, in seconds."""
FLUSH_SECONDS = 60.0
"""Seconds that the end of a sweep or an evaluation waits for stores that are behind."""

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """A store that mirrors journals, each up to a position of its own.

    Only one background thread calls it. After any exception, the same entries are applied again
    later, so `apply` must be atomic or idempotent.
    """

    name: str
    """The name in messages, e.g. `leaderboard`."""
    can_be_refilled: bool
    """Whether it can apply a journal from its beginning again, adding only what it lacks."""
    pause: float
    """Seconds to wait after it has applied everything, to collect further events into a batch; the
    wait ends at once if somebody waits for the sink.
    """

    def position(self, journal: str) -> int:
        """Return the end offset of the last event applied from this journal; 0 for a new one."""

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Apply one or more (end offset, event) pairs; `position` is then the last offset."""


@dataclass(frozen=True)
class SinkHealth:
    name: str
    behind: int
    """Number of events of the journal that the sink does not have yet."""
    error: str | None
    """Why the last attempt failed; None if it did not."""


class Recorder:
    """Appends events to the journal and fills the sinks from it, each in a thread of its own.

    A sink that is down is retried until it is back, and then catches up; the caller never sees a
    sink's errors. Events that an earlier process left unapplied are applied first. The recorder
    owns the journal, and closes it. `check` raises LeaseLostError once another process writes for
    the journal's sweep; then no sink is given anything more.
    """

    def __init__(
        self,
        journal: Journal,
        sinks: Sequence[Sink] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._feeders = [_Feeder(journal, sink, check) for sink in sinks]
        journal.on_durable = self._wake_feeders
        self._wake_feeders()

    def record(self, event: Event) -> Event:
        """Append an event to the journal. Returns the event as written.

        It blocks only while the journal itself cannot be written.
        """
        return self._journal.append(event)[1]

    def health(self) -> list[SinkHealth]:
        return [feeder.health() for feeder in self._feeders]

    def flush(self, timeout: float, *, only: str | None = None) -> list[SinkHealth]:
        """Wait until all sinks, or only the one named, have everything recorded so far.

        Waits at most `timeout` seconds.
        """
        goal, deadline = self._journal.end, time.monotonic() + timeout
        for feeder in self._feeders:
            if only in (None, feeder.name):
                feeder.wait_until(goal, timeout=max(0.0, deadline - time.monotonic()))
        return self.health()

    def close(self, timeout: float) -> list[SinkHealth]:
        """Flush for at most `timeout` seconds, then stop the threads and close the journal.

        Events that a sink still lacks are applied at the next start.
        """
        health = self.flush(timeout)
        for feeder in self._feeders:
            feeder.stop()
        self._journal.close()
        return health

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close(timeout=LONGEST_DELAY)

    def _wake_feeders(self) -> None:
        for feeder in self._feeders:
            feeder.wake()


class _Feeder:
    def __init__(self, journal: Journal, sink: Sink, check: Callable[[], None]) -> None:
        self._journal = journal
        self._sink = sink
        self._check = check
        self.name = sink.name
        self._position = 0
        self._has_applied = False
        self._error: str | None = None
        self._waits_in_vain = False
        """Whether the last error was one that stays, such as another sweep's store."""
        self._stopped = False
        self._goal = 0
        """The highest offset that somebody waits for."""
        self._news = threading.Event()
        self._hurry = threading.Event()
        self._moved = threading.Condition()
        # A daemon, because a sink that hangs forever must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run_forever, name=f"feed {sink.name}", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        self._news.set()

    def health(self) -> SinkHealth:
        behind = self._journal.count_after(self._position)
        return SinkHealth(self._sink.name, behind, self._error)

    def wait_until(self, goal: int, *, timeout: float) -> None:
        """Wait for the sink to reach an offset, without pauses after a batch or an error.

        It does not wait after an error that stays.
        """
        with self._moved:
            self._goal = max(self._goal, goal)
            self._hurry.set()
            self._moved.wait_for(
                lambda: self._stopped or self._waits_in_vain or self._has_reached(goal), timeout
            )

    def _has_reached(self, goal: int) -> bool:
        # Without events in the journal, the position stays 0, which is before the header.
        return self._position >= goal or not self._journal.count_after(self._position)

    def stop(self) -> None:
        """Stop after the current batch; do not wait for a sink that hangs."""
        with self._moved:
            self._stopped = True
            self._hurry.set()
            self._moved.notify_all()
        self._news.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def _run_forever(self) -> None:
        delay = FIRST_DELAY
        while not self._stopped:
            try:
                self._news.clear()
                self._check()
                self._restore_position()
                # If a sink were ahead of the disk, a power cut would make it miss later events.
                while not self._stopped and (
                    batch := self._journal.slice_after(self._position, _BATCH)
                ):
                    self._check()  # again: this process may have been suspended meanwhile
                    self._sink.apply(self._journal.id, batch)
                    self._has_applied = True
                    self._note_error(None)  # before who waits for these events goes on
                    self._move_to(batch.end)
            except LeaseLostError:
                self.stop()
            except Exception as error:  # whatever a sink raises, the sweep goes on
                self._note_error(error)
                hurried = self._hurry.wait(delay)
                self._hurry.clear()
                delay = FIRST_DELAY if hurried else min(2 * delay, LONGEST_DELAY)
            else:
                self._note_error(None)
                delay = FIRST_DELAY
                with self._moved:
                    if self._has_reached(self._goal) and not self._stopped:
                        self._hurry.clear()
                self._hurry.wait(self._sink.pause)
                self._news.wait()

    def _restore_position(self) -> None:
        """Move to the sink's position, or to the beginning if the journal is an older copy.

        Raises JournalError if it is and the sink cannot be refilled.
        """
        position = self._sink.position(self._journal.id)
        try:
            if not self._has_applied:
                self._journal.refuse_older_copy(position)
        except JournalError:
            if not self._sink.can_be_refilled:
                raise
            position = 0
        self._move_to(position)

    def _move_to(self, position: int) -> None:
        with self._moved:
            self._position = position
            self._moved.notify_all()

    def _note_error(self, error: Exception | None) -> None:
        with self._moved:
            down = isinstance(error, StoreDownError)
            self._waits_in_vain = isinstance(error, StoreError) and not down
            self._moved.notify_all()
        reason = None if error is None else mask_text(" ".join(str(error).split()) or repr(error))
        is_new = self._error is None or (self._waits_in_vain and reason != self._error)
        if reason is not None and is_new:
            catches_up = "" if self._waits_in_vain else " and will catch up"
            _log.warning("%s is behind%s: %s", self._sink.name, catches_up, reason)
        if reason is None and self._error is not None:
            _log.warning("%s is back", self._sink.name)
        self._error = reason
