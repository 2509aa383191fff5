"""The columns of a sweep's trials as SQL, by name: what they are filtered and sorted by."""

import json
import math
from contextlib import suppress
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    and_,
    case,
    cast,
    func,
    null,
    or_,
    select,
    true,
)
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.where import NONE, Condition, Span, Where, named_value
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.space.space import Space

_OF_TRIAL = (DevPointRecord.trial_id == TrialRecord.id,)
SCORE = func.coalesce(
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
    "score": SCORE,
    "seed": TrialRecord.seed.expression,
    "step": LAST_STEP,
    "seconds": TrialRecord.wall_seconds.expression,
}
TEXTS: dict[str, ColumnElement[Any]] = {
    "state": TrialRecord.state.expression,
    "error": func.coalesce(TrialRecord.error, TrialRecord.why),
    "key": TrialRecord.key.expression,
}
OWN_COLUMNS = (*NUMBERS, *TEXTS)
"""Those that every sweep's trials have; the others are hyperparameters."""
PERCENT = ("score",)
"""Shown and asked for x 100."""


class TrialColumns:
    """The columns of one sweep's trials, hyperparameters among them, on one kind of database.

    A hyperparameter has no value where its condition in the sweep's space does not hold.
    """

    def __init__(self, session: Session, space: Space) -> None:
        self._sqlite = session.get_bind().dialect.name == "sqlite"
        self._space = space

    def number(self, name: str) -> ColumnElement[Any]:
        """The column where it is a number; NULL elsewhere."""
        if name in OWN_COLUMNS:
            return NUMBERS.get(name, null())
        kind, value = self._stored(name)
        known = kind.in_(("integer", "real", "number")) & self._active(name)
        return case((known, cast(value, Double)))

    def text(self, name: str) -> ColumnElement[Any]:
        """The column where it is no number: texts as they are, everything else as JSON."""
        if name in OWN_COLUMNS:
            return TEXTS.get(name, null())
        kind, value = self._stored(name)
        other = kind.not_in(("integer", "real", "number", "null")) & self._active(name)
        truths = [(kind == word, word) for word in ("true", "false")]  # 0 and 1 in SQLite
        return case((other, case(*truths, else_=value)))

    def order(self, name: str) -> list[ColumnElement[Any]]:
        """What trials are sorted by, to be sorted by the column: numbers come before texts."""
        if name in OWN_COLUMNS:
            return [NUMBERS[name] if name in NUMBERS else TEXTS[name]]
        return [self.number(name), self.text(name)]

    def conditions(self, where: Where) -> list[ColumnElement[bool]]:
        """What all trials that pass have in common."""
        return [
            or_(*(self._allows(one, value) for value in one.allowed)) for one in where.conditions
        ]

    def _stored(self, name: str) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
        """What kind of JSON value a hyperparameter has, and that value."""
        values = ConfigurationRecord.values
        if self._sqlite:
            path = f'$."{name}"'
            return func.json_type(values, path), func.json_extract(values, path)
        return func.json_typeof(values[name]), values[name].as_string()

    def _active(self, name: str) -> ColumnElement[bool]:
        if name not in self._space:
            return true()
        return and_(
            true(),
            *(
                self._active(parent) & or_(*(self._is(parent, named_value(one)) for one in values))
                for parent, values in self._space[name].when.items()
            ),
        )

    def _allows(self, condition: Condition, allowed: Span | str) -> ColumnElement[bool]:
        name, scale = condition.name, 100 if condition.name in PERCENT else 1
        if isinstance(allowed, Span):
            number = self.number(name)
            low = true() if math.isinf(allowed.low) else number >= allowed.low / scale
            high = true() if math.isinf(allowed.high) else number <= allowed.high / scale
            return number.is_not(None) & low & high
        return self._is(name, allowed, scale)

    def _is(self, name: str, value: str, scale: int = 1) -> ColumnElement[bool]:
        number, text = self.number(name), self.text(name)
        ways: list[ColumnElement[bool]] = [text.in_(_spellings(value))]
        with suppress(ValueError):
            ways.append(number == float(value) / scale)
        if value == NONE:
            ways.append(and_(number.is_(None), text.is_(None)))
        return or_(*ways)


def _spellings(value: str) -> list[str]:
    """A text; of a list or a mapping also as each database spells it."""
    if value[:1] not in ("[", "{"):
        return [value]
    with suppress(ValueError):
        found = json.loads(value)
        return [value, json.dumps(found), json.dumps(found, separators=(",", ":"))]
    return [value]
