"""The columns of a sweep's trials as SQL, by name: what they are filtered and sorted by."""

import json
import math
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Double, and_, case, cast, false, func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from cse_platform.leaderboard.query.sweeps.where import NONE, Condition, Span, Where, named_value
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.space.space import Space

_OF_TRIAL = (DevPointRecord.trial_id == TrialRecord.id,)
BEST_SCORE = func.coalesce(
    TrialRecord.best_value,
    select(func.max(DevPointRecord.value))
    .where(*_OF_TRIAL)
    .correlate(TrialRecord)
    .scalar_subquery(),
)
"""The dev score of the best checkpoint; of a trial that runs, the best so far."""
LAST_STEP = (
    select(func.max(DevPointRecord.step)).where(*_OF_TRIAL).correlate(TrialRecord).scalar_subquery()
)
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
"""Those that every sweep's trials have; the others are hyperparameters."""
PERCENT = ("score",)
"""Shown and asked for x 100."""


class TrialColumns:
    """The columns of one sweep's trials, hyperparameters among them, on one kind of database.

    A hyperparameter has no value where its condition in the sweep's space does not hold. SQL reads
    its JSON anew for each mention, which is most of the time that a filter takes.
    """

    def __init__(self, session: Session, space: Space) -> None:
        self._sqlite = session.get_bind().dialect.name == "sqlite"
        self._space = space

    def order(self, name: str) -> list[ColumnElement[Any]]:
        """What trials are sorted by, to be sorted by the column: numbers come before texts."""
        if name in OWN_COLUMNS:
            return [OWN_COLUMNS[name]]
        every = [self._value(name)] if self._sqlite else [self._number(name), self._value(name)]
        active = self._active(name)
        return every if active is None else [case((active, one)) for one in every]

    def conditions(self, where: Where) -> list[ColumnElement[bool]]:
        """What all trials that pass have in common."""
        return [
            or_(*(self._allows(one, value) for value in one.allowed)) for one in where.conditions
        ]

    def _allows(self, condition: Condition, allowed: Span | str) -> ColumnElement[bool]:
        name, scale = condition.name, 100 if condition.name in PERCENT else 1
        if isinstance(allowed, Span):
            return self._within(name, allowed.low / scale, allowed.high / scale)
        if name in OWN_COLUMNS:
            return _is_own(name, allowed, scale)
        return self._is(name, allowed)

    def _within(self, name: str, low: float, high: float) -> ColumnElement[bool]:
        if name in TEXTS:
            return false()
        number = OWN_COLUMNS[name] if name in OWN_COLUMNS else self._number(name)
        if math.isinf(low) or math.isinf(high):
            found = number <= high if math.isinf(low) else number >= low
        else:
            found = number.between(low, high)
        # In SQLite a text is above every number, and a truth is one.
        return found if name in OWN_COLUMNS else self._where(name, found & self._is_number(name))

    def _is(self, name: str, value: str) -> ColumnElement[bool]:
        ways: list[ColumnElement[bool]] = [self._value(name).in_(_spellings(value))]
        with suppress(ValueError):
            ways.append((self._number(name) == float(value)) & self._is_number(name))
        if value in ("true", "false"):  # 1 and 0 in SQLite
            ways.append(self._kind(name) == value)
        found = self._where(name, or_(*ways))
        if value != NONE:
            return found
        active, absent = self._active(name), func.coalesce(self._kind(name), "null") == "null"
        return or_(found, absent if active is None else absent | ~active)

    def _where(self, name: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
        active = self._active(name)
        return condition if active is None else condition & active

    def _active(self, name: str) -> ColumnElement[bool] | None:
        """Whether the hyperparameter takes part; None where it always does."""
        when = self._space[name].when if name in self._space else {}
        parents = [
            or_(*(self._is(parent, named_value(value)) for value in values))
            for parent, values in when.items()
        ]
        return and_(*parents) if parents else None

    def _kind(self, name: str) -> ColumnElement[Any]:
        """What the JSON value of a hyperparameter is; NULL where it has none."""
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_type(values, _path(name))
        return func.json_typeof(values[name])

    def _is_number(self, name: str) -> ColumnElement[bool]:
        return self._kind(name).in_(("integer", "real", "number"))

    def _value(self, name: str) -> ColumnElement[Any]:
        """Lists and mappings as JSON; PostgreSQL makes everything a text."""
        values = ConfigurationRecord.values
        if self._sqlite:
            return func.json_extract(values, _path(name), type_=NullType())
        text: ColumnElement[Any] = values[name].as_string()
        return text

    def _number(self, name: str) -> ColumnElement[Any]:
        value = self._value(name)
        return value if self._sqlite else case((self._is_number(name), cast(value, Double)))


def _path(name: str) -> str:
    return '$."{}"'.format(name.replace('"', ""))  # SQLite finds no name that has a quote in it


def _is_own(name: str, value: str, scale: int) -> ColumnElement[bool]:
    column = OWN_COLUMNS[name]
    ways: list[ColumnElement[bool]] = [column.is_(None)] if value == NONE else []
    if name in TEXTS:
        ways.append(column == value)
    else:
        with suppress(ValueError):
            ways.append(column == float(value) / scale)
    return or_(false(), *ways)


def _spellings(value: str) -> list[str]:
    """A text; of a list or a mapping also as each database spells it."""
    if value[:1] not in ("[", "{"):
        return [value]
    with suppress(ValueError):
        found = json.loads(value)
        return [value, json.dumps(found), json.dumps(found, separators=(",", ":"))]
    return [value]
