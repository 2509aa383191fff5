"""The search space: dimensions by name, some of which are active only under a condition."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Self

from pydantic import ConfigDict, RootModel, TypeAdapter, ValidationError, model_validator

from cse_methods.config import MethodConfig
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.sweep.conditions import SIGNS, Condition, format_conditions
from cse_platform.sweep.problems import Problem, ProblemsError, did_you_mean
from cse_platform.sweep.space.dimensions import Choices, Dimension, Range
from cse_platform.values import canonical_json, is_number

MOST_OUTCOMES = 10_000
"""The most outcomes of conditions for which the points of a grid are counted."""


class Space(RootModel[dict[str, Dimension]]):
    """The dimensions by the name of their setting, in the order of the file."""

    model_config = ConfigDict(frozen=True)

    def __getitem__(self, name: str) -> Dimension:
        return self.root[name]

    def __contains__(self, name: object) -> bool:
        return name in self.root

    def __len__(self) -> int:
        return len(self.root)

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]  # pydantic's yields fields
        return iter(self.root)

    def items(self) -> Iterator[tuple[str, Dimension]]:
        """Iterate over names and dimensions, in the order of the file."""
        return iter(self.root.items())

    @model_validator(mode="after")
    def _check_conditions(self) -> Self:
        """Refuse conditions that cannot hold; paths of problems start at the space."""
        problems = [
            Problem((name, "when", condition.name), text)
            for name, dimension in self.items()
            for condition in dimension.when
            if (text := self._check_condition(condition))
        ]
        try:
            if not problems:
                _ = self.order
        except CycleError as error:
            names = list(reversed(error.args[1]))
            text = f"circular conditions: {' -> '.join(names)}"
            problems = [Problem((names[0], "when"), text)]
        if problems:
            raise ProblemsError(problems)
        return self

    def _check_condition(self, condition: Condition) -> str | None:
        if condition.name not in self:
            hint = did_you_mean(condition.name, self)
            return f"no such dimension in space{hint or '; leave it out, or this dimension'}"
        known = self[condition.name]
        if condition.sign in SIGNS:
            if any(map(is_number, known.ends)):
                return None
            return f"a comparison needs numbers, and this dimension is {known}"
        for value in condition.values:
            if str(value).lstrip()[:1] in ("<", ">") and not known.has(value):
                return f"expected a comparison with a number, such as '> 0', got {value!r}"
        if isinstance(known, Range):
            return "this dimension is a range; compare it with a number, as in '> 0'"
        return None

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names in a fixed order, each after the dimensions in its condition."""
        graph = {n: [condition.name for condition in d.when] for n, d in self.items()}
        return tuple(TopologicalSorter(graph).static_order())

    def is_active(self, name: str, assignment: Mapping[str, Any]) -> bool:
        """Whether a dimension is active under this assignment.

        A condition on a dimension that is inactive or not assigned does not hold.
        """
        return all(
            condition.name in assignment
            and condition.allows(assignment[condition.name])
            and self.is_active(condition.name, assignment)
            for condition in self[name].when
        )

    def why_unreachable(self, name: str) -> str | None:
        """Explain why no assignment makes a dimension active; None if one does."""
        when = self[name].when
        for parent in dict.fromkeys(condition.name for condition in when):
            own = [condition for condition in when if condition.name == parent]
            text = f"it is active only where {format_conditions(own)}"
            if parent not in self:  # it was dropped as unreachable itself
                return f"{text}, which is left out too"
            values = (*self[parent].ends, *self.turning_values(parent))
            if not any(all(condition.allows(value) for condition in own) for value in values):
                return f"{text}, and {parent} is {self[parent]}"
        return None

    def turning_values(self, name: str) -> list[Any]:
        """List values inside a range that cover each outcome of the conditions on it.

        These are the bounds in conditions and the midpoints between them, as values of the range.
        """
        dimension = self[name]
        if not isinstance(dimension, Range):
            return []
        bounds = {
            condition.values[0]
            for _, other in self.items()
            for condition in other.when
            if condition.name == name and dimension.low < condition.values[0] < dimension.high
        }
        edges = sorted({dimension.low, *bounds, dimension.high})
        middles = [(low + high) / 2 for low, high in pairwise(edges)] if bounds else []
        values = (dimension.nearest(point) for point in sorted([*bounds, *middles]))
        return [value for value in dict.fromkeys(values) if value not in dimension.ends]

    def is_excluded(self, name: str, partial: Mapping[str, Any]) -> bool:
        """Whether the values given so far already make a dimension inactive."""
        return any(
            (condition.name in partial and not condition.allows(partial[condition.name]))
            or self.is_excluded(condition.name, partial)
            for condition in self[name].when
        )

    def select_active(self, assignment: Mapping[str, Any]) -> dict[str, Any]:
        """Return the assignment without inactive dimensions, parents first."""
        given = [name for name in self.order if name in assignment]
        return {name: assignment[name] for name in given if self.is_active(name, assignment)}

    def cell(self, assignment: Mapping[str, Any]) -> str:
        """Return a text that is equal for two points in the same cell of each dimension."""
        return canonical_json({name: self[name].cell(value) for name, value in assignment.items()})

    def random_point(self, given: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
        """Draw a value for each active dimension that is not given, parents first."""
        point: dict[str, Any] = {}
        for name in self.order:
            if self.is_active(name, point):
                point[name] = given[name] if name in given else self[name].value_at(rng.random())
        return point

    def grid_points(self, given: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield every distinct active assignment once; the last dimension changes fastest.

        With `given`, only those that have these values. Raises ValueError if a dimension is a range
        of real numbers without a step.
        """
        return self._extend_assignment({}, self.order, given or {})

    def count_grid(self, most: int | None = None) -> int | None:
        """Count the points of the grid, up to `most`.

        Dimensions in no condition are counted by multiplication. If conditions have more than
        `MOST_OUTCOMES` outcomes, returns `most`: an upper bound, or None for an unknown number.
        """
        parents = {condition.name for _, d in self.items() for condition in d.when}
        decided = [name for name in self.order if name in parents]
        others, counted = [name for name in self if name not in parents], 0
        for tried, assignment in enumerate(self._extend_assignment({}, decided, {})):
            active = [name for name in others if self.is_active(name, assignment)]
            counted += prod(self[name].grid_size for name in active)
            if tried == MOST_OUTCOMES or (most is not None and counted >= most):
                return most
        return counted

    def _extend_assignment(
        self, assignment: dict[str, Any], names: Sequence[str], given: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if any(n not in assignment and self.is_excluded(n, assignment) for n in given):
            return
        if not names:
            yield assignment
        elif not self.is_active(names[0], assignment):
            yield from self._extend_assignment(assignment, names[1:], given)
        else:
            name = names[0]
            for value in (given[name],) if name in given else self[name].grid_values():
                yield from self._extend_assignment(assignment | {name: value}, names[1:], given)


def find_value(space: Space, method: str, name: str, value: Any) -> Any:
    """Find a trial's value in a dimension, and return it as the file writes it.

    The method may store a choice in another form: `[a]` as `[{"model": "a"}]`. Raises LookupError
    if the dimension does not have the value.
    """
    dimension = space[name]
    if isinstance(dimension, Choices) and not dimension.has(value):
        wanted = canonical_json(value)
        for choice in dimension.choices:
            if _to_stored_json(method, name, json.dumps(choice)) == wanted:
                return choice
    return dimension.find(value)


@cache
def build_adapter(config: type[MethodConfig], name: str) -> TypeAdapter[Any]:
    """Build what reads and writes the values of one setting of a method."""
    field = config.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


@lru_cache(maxsize=1024)
def _to_stored_json(method: str, name: str, choice: str) -> str | None:
    """Serialise a choice as a configuration stores it; None if the method refuses it."""
    try:
        adapter = build_adapter(get_method(method).config, name)
        read = adapter.validate_python(json.loads(choice))
    except (UnknownMethodError, KeyError, ValidationError):
        return None
    return canonical_json(adapter.dump_python(read, mode="json", exclude_none=True))
