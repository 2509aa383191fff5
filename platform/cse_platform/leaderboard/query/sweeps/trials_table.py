"""The trials of a sweep as a table, which the database filters, sorts, counts and cuts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.stored_file import space_of
from cse_platform.leaderboard.query.sweeps.trial_columns import (
    BEST_SCORE,
    LAST_STEP,
    OWN_COLUMNS,
    TrialColumns,
)
from cse_platform.leaderboard.query.sweeps.where import EVERY_TRIAL, Where
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.reading.problems import did_you_mean
from cse_platform.sweep.space.space import Space

_AT_ONCE = 500
"""Trials in one query: databases limit its parameters."""


@dataclass(frozen=True)
class TrialChoice:
    """Which trials of a sweep are shown, and in which order."""

    where: Where = EVERY_TRIAL
    state: str | None = None
    sort: str = "number"
    """A hyperparameter, or one of `OWN_COLUMNS`."""
    descending: bool = False
    """Trials without a value come last, whichever way."""


@dataclass(frozen=True)
class TrialLine:
    """One line of the table. Scores are fractions."""

    number: int
    key: str
    state: str
    seed: int
    role: str
    configuration: str
    """Its hash."""
    values: dict[str, Any]
    """All hyperparameters that took part."""
    score: float | None
    """On dev, of the best checkpoint; of a trial that runs, the best so far."""
    step: int | None
    """The last that was reported."""
    seconds: float | None
    started: datetime
    finished: datetime | None
    error: str | None
    """Why it failed, or was stopped early."""


@dataclass(frozen=True)
class SweepHyperparameters:
    """The hyperparameters of a sweep's trials."""

    varying: tuple[str, ...] = ()
    """Those of which two trials have different values, in the order of the sweep file."""
    same: tuple[tuple[str, Any], ...] = ()
    """The others, with the value that all trials have."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.varying, *(name for name, _ in self.same))


def varying_hyperparameters(session: Session, name: str) -> SweepHyperparameters:
    """Which hyperparameters vary among the trials of a sweep, and what the others are.

    Only what a sweep searches is looked at: trials cannot differ in anything else.

    Raises:
        NotFoundError: if there is no such sweep.
    """
    sweep = find_sweep(session, name)
    space = space_of(sweep.spec)
    columns = TrialColumns(session, space)
    first = session.scalar(
        _joined(ConfigurationRecord.values)
        .where(_held(sweep))
        .order_by(SweepTrialRecord.number)
        .limit(1)
    )
    if first is None:
        return SweepHyperparameters()
    searched = [*space] or _searched(session, sweep)
    varying = tuple(one for one in searched if _varies(session, sweep, columns, one))
    values = _active(space, first)
    return SweepHyperparameters(
        varying, tuple((one, value) for one, value in values.items() if one not in varying)
    )


def count_trials(session: Session, name: str, choice: TrialChoice) -> int:
    """How many trials of a sweep pass.

    Raises:
        NotFoundError: if there is no such sweep, or it has no such hyperparameter.
    """
    sweep = find_sweep(session, name)
    if choice.where or choice.state:
        query = _chosen(session, sweep, choice).with_only_columns(func.count())
    else:
        query = select(func.count()).select_from(SweepTrialRecord).where(_held(sweep))
    return session.scalar(query) or 0


def trial_lines(
    session: Session,
    name: str,
    choice: TrialChoice,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> Iterator[TrialLine]:
    """The trials of a sweep that pass, in order: `limit` of them, after `offset` others.

    Raises:
        NotFoundError: if there is no such sweep, or it has no such hyperparameter.
    """
    sweep = find_sweep(session, name)
    query = _sorted(session, sweep, choice).limit(limit).offset(offset)
    ids = session.scalars(query).all()
    space = space_of(sweep.spec)
    for start in range(0, len(ids), _AT_ONCE):
        yield from _lines(session, sweep, space, ids[start : start + _AT_ONCE])


def passing_trials(session: Session, sweep: SweepRecord, where: Where) -> Select[int]:
    """The ids of a sweep's trials that pass.

    Raises:
        NotFoundError: if the sweep has no such hyperparameter.
    """
    return _chosen(session, sweep, TrialChoice(where))


def _chosen(session: Session, sweep: SweepRecord, choice: TrialChoice) -> Select[int]:
    _check_names(session, sweep, [one.name for one in choice.where.conditions])
    columns = TrialColumns(session, space_of(sweep.spec))
    query = _joined(TrialRecord.id).where(_held(sweep), *columns.conditions(choice.where))
    return query if choice.state is None else query.where(TrialRecord.state == choice.state)


def _sorted(session: Session, sweep: SweepRecord, choice: TrialChoice) -> Select[int]:
    query, number = _chosen(session, sweep, choice), SweepTrialRecord.number
    if choice.sort != "number":
        _check_names(session, sweep, [choice.sort])
        columns = TrialColumns(session, space_of(sweep.spec))
        for one in columns.order(choice.sort):
            query = query.order_by((one.desc() if choice.descending else one).nulls_last())
        return query.order_by(number)
    return query.order_by(number.desc() if choice.descending else number)


def _check_names(session: Session, sweep: SweepRecord, names: Sequence[str]) -> None:
    asked = [name for name in names if name not in OWN_COLUMNS]
    known = varying_hyperparameters(session, sweep.name).names if asked else ()
    for name in asked:
        if name not in known:
            every = [*known, *OWN_COLUMNS]
            raise NotFoundError(
                f"{name!r} is not a hyperparameter of {sweep.name}"
                f"{did_you_mean(name, every)}; expected one of {', '.join(every)}"
            )


def _lines(
    session: Session, sweep: SweepRecord, space: Space, ids: Sequence[int]
) -> Iterator[TrialLine]:
    link, trial, configuration = SweepTrialRecord, TrialRecord, ConfigurationRecord
    query = _joined(
        trial.id,
        *(link.number, link.role, trial.key, trial.state, trial.seed),
        configuration.hash.label("configuration"),
        configuration.values.label("hyperparameters"),
        *(BEST_SCORE.label("score"), LAST_STEP.label("step"), trial.wall_seconds.label("seconds")),
        *(trial.started, trial.finished, trial.error, trial.why),
    ).where(_held(sweep), trial.id.in_(ids))
    found = {line.id: dict(line._mapping) for line in session.execute(query)}
    for one in ids:
        fields = found[one]
        del fields["id"]
        why = fields.pop("why")
        values = _active(space, fields.pop("hyperparameters"))
        yield TrialLine(**fields | {"values": values, "error": fields["error"] or why})


def _joined(*columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
    )


def _held(sweep: SweepRecord) -> Any:
    return SweepTrialRecord.sweep_id == sweep.id


def _searched(session: Session, sweep: SweepRecord) -> list[str]:
    """What the trials' own sweeps searched, where this one's file does not say."""
    lists = _joined(cast(ConfigurationRecord.searched, Text)).where(_held(sweep)).distinct()
    return sorted({name for names in session.scalars(lists) for name in json.loads(names)})


def _varies(session: Session, sweep: SweepRecord, columns: TrialColumns, name: str) -> bool:
    """Whether any trial has another value than the first; most searches show it at once."""
    value = columns.order(name)[-1]
    every = _joined(value).where(_held(sweep))
    first = session.execute(every.order_by(SweepTrialRecord.number).limit(1)).one()
    other = every.where(value.is_distinct_from(first[0])).limit(1)
    return session.execute(other).first() is not None


def _active(space: Space, values: dict[str, Any]) -> dict[str, Any]:
    """Without what took no part; the order stays."""
    return {
        name: value
        for name, value in values.items()
        if name not in space or space.is_active(name, values)
    }
