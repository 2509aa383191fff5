"""What deleting a sweep would remove, and what depends on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, literal, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.numbers import format_size
from cse_platform.stores.sql.removal import select_going
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    ExampleValuesRecord,
    ScoreRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.tracking.events import Annotatable


@dataclass(frozen=True)
class SweepContent:
    """What removing a sweep would delete, and what else depends on it."""

    trials: Sequence[str]
    """Keys of the trials to delete."""
    needed_models: set[str]
    """Keys of trials to delete whose models were used to train other trials."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """How many rows to delete, by their kind."""
    annotated: tuple[tuple[Annotatable, str], ...] = ()
    """The trials, configurations and sweep to delete that have notes, tags or stars, by name."""
    shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Keys of the trials to keep, by the other sweep that holds them."""
    tested: int = 0
    """Number of trials to delete for which test sets were opened."""


def find_left_over(session: Session, name: str, trials: Sequence[str]) -> SweepContent:
    """Find what may be left of a sweep whose rows are gone: of these trials, those that the store
    does not have.
    """
    known: set[str] = set()
    for batch in in_batches(trials):
        known.update(session.scalars(select(TrialRecord.key).where(TrialRecord.key.in_(batch))))
    gone = [key for key in trials if key not in known]
    return SweepContent(gone, used_elsewhere(session, gone, sweep=name))


def find_content(session: Session, sweep: SweepRecord) -> SweepContent:
    """Find what the store has of a sweep."""

    def count(which: ColumnElement[bool]) -> int:
        return session.scalar(select(func.count()).where(which)) or 0

    going = select_going(sweep.id)
    attempts = select(AttemptRecord.id).where(AttemptRecord.trial_id.in_(going))
    trials = session.scalars(select(TrialRecord.key).where(TrialRecord.id.in_(going))).all()
    annotated = tuple(_find_annotated(session, sweep, going))
    rows = {
        "trials": len(trials),
        "dev points": count(DevPointRecord.attempt_id.in_(attempts)),
        "scores": count(ScoreRecord.attempt_id.in_(attempts)),
        "values by example": count(ExampleValuesRecord.attempt_id.in_(attempts)),
        "trials, configurations and sweeps with notes": len(annotated),
        "messages": count(DriverMessageRecord.sweep_id == sweep.id),
        "requests": count(SweepRequestRecord.sweep == sweep.name),
    }
    shown = {kind: str(number) for kind, number in rows.items() if number}
    size = select(func.sum(func.length(ExampleValuesRecord.packed)))
    if packed := session.scalar(size.where(ExampleValuesRecord.attempt_id.in_(attempts))):
        shown["values by example"] += f", {format_size(int(packed))}"
    mine = aliased(SweepTrialRecord)
    others = (
        select(SweepRecord.name, TrialRecord.key)
        .join(SweepTrialRecord, SweepTrialRecord.sweep_id == SweepRecord.id)
        .join(SweepTrialRecord.trial)
        .join(mine, mine.trial_id == SweepTrialRecord.trial_id)
        .where(mine.sweep_id == sweep.id, SweepRecord.id != sweep.id)
        .order_by(SweepRecord.name, TrialRecord.key)
    )
    shared: dict[str, list[str]] = {}
    for other, key in session.execute(others):
        shared.setdefault(other, []).append(key)
    tested = func.count(TestAccessRecord.trial_id.distinct())
    return SweepContent(
        trials,
        used_elsewhere(session, trials, sweep=sweep.name),
        rows=shown,
        annotated=annotated,
        shared=shared,
        tested=session.scalar(select(tested).where(TestAccessRecord.trial_id.in_(going))) or 0,
    )


def _find_annotated(
    session: Session, sweep: SweepRecord, going: Any
) -> Iterator[tuple[Annotatable, str]]:
    """Yield what is annotated of a sweep and goes with it; a configuration goes with its seeds."""
    staying = select(TrialRecord.configuration_id).where(TrialRecord.id.not_in(going))
    seeds = select(TrialRecord.configuration_id).where(TrialRecord.id.in_(going))
    names: dict[Annotatable, Any] = {
        "trial": select(TrialRecord.key).where(TrialRecord.id.in_(going)),
        "configuration": select(ConfigurationRecord.hash).where(
            ConfigurationRecord.id.in_(seeds), ConfigurationRecord.id.not_in(staying)
        ),
        "sweep": select(literal(sweep.name)),
    }
    for about, which in names.items():
        known = select(AnnotationRecord.name).where(
            AnnotationRecord.about == about,
            AnnotationRecord.name.in_(which),
            AnnotationRecord.stands.is_(True),
        )
        yield from ((about, name) for name in session.scalars(known.distinct()))
