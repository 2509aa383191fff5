"""What deleting a sweep would remove, and what depends on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, literal, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.trials import used_elsewhere
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

    trials: Mapping[str, str | None]
    """The kept model of each trial to delete, by its key; None if none was kept."""
    needed_models: frozenset[str]
    """Keys of trials to delete whose models were used to train other trials."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Numbers of rows to delete, by their kind."""
    values: int = 0
    """Size of the values by example to delete, in bytes."""
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
    gone = dict.fromkeys(key for key in trials if key not in known)
    return SweepContent(gone, frozenset(used_elsewhere(session, [*gone], sweep=name)))


def find_content(session: Session, sweep: SweepRecord) -> SweepContent:
    """Find what the store has of a sweep."""

    def count(which: ColumnElement[bool]) -> int:
        return session.scalar(select(func.count()).where(which)) or 0

    name = sweep.name
    going = select_going(sweep.id)
    of_attempts: dict[str, type[Any]] = {
        "dev points": DevPointRecord,
        "scores": ScoreRecord,
        "values by example": ExampleValuesRecord,
    }
    attempts = select(AttemptRecord.id).where(AttemptRecord.trial_id.in_(going))
    trials = select(TrialRecord.key, AttemptRecord.model).join(TrialRecord.shown)
    trials = trials.where(TrialRecord.id.in_(going))
    models: dict[str, str | None] = {row[0]: row[1] for row in session.execute(trials)}
    annotated = tuple(_find_annotated(session, sweep, going))
    rows = {
        "trials": len(models),
        **{kind: count(table.attempt_id.in_(attempts)) for kind, table in of_attempts.items()},
        "trials, configurations and sweeps with notes": len(annotated),
        "messages": count(DriverMessageRecord.sweep_id == sweep.id),
        "requests": count(SweepRequestRecord.sweep == name),
    }
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
    size = func.sum(func.length(ExampleValuesRecord.packed))
    values = session.scalar(select(size).where(ExampleValuesRecord.attempt_id.in_(attempts)))
    tested = func.count(TestAccessRecord.trial_id.distinct())
    return SweepContent(
        rows=rows,
        values=int(values or 0),
        trials=models,
        annotated=annotated,
        shared=shared,
        needed_models=frozenset(used_elsewhere(session, [*models], sweep=name)),
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
