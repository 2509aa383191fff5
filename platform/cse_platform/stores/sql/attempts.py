"""Decide which journal's attempt at a trial the leaderboard shows, and write what it shows.

A trial has one attempt here, as a whole: the first that is complete, otherwise the one that went
furthest. What other journals tell of the trial stays in those journals. When one of them gets
better, its events are read there again and take the place of what is shown. So the order in which
journals arrive does not matter, except that a trial which its sweep begins anew stays shown.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from cse_platform.stores.sql.evaluations import OWN_SCORES, drop_foreign_scores, write_own_scores
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    DevPointRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.stores.sql.upserts import insert_missing
from cse_platform.tracking.events import Event, TrialFinished, TrialPoint, TrialStarted

Rank = tuple[bool, float, str]


def count_complete(session: Session, configurations: Collection[int]) -> None:
    """Recompute the counts and means of configurations over complete seeds.

    All values are read again, because they are few and the last digit of a running mean would
    depend on the order in which trials arrive.
    """
    for ids in in_batches(sorted(configurations)):
        values: dict[int, list[float]] = {id_: [] for id_ in ids}
        query = select(TrialRecord.configuration_id, TrialRecord.best_value).where(
            TrialRecord.configuration_id.in_(values), TrialRecord.state == "COMPLETE"
        )
        for id_, value in session.execute(query):
            if value is not None:
                values[id_].append(value)
        records = select(ConfigurationRecord).where(ConfigurationRecord.id.in_(values))
        for record in session.scalars(records):
            found = values[record.id]
            record.n = len(found)
            record.mean = fsum(found) / len(found) if found else None


@dataclass
class Held:
    """What a transaction that applies events of a journal writes or decides at its end."""

    points: list[dict[str, Any]] = field(default_factory=list)
    """The rows of dev points; the first value for a step stays."""
    configurations: set[int] = field(default_factory=set)
    """Those whose complete trials are to be counted again."""
    rivals: set[str] = field(default_factory=set)
    """Keys of trials that show another journal's attempt, which this journal's outdoes, or of whose
    model it may have scores.
    """
    reached: dict[int, int | None] = field(default_factory=dict)
    """The last steps that other journals' attempts show, by the trial's id, as far as read."""


@contextmanager
def holding(session: Session) -> Iterator[Held]:
    """Collect dev points and configurations to count until the end, and then write them."""
    session.info |= {Held: (held := Held()), OWN_SCORES: {}}
    with session.no_autoflush:  # whoever needs something flushed does so
        yield held
    write_points(session)
    write_own_scores(session)
    count_complete(session, held.configurations)
    del session.info[Held], session.info[OWN_SCORES]


def write_points(session: Session) -> None:
    """Write the dev points that are held back, so that a query finds them."""
    rows = session.info[Held].points
    insert_missing(session, DevPointRecord, ["trial_id", "step"], rows)
    rows.clear()


def is_shown(
    session: Session,
    trial: TrialRecord,
    journal: str,
    *,
    reached: int | None = None,
    completed: datetime | None = None,
) -> bool:
    """Whether a trial shows this journal's attempt, and that is not complete yet.

    If it shows another one, and this journal's outdoes it by the step that it has `reached`, or
    because it is `completed`, note that.
    """
    if trial.journal == journal:
        return trial.state != "COMPLETE"
    held = session.info[Held]
    if trial.key not in held.rivals and (completed is not None or trial.state != "COMPLETE"):
        if trial.id not in held.reached:
            held.reached |= _find_reached(session, [trial])
        if rank(reached, completed, journal) > _rank_trial(trial, held.reached[trial.id]):
            held.rivals.add(trial.key)
    return False


def rank(reached: int | None, completed: datetime | None, journal: str = "") -> Rank:
    """Rank an attempt: a trial shows the attempt with the highest rank.

    The attempt that was complete first ranks highest, then that with the latest last step
    `reached`; of equal ones, that of the later id of a journal.
    """
    if completed is not None:
        return True, -completed.timestamp(), journal
    return False, -1 if reached is None else reached, journal


def _rank_trial(trial: TrialRecord, reached: int | None) -> Rank:
    return rank(reached, trial.finished if trial.state == "COMPLETE" else None, trial.journal)


def _find_reached(session: Session, trials: Sequence[TrialRecord]) -> dict[int, int | None]:
    """Find the last step of each trial, by its id; None if it has no dev point."""
    query = select(DevPointRecord.trial_id, func.max(DevPointRecord.step))
    query = query.group_by(DevPointRecord.trial_id)
    reached: dict[int, int | None] = dict.fromkeys(trial.id for trial in trials)
    for ids in in_batches(list(reached)):
        rows = session.execute(query.where(DevPointRecord.trial_id.in_(ids)))
        reached |= {row[0]: row[1] for row in rows}
    return reached


def rank_shown(session: Session, trials: Sequence[TrialRecord]) -> dict[str, Rank]:
    """Rank the shown attempt of each trial, by the trial's key."""
    reached = _find_reached(session, trials)
    return {trial.key: _rank_trial(trial, reached[trial.id]) for trial in trials}


@dataclass
class Attempt:
    """A journal's attempt at a trial, as its events tell it."""

    started: datetime
    reached: int | None = None
    completed: datetime | None = None
    value: float | None = None
    """Its dev score, if it is complete."""

    def rank(self, journal: str) -> Rank:
        """Rank it among the attempts of all journals."""
        return rank(self.reached, self.completed, journal)


def read_attempt(events: Iterable[Event]) -> Attempt | None:
    """Read a journal's attempt at a trial from the trial's events; None if it made none."""
    attempt: Attempt | None = None
    for event in events:
        match event:
            case TrialStarted() if attempt is None or event.resumed_from is None:
                attempt = Attempt(event.time)
            case TrialPoint() if attempt is not None:
                attempt.reached = max(attempt.reached or 0, event.step)
            case TrialFinished(state="COMPLETE") if attempt is not None:
                attempt.completed, attempt.value = event.time, finite_or_null(event.best_value)
                return attempt
            case _:
                pass
    return attempt


def show_from_beginning(
    session: Session, trial: TrialRecord, journal: str, attempt: Attempt
) -> None:
    """Make a trial show a journal's attempt instead, whose events are to be applied next."""
    if trial.state == "COMPLETE" and trial.best_value != attempt.value:
        drop_foreign_scores(session, trial)
    begin(session, trial, started=attempt.started)
    trial.journal, trial.provenance, trial.machine_id = journal, {}, None


def begin(session: Session, trial: TrialRecord, *, started: datetime | None) -> None:
    """Set the shown attempt to running. With `started`, it restarts from scratch: its dev points
    are deleted.
    """
    if started is not None:
        write_points(session)
        session.execute(delete(DevPointRecord).where(DevPointRecord.trial_id == trial.id))
        trial.started, trial.start_value = started, None
    trial.state, trial.finished, trial.error, trial.model = "RUNNING", None, None, None
    trial.best_step, trial.best_value, trial.wall_seconds = None, None, None
    trial.model_deleted, trial.why, trial.costs = None, None, {}


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None
