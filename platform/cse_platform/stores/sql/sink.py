"""Applies the events of journals to the leaderboard, each event once."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import JournalError, OtherSweepError, StoreDownError, StoreError
from cse_platform.secrets import mask_text
from cse_platform.stores.sql.events import CONTRADICTIONS, apply_event
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.pending_writes import collect_writes
from cse_platform.stores.sql.store import SLICE_ROWS, Store
from cse_platform.stores.sql.tables import JournalCursorRecord
from cse_platform.stores.sql.trial_events import add_points, store_starts
from cse_platform.tracking import events
from cse_platform.tracking.journal import read_journal, read_journal_id, refuse_older_copy
from cse_platform.tracking.recorder import Sink

_log = logging.getLogger(__name__)

Entry = tuple[int, events.Event]
"""An event of a journal, and the offset where it ends."""
Change = Callable[[int, events.Event], events.Event | None]
"""Applied to the offset where an event ends and the event; returns None if it is left out."""


class LeaderboardSink:
    """The SQL leaderboard as a sink: a batch and its cursor are written in one transaction.

    Given the lease of the sweep's driver, it refuses to write once another driver holds the sweep.
    With `warns_early`, it says of a trial that its events wait, as soon as the first of them does.
    """

    name = "leaderboard"
    can_be_refilled = False
    pause = 1.0  # a transaction for each event would take a driver of short trials twice the time

    def __init__(
        self, leaderboard: Store, lease: Lease | None = None, *, warns_early: bool = True
    ) -> None:
        self._leaderboard, self._lease, self._warns_early = leaderboard, lease, warns_early
        self._positions: dict[str, int] = {}
        """The last known position of each journal."""
        self._logged: set[str] = set()
        """The reasons that were logged, so that each is logged once."""

    def position(self, journal: str) -> int:
        """Return the end offset of the last event applied from this journal; 0 if it is new.

        A leaderboard that was deleted since it was opened is made anew.
        """
        try:
            with self._leaderboard.session() as session:
                position = _read_position(session, journal)
        except StoreError as error:
            if not self._leaderboard.make_if_missing():
                raise
            lost = (
                "%s; a new one is filled with this journal; cse-leaderboard rebuild adds the rest"
            )
            _log.warning(lost, mask_text(str(error)))
            position = 0
        self._positions[journal] = position
        return position

    def apply(self, journal: str, entries: Sequence[tuple[int, events.Event]]) -> None:
        """Apply these events, except those that contradict the store.

        Those are skipped with a warning, because a retry would fail again and hold up all later
        events. Only `TestAccessed` is never skipped.

        Raises:
            StoreError: if the database is down or damaged, or an older copy has taken its place
                since `position`; then nothing is applied.
            OtherSweepError: if an event starts a sweep that belongs to another journal there. From
                there on nothing is applied: scores would go to equal trials of the other sweep.
            LeaseLostError: if another driver has taken over the sweep.
        """
        after = self._positions.get(journal, 0)
        try:
            self.apply_whole(journal, entries, after=after)
        except (*CONTRADICTIONS, OtherSweepError) as error:
            if len(entries) > 1:
                middle = len(entries) // 2
                self.apply(journal, entries[:middle])
                self.apply(journal, entries[middle:])
                return
            [(end, event)] = entries
            if isinstance(event, events.TestAccessed) or isinstance(error, OtherSweepError):
                raise
            with self._leaderboard.writing() as session:
                session.merge(JournalCursorRecord(journal=journal, position=end))
            reason = str(error) or repr(error)
            if reason not in self._logged:
                self._logged.add(reason)
                says = "sweep %s: the leaderboard skips a %s, which stays in the journal: %s"
                _log.warning(says, event.sweep, event.kind, mask_text(reason))
        if entries:
            self._positions[journal] = entries[-1][0]

    def apply_whole(self, journal: str, entries: Sequence[Entry], *, after: int = 0) -> None:
        """Apply the entries after the journal's stored position, and advance it, or do nothing.

        What was applied before is skipped; `after` is the position that the first entry follows.
        Raises StoreLostError also if an event contradicts the store.
        """
        with self._leaderboard.writing() as session:
            if self._lease is not None:
                self._lease.renew(session)
            position = _read_position(session, journal)
            if position < after:
                raise StoreDownError("the leaderboard was replaced by an older copy")
            news = [entry for entry in entries if entry[0] > position]
            begun = [e for _, e in news if isinstance(e, events.SweepStarted | events.TrialStarted)]
            starts = [  # those of each launch
                [event for event in some if isinstance(event, events.TrialStarted)]
                for kind, some in groupby(begun, type)
                if kind is events.TrialStarted
            ]
            with collect_writes(session) as pending:
                kinds = groupby(news, lambda entry: isinstance(entry[1], events.TrialPoint))
                for are_points, some in kinds:
                    if are_points:
                        points = [
                            event for _, event in some if isinstance(event, events.TrialPoint)
                        ]
                        add_points(session, journal, points)
                        continue
                    for end, event in some:
                        if starts and event is starts[0][0]:
                            store_starts(session, journal, starts.pop(0))
                        apply_event(session, journal, end, event)
            reached = news[-1][0] if news else position
            session.merge(JournalCursorRecord(journal=journal, position=reached))
        for sentence in pending.waits if self._warns_early else ():
            _log.warning(sentence)


def apply_journal(
    sink: Sink,
    path: Path,
    after_slice: Callable[[int], None] = lambda end: None,
    *,
    change: Change = lambda _end, event: event,
    rows: int = SLICE_ROWS,
) -> None:
    """Apply to a sink what it lacks of a journal, in slices of so many events.

    `after_slice` is called after each slice, with the offset that it has reached; `change` is
    applied to each event. A sink that has more than the journal, of which this is then an older
    copy, gets it from the beginning if it can.

    Raises JournalError if the journal is damaged, of a newer version, or an older copy; what
    precedes the damage is applied before.
    """
    journal = read_journal_id(path)
    position = sink.position(journal)
    try:
        refuse_older_copy(path, position)
    except JournalError:
        if not sink.can_be_refilled:
            raise
        position = 0
    damage = list[JournalError]()

    def read_until_damage() -> Iterator[Entry]:
        try:
            for end, event in read_journal(path, offset=position):
                if (changed := change(end, event)) is not None:
                    yield end, changed
        except JournalError as error:
            damage.append(error)

    entries = read_until_damage()
    while some := list(islice(entries, rows)):
        sink.apply(journal, some)
        after_slice(some[-1][0])
    for error in damage:
        raise error


def _read_position(session: Session, journal: str) -> int:
    cursor = session.get(JournalCursorRecord, journal)
    return 0 if cursor is None else cursor.position


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))
