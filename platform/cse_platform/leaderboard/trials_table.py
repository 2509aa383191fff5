"""The trials of a sweep as a table that the database filters, sorts, counts and pages."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Numeric,
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
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trials import (
    BUILTIN_SCORES,
    MADE_IN_SWEEP,
    ON_BUILTIN,
    best_columns,
    drop_inactive_values,
    measured_value,
    read_trials,
    select_trials,
    space_of,
)
from cse_platform.stores.sql.store import write_json
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.sweep.conditions import SIGNS, Condition, write_value
from cse_platform.sweep.problems import did_you_mean
from cse_platform.tracking.history import order_metrics
from cse_platform.values import canonical_json, group_by, is_number

NUMBERS = ("number", "score", "seed", "step", "seconds")
TEXTS: dict[str, ColumnElement[Any]] = {
    "state": AttemptRecord.state.expression,
    "error": func.coalesce(AttemptRecord.error, AttemptRecord.why),
    "key": TrialRecord.key.expression,
}
OWN_COLUMNS = (*NUMBERS, *TEXTS)
"""Columns that trials of every sweep have; all others are hyperparameters."""
_JSON_PATH = '$."{}"'
"""The path of a name in SQLite, which finds no name that has a quote in it."""


class TrialColumns:
    """The columns of a sweep's trials, including hyperparameters, as SQL for the session's
    database.

    A hyperparameter has no value in trials in which its `when` does not hold. SQL parses
    the JSON again for each mention of a hyperparameter, which takes most of the time of a filter.
    """

    def __init__(self, session: Session, sweep: SweepRecord) -> None:
        self._sqlite = session.get_bind().dialect.name == "sqlite"
        self._space = space_of(sweep.spec)
        best = best_columns(sweep)
        self._own: dict[str, ColumnElement[Any]] = TEXTS | {
            "number": self._widen_number(SweepTrialRecord.number.expression),
            "score": best["best_value"],
            "seed": self._widen_number(TrialRecord.seed.expression),
            "step": self._widen_number(best["best_step"]),
            "seconds": AttemptRecord.wall_seconds.expression,
        }

    def _widen_number(self, whole: ColumnElement[Any]) -> ColumnElement[Any]:
        """Compare a whole number with any number: PostgreSQL refuses those beyond its own type."""
        return whole if self._sqlite else cast(whole, Numeric(asdecimal=False))

    def order(self, name: str) -> list[ColumnElement[Any]]:
        """Return the expressions that sort trials by a column; numbers come before texts."""
        if name in self._own:
            return [self._own[name]]
        if "/" in name:
            return [measured_value(name)]
        value, active = self._select_value(name), self._match_active(name)
        every = [value] if self._sqlite else [self._select_number(name), value]
        return every if active is None else [case((active, each)) for each in every]

    def match_conditions(self, conditions: Sequence[Condition]) -> list[ColumnElement[bool]]:
        """Build the SQL of conditions on columns and hyperparameters, one expression per name."""
        return [
            _match_own_column(name, self._own[name], own)
            if name in self._own
            else self._match_hyperparameter(name, own)
            for name, own in group_by(conditions, lambda condition: condition.name).items()
        ]

    def _match_hyperparameter(
        self, name: str, conditions: Sequence[Condition]
    ) -> ColumnElement[bool]:
        compared = [condition for condition in conditions if condition.sign in SIGNS]
        listed = [condition.values for condition in conditions if condition.sign == "="]
        parts = [self._match_values(name, values) for values in listed]
        if compared:
            # In SQLite, texts compare above all numbers, and booleans are numbers.
            parts += [_match_range(self._select_number(name), compared, 1), self._is_number(name)]
        if (active := self._match_active(name)) is None:
            return and_(*parts)
        matched = and_(*parts, active)
        has_none = not compared and all(None in values for values in listed)
        return or_(matched, ~active) if has_none else matched

    def _match_active(self, name: str) -> ColumnElement[bool] | None:
        """Match the trials in which a hyperparameter's `when` holds; None if it has none."""
        when = self._space[name].when if name in self._space else ()
        parents = group_by(when, lambda condition: condition.name).items()
        matched = [self._match_hyperparameter(*parent) for parent in parents]
        return and_(*matched) if matched else None

    def _match_values(self, name: str, values: Sequence[Any]) -> ColumnElement[bool]:
        """Match the trials with one of these values; databases limit the depth of an OR."""
        kind, stored = self._select_json_type(name), self._select_value(name)
        ways: list[ColumnElement[bool]] = [false()]
        if None in values:
            ways.append(func.coalesce(kind, "null") == "null")
        if flags := [canonical_json(value) for value in values if isinstance(value, bool)]:
            # In SQLite, booleans are 1 and 0, and have types of their own.
            is_flag = kind.in_(flags) if self._sqlite else stored.in_(flags) & (kind == "boolean")
            ways.append(is_flag)
        if numbers := [float(value) for value in values if is_number(value)]:
            ways.append(self._select_number(name).in_(numbers) & self._is_number(name))
        if texts := [value for value in values if isinstance(value, str)]:
            ways.append(stored.in_(texts) & kind.in_(("text", "string")))
        if nested := [write_json(value) for value in values if isinstance(value, list | dict)]:
            ways.append(stored.in_(nested))
        return or_(*ways)

    def _select_json_type(self, name: str) -> ColumnElement[Any]:
        """Select the JSON type of a hyperparameter's value; NULL if it has none."""
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_type(values, _JSON_PATH.format(name.replace('"', "")))
        return func.json_typeof(values[name])

    def _is_number(self, name: str) -> ColumnElement[bool]:
        return self._select_json_type(name).in_(("integer", "real", "number"))

    def _select_value(self, name: str) -> ColumnElement[Any]:
        """Select a hyperparameter's value.

        Lists and mappings are JSON text; on PostgreSQL every value is text.
        """
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_extract(
                values, _JSON_PATH.format(name.replace('"', "")), type_=NullType()
            )
        text: ColumnElement[Any] = values[name].as_string()
        return text

    def _select_number(self, name: str) -> ColumnElement[Any]:
        value = self._select_value(name)
        return value if self._sqlite else case((self._is_number(name), cast(value, Double)))


def _match_own_column(
    name: str, column: ColumnElement[Any], conditions: Sequence[Condition]
) -> ColumnElement[bool]:
    """Match a column that all trials have; a text is in no range, and a number is no text."""
    scale = 100 if name == "score" else 1
    compared = [condition for condition in conditions if condition.sign in SIGNS]
    parts = list[ColumnElement[bool]]()
    if compared:
        parts.append(_match_range(column, compared, scale) if name in NUMBERS else false())
    for condition in conditions:
        if condition.sign == "=":
            values = [value for value in condition.values if value is not None]
            if name in TEXTS:
                values = [v if isinstance(v, str) else write_value(v) for v in values]
            else:
                values = [value / scale for value in values if is_number(value)]
            ways = [column.in_(values)]
            if None in condition.values:
                ways.append(column.is_(None))
            parts.append(or_(*ways))
    return and_(*parts)


def _match_range(
    number: ColumnElement[Any], conditions: Sequence[Condition], scale: int
) -> ColumnElement[bool]:
    """Compare a number with each bound; with two ends by BETWEEN, which computes it once."""
    bounds = {condition.sign: condition.values[0] / scale for condition in conditions}
    if len(conditions) == 2 and bounds.keys() == {"<=", ">="}:
        return number.between(bounds[">="], bounds["<="])
    return and_(*(SIGNS[each.sign](number, each.values[0] / scale) for each in conditions))


@dataclass(frozen=True)
class TrialChoice:
    """Which trials of a sweep to return, and in which order."""

    conditions: Sequence[Condition] = ()
    state: str | None = None
    sort: str = "number"
    """A hyperparameter, or one of `OWN_COLUMNS`."""
    descending: bool = False
    """Trials without a value come last in either direction."""
    measured: Sequence[str] = ()
    """The metrics and test scores to read, by name: `dev/alignment`, `test/sts12_spearman`."""


EVERY = TrialChoice()


Hyperparameters = tuple[tuple[str, ...], dict[str, Any]]
"""The names for which trials of a sweep have different values, in the order of its file, and the
other ones, with the value that all trials share.
"""


def iterate_trials(
    session: Session, sweep: SweepRecord, choice: TrialChoice, limit: int | None, offset: int
) -> Iterator[Trial]:
    """Iterate over the trials of a sweep in the chosen order; see `Leaderboard.table_trials`."""
    number = SweepTrialRecord.number
    space = space_of(sweep.spec)
    order = TrialColumns(session, sweep).order(choice.sort)
    if choice.descending:
        order = [expression.desc() for expression in order]
    if choice.sort != "number":  # which is never NULL, so that an index sorts by it
        order = [*(expression.nulls_last() for expression in order), number.expression]
    query = select_chosen(session, sweep, choice).with_only_columns(number)
    query = query.order_by(*order)
    numbers = session.scalars(query.limit(limit).offset(offset)).all()
    for batch in in_batches(numbers):
        trials = read_trials(
            session,
            SweepTrialRecord.sweep_id == sweep.id,
            number.in_(batch),
            space=space,
            error=TEXTS["error"],
            measured=choice.measured,
            attempt=MADE_IN_SWEEP,
            **best_columns(sweep),
        )
        by_number = {trial.number: trial for trial in trials}
        yield from (by_number[number] for number in batch)


def count_trials(session: Session, sweep: SweepRecord, choice: TrialChoice) -> int:
    """Count the trials of a sweep that pass the choice."""
    if choice.conditions or choice.state:
        query = select_chosen(session, sweep, choice).with_only_columns(func.count())
    else:
        _check_names(session, sweep, [choice.sort], metrics=True)
        query = select(func.count()).select_from(SweepTrialRecord)
        query = query.where(SweepTrialRecord.sweep_id == sweep.id)
    return session.scalar(query) or 0


def read_measured(session: Session, sweep: SweepRecord) -> list[str]:
    """Read the names of metrics and test scores of a sweep's trials; see `Leaderboard.measured`."""
    of_sweep, score = SweepTrialRecord.sweep_id == sweep.id, ScoreRecord
    points = (
        select_trials(DevPointRecord.metrics)
        .join(AttemptRecord.points)
        .where(of_sweep)
        .order_by(TrialRecord.id.desc(), DevPointRecord.step)
    )
    metrics = [name for m in session.scalars(points.limit(200)) for name in m]
    scores = select_trials(score.task, score.metric, ON_BUILTIN).join(TrialRecord.scores)
    scores = scores.where(of_sweep, score.split == "test").distinct()
    scores = scores.order_by(score.task, score.metric)
    tests = [
        f"test/{BUILTIN_SCORES * on_builtin}{task}_{metric}"
        for task, metric, on_builtin in session.execute(scores)
    ]
    return order_metrics([*metrics, *tests])


def read_hyperparameters(session: Session, sweep: SweepRecord) -> Hyperparameters:
    """Read which hyperparameters vary in a sweep; see `Leaderboard.hyperparameters`."""
    space = space_of(sweep.spec)
    columns, number = TrialColumns(session, sweep), SweepTrialRecord.number
    first = session.scalar(
        select_trials(ConfigurationRecord.values)
        .where(SweepTrialRecord.sweep_id == sweep.id)
        .order_by(number)
        .limit(1)
    )
    if first is None:
        return (), {}
    searched = [*space]
    if not searched:  # the file has no space; trials tell what was searched
        lists = select_trials(cast(ConfigurationRecord.searched, Text))
        texts = session.scalars(lists.where(SweepTrialRecord.sweep_id == sweep.id).distinct())
        searched = sorted({name for names in texts for name in json.loads(names)})

    def varies(name: str) -> bool:
        """Whether any trial has another value than the first; mostly an early row decides it."""
        value = columns.order(name)[-1]
        every = select_trials(value).where(SweepTrialRecord.sweep_id == sweep.id)
        of_first = session.execute(every.order_by(number).limit(1)).one()
        other = every.where(value.is_distinct_from(of_first[0])).limit(1)
        return session.execute(other).first() is not None

    varying = tuple(filter(varies, searched))
    values = drop_inactive_values(space, first)
    return varying, {name: value for name, value in values.items() if name not in varying}


def select_chosen(session: Session, sweep: SweepRecord, choice: TrialChoice) -> Select[int]:
    """Select the ids of a sweep's trials that pass, in no order.

    Raises NotFoundError if the sweep has no such hyperparameter or metric.
    """
    _check_names(session, sweep, [condition.name for condition in choice.conditions])
    _check_names(session, sweep, [choice.sort], metrics=True)
    columns = TrialColumns(session, sweep)
    query = select_trials(TrialRecord.id, attempt=MADE_IN_SWEEP).where(
        SweepTrialRecord.sweep_id == sweep.id, *columns.match_conditions(choice.conditions)
    )
    return query if choice.state is None else query.where(AttemptRecord.state == choice.state)


def _check_names(
    session: Session, sweep: SweepRecord, names: Sequence[str], *, metrics: bool = False
) -> None:
    others = [name for name in names if name not in OWN_COLUMNS]
    varying, same = read_hyperparameters(session, sweep) if others else ((), {})
    known = [*varying, *same]
    if metrics and any("/" in name for name in others):
        known += read_measured(session, sweep)
    for name in others:
        if name not in known:
            every = [*known, *OWN_COLUMNS]
            kind = "hyperparameter or metric" if metrics else "hyperparameter"
            raise NotFoundError(
                f"{sweep.name} has no {kind} {name!r}; "
                f"expected one of {', '.join(every)}{did_you_mean(name, every)}"
            )
