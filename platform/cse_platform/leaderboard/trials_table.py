"""The trials of a sweep as a table that the database filters, sorts, counts and pages."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.conditions import (
    EVERY_TRIAL,
    NONE,
    Condition,
    Span,
    Where,
    named_value,
)
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trials import (
    BEST_SCORE,
    LAST_STEP,
    drop_inactive_values,
    read_trials,
    select_trials,
)
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep, space_of
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.space.dimensions import SIGNS
from cse_platform.sweep.space.space import Space

NUMBERS: dict[str, ColumnElement[Any]] = {
    "number": SweepTrialRecord.number.expression,
    "score": BEST_SCORE,
    "seed": TrialRecord.seed.expression,
    "step": LAST_STEP,
    "seconds": TrialRecord.wall_seconds.expression,
}
TEXTS: dict[str, ColumnElement[Any]] = {
    "state": TrialRecord.state.expression,
    "error": func.coalesce(TrialRecord.error, TrialRecord.why),
    "key": TrialRecord.key.expression,
}
OWN_COLUMNS = NUMBERS | TEXTS
"""Columns that trials of every sweep have; all others are hyperparameters."""
PERCENT = ("score",)
"""Columns that are shown and filtered as percentages."""


class TrialColumns:
    """The columns of a sweep's trials, including hyperparameters, as SQL for the session's
    database.

    A hyperparameter has no value in trials in which its `when` condition does not hold. SQL parses
    the JSON again for each mention of a hyperparameter, which takes most of the time of a filter.
    """

    def __init__(self, session: Session, space: Space) -> None:
        self._sqlite = session.get_bind().dialect.name == "sqlite"
        self._space = space

    def order(self, name: str) -> list[ColumnElement[Any]]:
        """Return the expressions that sort trials by a column; numbers come before texts."""
        if name in OWN_COLUMNS:
            return [OWN_COLUMNS[name]]
        every = (
            [self._select_value(name)]
            if self._sqlite
            else [self._select_number(name), self._select_value(name)]
        )
        active = self._make_active_condition(name)
        return every if active is None else [case((active, expression)) for expression in every]

    def conditions(self, where: Where) -> list[ColumnElement[bool]]:
        """Build the SQL conditions of `where`."""
        return [
            or_(*(self._match_allowed(condition, allowed) for allowed in condition.allowed))
            for condition in where.conditions
        ]

    def _match_allowed(self, condition: Condition, allowed: Span | str) -> ColumnElement[bool]:
        name, scale = condition.name, 100 if condition.name in PERCENT else 1
        if isinstance(allowed, Span):
            return self._match_span(name, allowed.low / scale, allowed.high / scale)
        if name in OWN_COLUMNS:
            return _match_own_column(name, allowed, scale)
        return self._match_text(name, allowed)

    def _match_span(self, name: str, low: float, high: float) -> ColumnElement[bool]:
        if name in TEXTS:
            return false()
        number = OWN_COLUMNS[name] if name in OWN_COLUMNS else self._select_number(name)
        if math.isinf(low) or math.isinf(high):
            in_span = number <= high if math.isinf(low) else number >= low
        else:
            in_span = number.between(low, high)
        # In SQLite, texts compare above all numbers, and booleans are numbers.
        return (
            in_span
            if name in OWN_COLUMNS
            else self._require_active(name, in_span & self._is_number(name))
        )

    def _match_text(self, name: str, value: str) -> ColumnElement[bool]:
        ways: list[ColumnElement[bool]] = [self._select_value(name).in_(_list_spellings(value))]
        with suppress(ValueError):
            ways.append((self._select_number(name) == float(value)) & self._is_number(name))
        if value in ("true", "false"):  # 1 and 0 in SQLite
            ways.append(self._select_json_type(name) == value)
        matched = self._require_active(name, or_(*ways))
        if value != NONE:
            return matched
        active, absent = (
            self._make_active_condition(name),
            func.coalesce(self._select_json_type(name), "null") == "null",
        )
        return or_(matched, absent if active is None else absent | ~active)

    def _require_active(self, name: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
        """Restrict a condition to trials in which the hyperparameter is active."""
        active = self._make_active_condition(name)
        return condition if active is None else condition & active

    def _make_active_condition(self, name: str) -> ColumnElement[bool] | None:
        """Build the condition that a hyperparameter is active; None if it always is."""
        when = self._space[name].when if name in self._space else {}
        parents = [
            or_(
                *(self._match_text(parent, named_value(value)) for value in alternatives.values),
                *(
                    self._require_active(
                        parent,
                        SIGNS[each.sign](self._select_number(parent), each.bound)
                        & self._is_number(parent),
                    )
                    for each in alternatives.comparisons
                ),
            )
            for parent, alternatives in when.items()
        ]
        return and_(*parents) if parents else None

    def _select_json_type(self, name: str) -> ColumnElement[Any]:
        """Select the JSON type of a hyperparameter's value; NULL if it has none."""
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_type(values, _make_json_path(name))
        return func.json_typeof(values[name])

    def _is_number(self, name: str) -> ColumnElement[bool]:
        return self._select_json_type(name).in_(("integer", "real", "number"))

    def _select_value(self, name: str) -> ColumnElement[Any]:
        """Select a hyperparameter's value.

        Lists and mappings are JSON text; on PostgreSQL every value is text.
        """
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_extract(values, _make_json_path(name), type_=NullType())
        text: ColumnElement[Any] = values[name].as_string()
        return text

    def _select_number(self, name: str) -> ColumnElement[Any]:
        value = self._select_value(name)
        return value if self._sqlite else case((self._is_number(name), cast(value, Double)))


def _make_json_path(name: str) -> str:
    return '$."{}"'.format(name.replace('"', ""))  # SQLite finds no name that has a quote in it


def _match_own_column(name: str, value: str, scale: int) -> ColumnElement[bool]:
    column = OWN_COLUMNS[name]
    ways: list[ColumnElement[bool]] = [column.is_(None)] if value == NONE else []
    if name in TEXTS:
        ways.append(column == value)
    else:
        with suppress(ValueError):
            ways.append(column == float(value) / scale)
    return or_(false(), *ways)


def _list_spellings(value: str) -> list[str]:
    """List the JSON spellings of a value; for lists and mappings, databases differ."""
    if value[:1] not in ("[", "{"):
        return [value]
    with suppress(ValueError):
        parsed = json.loads(value)
        return [value, json.dumps(parsed), json.dumps(parsed, separators=(",", ":"))]
    return [value]


@dataclass(frozen=True)
class TrialChoice:
    """Which trials of a sweep to return, and in which order."""

    where: Where = EVERY_TRIAL
    state: str | None = None
    sort: str = "number"
    """A hyperparameter, or one of `OWN_COLUMNS`."""
    descending: bool = False
    """Trials without a value come last in either direction."""


EVERY = TrialChoice()


@dataclass(frozen=True)
class SweepHyperparameters:
    """The hyperparameters of a sweep's trials."""

    varying: tuple[str, ...] = ()
    """Names for which trials have different values, in the order of the sweep file."""
    same: tuple[tuple[str, Any], ...] = ()
    """The other names, with the value that all trials share."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all hyperparameters."""
        return (*self.varying, *(name for name, _ in self.same))


class TrialsTableQueries:
    """What a `Leaderboard` answers about the trials of a sweep as a table."""

    _store: Store

    def trials(
        self,
        sweep: str,
        choice: TrialChoice = EVERY,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[Trial]:
        """Iterate over the trials of a sweep, of every state, in the chosen order.

        They have the best score so far, the last step, and why they failed or were stopped.

        Args:
            sweep: its name.
            choice: which trials, and their order; by default all, by number.
            limit: maximum number of trials.
            offset: number of trials to skip.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        with self._store.session() as session:
            record, number = find_sweep(session, sweep), SweepTrialRecord.number
            query = _select_sorted(session, record, choice).with_only_columns(number)
            numbers = session.scalars(query.limit(limit).offset(offset)).all()
            space = space_of(record.spec)
            for batch in in_batches(numbers):
                trials = read_trials(
                    session,
                    _match_sweep(record),
                    number.in_(batch),
                    space=space,
                    value=BEST_SCORE,
                    last_step=LAST_STEP,
                    error=TEXTS["error"],
                )
                by_number = {trial.number: trial for trial in trials}
                yield from (by_number[each] for each in batch)

    def count_trials(self, sweep: str, choice: TrialChoice) -> int:
        """Count the trials of a sweep that pass the choice.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        with self._store.session() as session:
            record = find_sweep(session, sweep)
            if choice.where or choice.state:
                query = _select_chosen(session, record, choice).with_only_columns(func.count())
            else:
                query = select(func.count()).select_from(SweepTrialRecord)
                query = query.where(_match_sweep(record))
            return session.scalar(query) or 0

    def hyperparameters(self, sweep: str) -> SweepHyperparameters:
        """Which hyperparameters vary among the trials of a sweep, and the values of the others.

        Only searched hyperparameters are examined, because trials cannot differ in others.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        with self._store.session() as session:
            return _read_hyperparameters(session, find_sweep(session, sweep))


def _read_hyperparameters(session: Session, sweep: SweepRecord) -> SweepHyperparameters:
    space = space_of(sweep.spec)
    columns = TrialColumns(session, space)
    first = session.scalar(
        select_trials(ConfigurationRecord.values)
        .where(_match_sweep(sweep))
        .order_by(SweepTrialRecord.number)
        .limit(1)
    )
    if first is None:
        return SweepHyperparameters()
    varying = tuple(
        searched
        for searched in [*space] or _find_searched_names(session, sweep)
        if _has_several_values(session, sweep, columns, searched)
    )
    values = drop_inactive_values(space, first)
    return SweepHyperparameters(
        varying, tuple((one, value) for one, value in values.items() if one not in varying)
    )


def passing_trials(session: Session, sweep: SweepRecord, where: Where) -> Select[int]:
    """Select the ids of a sweep's trials that match.

    Raises:
        NotFoundError: if the sweep has no such hyperparameter.
    """
    return _select_chosen(session, sweep, TrialChoice(where))


def _select_chosen(session: Session, sweep: SweepRecord, choice: TrialChoice) -> Select[int]:
    _check_names(session, sweep, [condition.name for condition in choice.where.conditions])
    columns = TrialColumns(session, space_of(sweep.spec))
    query = select_trials(TrialRecord.id).where(
        _match_sweep(sweep), *columns.conditions(choice.where)
    )
    return query if choice.state is None else query.where(TrialRecord.state == choice.state)


def _select_sorted(session: Session, sweep: SweepRecord, choice: TrialChoice) -> Select[int]:
    query, number = _select_chosen(session, sweep, choice), SweepTrialRecord.number
    if choice.sort != "number":
        _check_names(session, sweep, [choice.sort])
        columns = TrialColumns(session, space_of(sweep.spec))
        for expression in columns.order(choice.sort):
            query = query.order_by(
                (expression.desc() if choice.descending else expression).nulls_last()
            )
        return query.order_by(number)
    return query.order_by(number.desc() if choice.descending else number)


def _check_names(session: Session, sweep: SweepRecord, names: Sequence[str]) -> None:
    asked = [name for name in names if name not in OWN_COLUMNS]
    known = _read_hyperparameters(session, sweep).names if asked else ()
    for name in asked:
        if name not in known:
            every = [*known, *OWN_COLUMNS]
            raise NotFoundError(
                f"{name!r} is not a hyperparameter of {sweep.name}"
                f"{did_you_mean(name, every)}; expected one of {', '.join(every)}"
            )


def _match_sweep(sweep: SweepRecord) -> Any:
    return SweepTrialRecord.sweep_id == sweep.id


def _find_searched_names(session: Session, sweep: SweepRecord) -> list[str]:
    """Find the hyperparameters recorded as searched, for a sweep whose file has no space."""
    lists = (
        select_trials(cast(ConfigurationRecord.searched, Text))
        .where(_match_sweep(sweep))
        .distinct()
    )
    return sorted({name for names in session.scalars(lists) for name in json.loads(names)})


def _has_several_values(
    session: Session, sweep: SweepRecord, columns: TrialColumns, name: str
) -> bool:
    """Whether any trial has another value than the first.

    In most searches, one of the first rows decides it.
    """
    value = columns.order(name)[-1]
    every = select_trials(value).where(_match_sweep(sweep))
    first = session.execute(every.order_by(SweepTrialRecord.number).limit(1)).one()
    other = every.where(value.is_distinct_from(first[0])).limit(1)
    return session.execute(other).first() is not None
