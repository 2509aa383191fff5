"""One dimension of a search space: a list of choices or a range of numbers."""

import json
import math
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeGuard

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    RootModel,
    Tag,
    model_validator,
)

from cse_methods.settings import Settings
from cse_platform.sweep.problems import Problem, ProblemsError, format_value

CELLS = 100
"""Number of equal parts of a real range; two values in the same part count as the same trial."""

DIMENSION_EXPECTED = "a list of choices, {choices: [...]} or {low: ..., high: ...}"


def canonical_json(value: Any) -> str:
    """Serialise a value so that equal values give equal texts; 1.0 equals 1, `true` does not."""
    return json.dumps(
        _convert_whole_numbers(value), sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def encode(value: Any) -> Any:
    """Encode a value for Optuna: lists and mappings become JSON with sorted keys."""
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, tuple, dict)) else value


def _convert_whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _convert_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert_whole_numbers(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_number(value: Any) -> int | float:
    if not is_number(value):
        raise ValueError(f"expected a number, got {format_value(value)}")
    return value


def _measure_distance(one: float, other: float, *, ratios: bool) -> float:
    return abs(math.log(one / other)) if ratios else abs(one - other)


_Number = Annotated[int | float, PlainValidator(_check_number)]

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
}
_COMPARISON = re.compile(r"\s*(<=|>=|<|>)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Comparison:
    """The numbers on one side of a bound, written as `> 0`."""

    sign: str
    bound: int | float

    def allows(self, value: Any) -> bool:
        """Whether the value is a number that satisfies the comparison."""
        return is_number(value) and SIGNS[self.sign](value, self.bound)

    def __str__(self) -> str:
        return f"{self.sign} {canonical_json(self.bound)}"


def _read_comparison(part: Any) -> Comparison | None:
    """Parse a part of a condition; None if it is a plain value."""
    return _parse_comparison(part) if isinstance(part, str) else None


@lru_cache(maxsize=1024)
def _parse_comparison(text: str) -> Comparison | None:
    if matched := _COMPARISON.fullmatch(text):
        with suppress(ValueError):
            if is_number(bound := json.loads(matched[2])):
                return Comparison(matched[1], bound)
    return None


class ParentCondition(RootModel[tuple[Any, ...]]):
    """The values of another dimension under which one is active: values, or comparisons (`> 0`)."""

    model_config = ConfigDict(frozen=True)

    root: tuple[Any, ...] = Field(min_length=1)
    """The parts as in the file; comparisons are texts in a canonical spelling."""

    @model_validator(mode="before")
    @classmethod
    def _spell_comparisons(cls, value: Any) -> Any:
        parts = value if isinstance(value, (list, tuple)) else (value,)
        return tuple(str(_read_comparison(part) or "") or part for part in parts)

    @property
    def comparisons(self) -> list[Comparison]:
        """The parts that are comparisons."""
        return [comparison for part in self.root if (comparison := _read_comparison(part))]

    @property
    def values(self) -> list[Any]:
        """The parts that are plain values."""
        return [part for part in self.root if not _read_comparison(part)]

    def allows(self, value: Any) -> bool:
        """Whether the other dimension may have this value."""
        return any(
            comparison.allows(value)
            if (comparison := _read_comparison(part))
            else canonical_json(part) == canonical_json(value)
            for part in self.root
        )

    def __str__(self) -> str:
        parts = [str(_read_comparison(part) or format_value(part)) for part in self.root]
        return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


class _Conditional(Settings):
    when: dict[str, ParentCondition] = Field(
        default={},
        description="active only where each of these dimensions has one of its values, or a number "
        "as in '> 0'",
    )

    def find(self, value: Any) -> Any:
        """Return the value in the dimension's own form; LookupError if it is not in it."""
        raise NotImplementedError

    def has(self, value: Any) -> bool:
        """Whether the dimension contains the value."""
        try:
            self.find(value)
        except LookupError:
            return False
        return True


class Choices(_Conditional):
    """A dimension with a list of values, which may be lists and mappings themselves."""

    choices: tuple[Any, ...] = Field(min_length=1, description="distinct values")
    is_real: ClassVar[bool] = False
    """Whether values are drawn from all real numbers of an interval."""

    @property
    def ends(self) -> tuple[Any, ...]:
        """All choices; the counterpart of a range's two bounds."""
        return self.choices

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_list(cls, value: Any) -> Any:
        return {"choices": value} if isinstance(value, (list, tuple)) else value

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        seen: set[str] = set()
        encoded: dict[Any, Any] = {}
        doubles = []
        for position, choice in enumerate(self.choices):
            text = canonical_json(choice)
            first = encoded.setdefault(encode(choice), choice)
            if text in seen:
                problem = f"{format_value(choice)} is listed twice; leave one out"
                doubles.append(Problem(("choices", position), problem))
            elif canonical_json(first) != text:
                problem = (
                    f"{format_value(choice)} and {format_value(first)} are one value to the "
                    "search; leave one out"
                )
                doubles.append(Problem(("choices", position), problem))
            seen.add(text)
        if doubles:
            raise ProblemsError(doubles)
        return self

    def find(self, value: Any) -> Any:
        """Return the choice equal to `value`, as written in the file; LookupError if none."""
        for choice in self.choices:
            if canonical_json(choice) == canonical_json(value):
                return choice
        raise LookupError(value)

    def nearest(self, value: Any) -> Any:
        """Return the choice nearest to a number; anything else must equal a choice (LookupError).

        Positive numbers are compared by their ratio.
        """
        numbers = [choice for choice in self.choices if is_number(choice)]
        if not is_number(value) or not numbers:
            return self.find(value)
        ratios = min(*numbers, value) > 0
        return min(numbers, key=lambda choice: _measure_distance(choice, value, ratios=ratios))

    @property
    def grid_size(self) -> int:
        """The number of values of a grid."""
        return len(self.choices)

    def grid_values(self) -> tuple[Any, ...]:
        return self.choices

    def at(self, share: float) -> Any:
        """Return the choice at a relative position in the list, from 0 to 1."""
        return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]

    def share(self, value: Any) -> float:
        """Return the relative position of a choice in the list, from 0 to 1."""
        return self.choices.index(value) / len(self.choices)

    def cell(self, value: Any) -> Any:
        """Return the value itself: every choice is a cell of its own."""
        return value

    def __str__(self) -> str:
        return format_value(list(self.choices))


class Range(_Conditional):
    """A dimension of numbers between two bounds, both included."""

    low: _Number
    high: _Number
    log: bool = Field(
        default=False, strict=True, description="sample the logarithm evenly; needs low > 0"
    )
    step: _Number | None = Field(default=None, description="distance of the allowed values")

    @property
    def ends(self) -> tuple[Any, ...]:
        """Both bounds."""
        return self.low, self.high

    @property
    def whole(self) -> bool:
        """Whether the range contains integers only, because all its numbers are written as such."""
        return all(isinstance(n, int) for n in (self.low, self.high, self.step or 0))

    @property
    def is_real(self) -> bool:
        """Whether values are drawn from all real numbers between the bounds."""
        return self.step is None and not self.whole

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low}, high={self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a log scale needs low > 0, got low={self.low}")
        if self.log and self.step is not None:
            raise ValueError(f"log and step={self.step} exclude each other; leave one out")
        if self.step is not None:
            self._check_step(self.step)
        return self

    def _check_step(self, step: int | float) -> None:
        if step <= 0:
            raise ValueError(f"step must be above 0, got step={step}")
        low, high, exact = Decimal(str(self.low)), Decimal(str(self.high)), Decimal(str(step))
        if (high - low) % exact:
            last = low + (high - low) // exact * exact
            raise ValueError(
                f"high={self.high} is not a whole number of steps of {step} above low={self.low}; "
                f"the last one is {last}"
            )

    def find(self, value: Any) -> int | float:
        """Return the number as this range samples it; LookupError if the range does not have it."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high:
            raise LookupError(value)
        if self.step is not None or self.whole:
            offset = Decimal(str(value)) - Decimal(str(self.low))
            if offset % Decimal(str(self.step or 1)):
                raise LookupError(value)
        return int(value) if self.whole else float(value)

    def nearest(self, value: Any) -> int | float:
        """Return the nearest number of this range; LookupError if the value is not a number."""
        if not is_number(value):
            raise LookupError(value)
        number = min(max(value, self.low), self.high)
        if self.step is None and not self.whole:
            return self.find(number)
        low, step = Decimal(str(self.low)), Decimal(str(self.step or 1))
        return self.find(float(low + step * round((Decimal(str(number)) - low) / step)))

    def as_real(self) -> "Range":
        """Return the same range with real numbers."""
        step = None if self.step is None else float(self.step)
        bounds = {"low": float(self.low), "high": float(self.high), "step": step}
        return self.model_copy(update=bounds)

    @property
    def grid_size(self) -> int:
        """The number of values of a grid; ValueError for real numbers without a step."""
        if self.is_real:
            raise ValueError("a grid needs choices, whole numbers or a step")
        low, high = Decimal(str(self.low)), Decimal(str(self.high))
        return int((high - low) / Decimal(str(self.step or 1))) + 1

    def grid_values(self) -> Iterator[int | float]:
        """Iterate over the grid from low to high; ValueError for real numbers without a step."""
        low, step = Decimal(str(self.low)), Decimal(str(self.step or 1))
        kind = int if self.whole else float
        return (kind(low + step * i) for i in range(self.grid_size))

    def at(self, share: float) -> int | float:
        """Return the number at a relative position between low and high, from 0 to 1."""
        if self.log:
            number = float(self.low * (self.high / self.low) ** share)
            return round(number) if self.whole else min(number, float(self.high))
        if self.is_real:
            return float(self.low + (self.high - self.low) * share)
        low, step = Decimal(str(self.low)), Decimal(str(self.step or 1))
        count = self.grid_size
        return (int if self.whole else float)(low + step * min(int(share * count), count - 1))

    def share(self, value: float) -> float:
        """Return the relative position of a number, from 0 to 1, on a log scale if `log`."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def cell(self, value: float) -> float:
        """Return the cell of a real number, from 0 to `CELLS`; other numbers are their own cell."""
        return round(self.share(value) * CELLS) if self.is_real else value

    def __str__(self) -> str:
        step = f" in steps of {self.step}" if self.step is not None else ""
        return f"{self.low} to {self.high}{step}"


def _choose_tag(value: Any) -> str | None:
    if isinstance(value, (Choices, Range)):
        return type(value).__name__
    if isinstance(value, (list, tuple)) or (isinstance(value, dict) and "choices" in value):
        return "Choices"
    if isinstance(value, dict) and value.keys() & {"low", "high"}:
        return "Range"
    return None


Dimension = Annotated[
    Annotated[Choices, Tag("Choices")] | Annotated[Range, Tag("Range")],
    Discriminator(
        _choose_tag,
        custom_error_type="expected",
        custom_error_message="{what}",
        custom_error_context={"what": DIMENSION_EXPECTED},
    ),
]
