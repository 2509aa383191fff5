"""What deleting a sweep would remove, and what depends on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, literal, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.board import read_first_test_accesses
from cse_platform.leaderboard.records import TEST_SOURCES
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.numbers import format_size
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.removal import select_going
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
    opened_later: tuple[datetime | None, ...] = ()
    """When test sets were opened first for other trials of a method, backbone and kind of data, of
    which it was first for a trial to delete; None for never.
    """


def find_left_over(session: Session, name: str, trials: Sequence[str]) -> SweepContent:
    """Find what may be left of a sweep whose rows are gone: of these trials, those that the store
    does not have.
    """
    known: set[str] = set()
    for batch in tables.in_batches(trials):
        known.update(
            session.scalars(select(tables.TrialRecord.key).where(tables.TrialRecord.key.in_(batch)))
        )
    gone = [key for key in trials if key not in known]
    return SweepContent(gone, used_elsewhere(session, gone, sweep=name))


def find_content(session: Session, sweep: tables.SweepRecord) -> SweepContent:
    """Find what the store has of a sweep."""

    def count(which: ColumnElement[bool]) -> int:
        return session.scalar(select(func.count()).where(which)) or 0

    going = select_going(sweep.id)
    attempts = select(tables.AttemptRecord.id).where(tables.AttemptRecord.trial_id.in_(going))
    trials = session.scalars(
        select(tables.TrialRecord.key).where(tables.TrialRecord.id.in_(going))
    ).all()
    annotated = tuple(_find_annotated(session, sweep, going))
    rows = {
        "trials": len(trials),
        "dev points": count(tables.DevPointRecord.attempt_id.in_(attempts)),
        "scores": count(tables.ScoreRecord.attempt_id.in_(attempts)),
        "values by example": count(tables.ExampleValuesRecord.attempt_id.in_(attempts)),
        "trials, configurations and sweeps with notes": len(annotated),
        "messages": count(tables.DriverMessageRecord.sweep_id == sweep.id),
        "requests": count(tables.SweepRequestRecord.sweep == sweep.name),
    }
    shown = {kind: str(number) for kind, number in rows.items() if number}
    size = select(func.sum(func.length(tables.ExampleValuesRecord.packed)))
    if packed := session.scalar(size.where(tables.ExampleValuesRecord.attempt_id.in_(attempts))):
        shown["values by example"] += f", {format_size(int(packed))}"
    mine = aliased(tables.SweepTrialRecord)
    others = (
        select(tables.SweepRecord.name, tables.TrialRecord.key)
        .join(tables.SweepTrialRecord, tables.SweepTrialRecord.sweep_id == tables.SweepRecord.id)
        .join(tables.SweepTrialRecord.trial)
        .join(mine, mine.trial_id == tables.SweepTrialRecord.trial_id)
        .where(mine.sweep_id == sweep.id, tables.SweepRecord.id != sweep.id)
        .order_by(tables.SweepRecord.name, tables.TrialRecord.key)
    )
    shared: dict[str, list[str]] = {}
    for other, key in session.execute(others):
        shared.setdefault(other, []).append(key)
    opened = tables.TestAccessRecord
    tested = select(func.count(opened.trial_id.distinct())).where(
        opened.trial_id.in_(going), opened.source.in_(TEST_SOURCES)
    )
    left = read_first_test_accesses(session, tables.TrialRecord.id.not_in(going))
    return SweepContent(
        trials,
        used_elsewhere(session, trials, sweep=sweep.name),
        rows=shown,
        annotated=annotated,
        shared=shared,
        tested=session.scalar(tested) or 0,
        opened_later=tuple(
            left.get(kind)
            for kind, first in read_first_test_accesses(session).items()
            if left.get(kind) != first
        ),
    )


def _find_annotated(
    session: Session, sweep: tables.SweepRecord, going: Any
) -> Iterator[tuple[Annotatable, str]]:
    """Yield what is annotated of a sweep and goes with it; a configuration goes with its seeds."""
    staying = select(tables.TrialRecord.configuration_id).where(tables.TrialRecord.id.not_in(going))
    seeds = select(tables.TrialRecord.configuration_id).where(tables.TrialRecord.id.in_(going))
    names: dict[Annotatable, Any] = {
        "trial": select(tables.TrialRecord.key).where(tables.TrialRecord.id.in_(going)),
        "configuration": select(tables.ConfigurationRecord.hash).where(
            tables.ConfigurationRecord.id.in_(seeds), tables.ConfigurationRecord.id.not_in(staying)
        ),
        "sweep": select(literal(sweep.name)),
    }
    for about, which in names.items():
        known = select(tables.AnnotationRecord.name).where(
            tables.AnnotationRecord.about == about,
            tables.AnnotationRecord.name.in_(which),
            tables.AnnotationRecord.stands.is_(True),
        )
        yield from ((about, name) for name in session.scalars(known.distinct()))
