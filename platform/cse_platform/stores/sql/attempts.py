"""Finds trials and the attempts of journals at them, and decides which attempt a trial shows.

Each journal has one attempt at a trial here, whichever other journals there are. A trial shows its
best attempt: the one that was complete first, otherwise the one that went furthest. That is decided
at the end of each transaction from the attempts alone, so the order in which journals arrive does
not matter.
"""

from collections.abc import Collection

from sqlalchemy import case, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from cse_platform.errors import StoreLostError
from cse_platform.stores.sql.tables import AttemptRecord, TrialRecord, in_batches, known_records

_BEST_FIRST = (
    (AttemptRecord.state == "COMPLETE").desc(),
    case((AttemptRecord.state == "COMPLETE", AttemptRecord.finished)),
    case((AttemptRecord.state != "COMPLETE", func.coalesce(AttemptRecord.reached, -1))).desc(),
    AttemptRecord.journal.desc(),
)
"""The order of the attempts at a trial: those that are complete by the time of their end, then the
others from the one that went furthest; of equal ones, that of the later id of a journal is first.
"""


def show_best_attempts(session: Session, trials: Collection[int]) -> None:
    """Make trials show their best attempts, and the scores of the models of these."""
    best = select(AttemptRecord.id).where(
        AttemptRecord.trial_id == TrialRecord.id, AttemptRecord.state.is_not(None)
    )
    best_id = best.order_by(*_BEST_FIRST).limit(1).correlate(TrialRecord).scalar_subquery()
    shown = aliased(AttemptRecord)
    value = select(shown.best_value).join(TrialRecord, TrialRecord.shown_attempt == shown.id)
    value = value.where(TrialRecord.id == AttemptRecord.trial_id).correlate(AttemptRecord)
    is_same_model = or_(
        func.coalesce(AttemptRecord.state, "") != "COMPLETE",
        AttemptRecord.best_value == value.scalar_subquery(),
    )
    for ids in in_batches(sorted(trials)):
        of_trials = update(TrialRecord).where(TrialRecord.id.in_(ids))
        of_attempts = update(AttemptRecord).where(AttemptRecord.trial_id.in_(ids))
        for statement in (
            of_trials.where(TrialRecord.shown_attempt.is_distinct_from(best_id)).values(
                shown_attempt=best_id
            ),
            of_attempts.where(AttemptRecord.has_shown_model != is_same_model).values(
                has_shown_model=is_same_model
            ),
        ):
            session.execute(statement, execution_options={"synchronize_session": False})


def trial_of(session: Session, key: str) -> TrialRecord:
    """Find the trial of that key. Raises StoreLostError if it is not stored."""
    return trials_of(session, {key})[key]


def trials_of(session: Session, keys: Collection[str]) -> dict[str, TrialRecord]:
    """Find these trials by key. Raises StoreLostError if one is not stored."""
    known = known_records(session)
    unread = [key for key in keys if (TrialRecord, key) not in known]
    if unread:
        query = select(TrialRecord).where(TrialRecord.key.in_(unread))
        known.update(((TrialRecord, trial.key), trial) for trial in session.scalars(query))
    if missing := sorted(key for key in unread if (TrialRecord, key) not in known):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return {key: known[TrialRecord, key] for key in keys}


def trial_or_none(session: Session, key: str) -> TrialRecord | None:
    known: TrialRecord | None = known_records(session).get((TrialRecord, key))
    query = select(TrialRecord).where(TrialRecord.key == key)
    return known or session.scalars(query).one_or_none()


def find_attempts(
    session: Session, journal: str, trials: Collection[TrialRecord]
) -> dict[str, AttemptRecord]:
    """Find the records that a journal has of these trials, by the keys of the trials."""
    known = known_records(session)
    unread = [t.id for t in trials if (AttemptRecord, t.id, journal) not in known]
    for ids in in_batches(unread):
        query = select(AttemptRecord).where(AttemptRecord.trial_id.in_(ids))
        for attempt in session.scalars(query.where(AttemptRecord.journal == journal)):
            known[AttemptRecord, attempt.trial_id, journal] = attempt
    found = {trial.key: known.get((AttemptRecord, trial.id, journal)) for trial in trials}
    return {key: attempt for key, attempt in found.items() if attempt is not None}


def attempts_of(session: Session, journal: str, keys: Collection[str]) -> dict[str, AttemptRecord]:
    """Find a journal's attempts at trials, by their keys. Raises StoreLostError if it has not
    started one.
    """
    attempts = find_attempts(session, journal, trials_of(session, keys).values())
    for key in sorted(keys):
        if key not in attempts or not attempts[key].state:
            raise StoreLostError(f"the journal speaks of trial {key!r} before it starts")
    return attempts


def is_complete(session: Session, trial: TrialRecord) -> bool:
    """Whether an attempt at a trial is complete."""
    session.flush()
    complete = AttemptRecord.trial_id == trial.id, AttemptRecord.state == "COMPLETE"
    return bool(session.scalar(select(exists().where(*complete))))
