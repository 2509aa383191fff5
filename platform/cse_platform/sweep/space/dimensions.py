"""One dimension of a search space: a list of choices or a range of numbers."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    model_validator,
)

from cse_methods.settings import Settings
from cse_platform.sweep.conditions import Condition, dump_when, read_when
from cse_platform.sweep.problems import (
    NULL_HINT,
    PYTHON_NULL,
    Problem,
    ProblemsError,
    decimal_hint,
    format_value,
    unquoted_part,
)
from cse_platform.sweep.space.other_tools import translate_dimension
from cse_platform.values import canonical_json, encode, is_number

CELLS = 100
"""Number of equal parts of a real range; two values in the same part count as the same trial."""

DIMENSION_EXPECTED = "a list of choices, {choices: [...]} or {low: ..., high: ...}"


def _check_number(value: Any) -> int | float:
    if not is_number(value):
        hint = decimal_hint(str(value))
        raise ValueError(f"expected a number, got {format_value(value)}{hint}")
    return value


_Number = Annotated[int | float, PlainValidator(_check_number)]


class _Conditional(Settings):
    when: Annotated[
        tuple[Condition, ...], BeforeValidator(read_when), PlainSerializer(dump_when)
    ] = Field(
        default=(),
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
        problems = []
        for position, choice in enumerate(self.choices):
            text, shown, problem = canonical_json(choice), format_value(choice), None
            first = encoded.setdefault(encode(choice), choice)
            if text in seen:
                problem = f"{shown} is listed twice; remove one"
            elif canonical_json(first) != text:
                same = f"{shown} and {format_value(first)} are the same value to the search"
                problem = f"{same}; leave one out"
            if problem:
                problems.append(Problem(("choices", position), problem))
            seen.add(text)
        if problems:
            raise ProblemsError(problems)
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
        return min(numbers, key=lambda n: abs(math.log(n / value)) if ratios else abs(n - value))

    @property
    def grid_size(self) -> int:
        """The number of values of a grid."""
        return len(self.choices)

    def grid_values(self) -> tuple[Any, ...]:
        return self.choices

    def value_at(self, position: float) -> Any:
        """Return the choice at a relative position in the list, from 0 to 1."""
        return self.choices[min(int(position * len(self.choices)), len(self.choices) - 1)]

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
    def is_whole(self) -> bool:
        """Whether the range contains integers only, because all its numbers are written as such."""
        return all(isinstance(n, int) for n in (self.low, self.high, self.step or 0))

    @property
    def is_real(self) -> bool:
        """Whether values are drawn from all real numbers between the bounds."""
        return self.step is None and not self.is_whole

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low}, high={self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a log scale needs low > 0, got low={self.low}")
        if self.log and self.step is not None:
            raise ValueError(f"log and step={self.step} exclude each other; remove one")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step must be above 0, got step={self.step}")
        (low, step), high = self._exact_grid, Decimal(str(self.high))
        if self.step is not None and (high - low) % step:
            last = low + (high - low) // step * step
            raise ValueError(
                f"high={self.high} is not a whole number of steps of {self.step} above "
                f"low={self.low}; the last one is {last}"
            )
        return self

    @property
    def _exact_grid(self) -> tuple[Decimal, Decimal]:
        """The lowest value and the distance of the values, without errors of rounding."""
        return Decimal(str(self.low)), Decimal(str(self.step or 1))

    def find(self, value: Any) -> int | float:
        """Return the number as this range samples it; LookupError if the range does not have it."""
        if not is_number(value) or not self.low <= value <= self.high:
            raise LookupError(value)
        low, step = self._exact_grid
        if not self.is_real and (Decimal(str(value)) - low) % step:
            raise LookupError(value)
        return int(value) if self.is_whole else float(value)

    def nearest(self, value: Any) -> int | float:
        """Return the nearest number of this range; LookupError if the value is not a number."""
        if not is_number(value):
            raise LookupError(value)
        number = min(max(value, self.low), self.high)
        if not self.is_real:
            low, step = self._exact_grid
            number = float(low + step * round((Decimal(str(number)) - low) / step))
        return self.find(number)

    @property
    def grid_size(self) -> int:
        """The number of values of a grid; ValueError for real numbers without a step."""
        if self.is_real:
            raise ValueError("a grid needs choices, whole numbers or a step")
        low, step = self._exact_grid
        return int((Decimal(str(self.high)) - low) / step) + 1

    def grid_values(self) -> Iterator[int | float]:
        """Iterate over the grid from low to high; ValueError for real numbers without a step."""
        low, step = self._exact_grid
        kind = int if self.is_whole else float
        return (kind(low + step * i) for i in range(self.grid_size))

    def value_at(self, position: float) -> int | float:
        """Return the number at a relative position between low and high, from 0 to 1."""
        if self.log:
            number = float(self.low * (self.high / self.low) ** position)
            return round(number) if self.is_whole else min(number, float(self.high))
        if self.is_real:
            return float(self.low + (self.high - self.low) * position)
        (low, step), count = self._exact_grid, self.grid_size
        return (int if self.is_whole else float)(low + step * min(int(position * count), count - 1))

    def position_of(self, value: float) -> float:
        """Return the relative position of a number, from 0 to 1, on a log scale if `log`."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def cell(self, value: float) -> float:
        """Return the cell of a real number, from 0 to `CELLS`; other numbers are their own cell."""
        return round(self.position_of(value) * CELLS) if self.is_real else value

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


_KEYS = ({"choices", "when"}, {"low", "high", "log", "step", "when"})
"""The keys of choices and of a range."""


def _refuse_other_forms(value: Any) -> Any:
    """Refuse what is no dimension but means one, or one value, and say what to write."""
    single = value
    if isinstance(value, dict) and value.keys() == {"value"}:  # W&B's, which every trial shares
        single = value["value"]
    form = None
    if isinstance(single, str):
        part = unquoted_part(single)
        form = f"{part}, without quotes" if part else translate_dimension(single)
        if form is None and "," in single:
            form = f"[{single}]"
    elif isinstance(single, dict) and not any(single.keys() <= keys for keys in _KEYS):
        form = translate_dimension(single)
    if form is not None:
        hint = f"write {form}"
    elif single == PYTHON_NULL:
        hint = f"a single value goes under 'fixed'{NULL_HINT}"
    elif isinstance(single, (str, int, float)):
        hint = f"a single value goes under 'fixed', as {format_value(single)}"
    else:
        return value
    raise ValueError(f"expected {DIMENSION_EXPECTED}, got {format_value(value)}; {hint}")


Dimension = Annotated[
    Annotated[Choices, Tag("Choices")] | Annotated[Range, Tag("Range")],
    Discriminator(
        _choose_tag,
        custom_error_type="expected",
        custom_error_message="{what}",
        custom_error_context={"what": DIMENSION_EXPECTED},
    ),
    BeforeValidator(_refuse_other_forms),
]
