"""Decides which attempt a trial shows.

Each journal has one attempt at a trial here, whichever other journals there are. A trial shows its
best attempt: the one that was complete first, otherwise the one that went furthest. That is decided
at the end of each transaction from the attempts alone, so the order in which journals arrive does
not matter.
"""

from collections.abc import Collection

from sqlalchemy import case, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from cse_platform.stores.sql.tables import AttemptRecord, TrialRecord, in_batches

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
