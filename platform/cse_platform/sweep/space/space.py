"""The search space: dimensions by name, some of which are active only under a condition."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    RootModel,
    ValidationError,
    create_model,
    model_validator,
)

from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.sweep.problems import Problem, ProblemsError, did_you_mean
from cse_platform.sweep.space.dimensions import (
    Choices,
    Dimension,
    ParentCondition,
    Range,
    canonical_json,
    is_number,
)


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
        problems = [
            Problem((name, "when", parent), text)
            for name, dimension in self.items()
            for parent, condition in dimension.when.items()
            if (text := self._check_parent(parent, condition))
        ]
        if not problems:
            problems = self._find_cycle()
        if problems:
            raise ProblemsError(problems)
        return self

    def _check_parent(self, parent: str, condition: ParentCondition) -> str | None:
        if parent not in self:
            hint = did_you_mean(parent, self) or "; leave the condition out, or this dimension"
            return f"no such dimension in space{hint}"
        known = self[parent]
        for value in condition.values:
            if str(value).lstrip()[:1] in ("<", ">") and not known.has(value):
                return f"expected a comparison with a number, such as '> 0', got {value!r}"
        if isinstance(known, Range) and condition.values:
            return (
                "a condition needs a dimension with choices, and this one is a range; compare it, "
                "as in '> 0'"
            )
        if condition.comparisons and not any(map(is_number, known.ends)):
            return f"a comparison needs numbers, and this dimension is {known}"
        return None

    def _find_cycle(self) -> list[Problem]:
        try:
            self.ordered()
        except CycleError as error:
            names = list(reversed(error.args[1]))
            return [Problem((names[0], "when"), f"a circle of conditions: {' -> '.join(names)}")]
        return []

    def ordered(self) -> list[str]:
        """List the names in a fixed order, each after the dimensions in its condition."""
        graph = {name: list(dimension.when) for name, dimension in self.items()}
        return list(TopologicalSorter(graph).static_order())

    def is_active(self, name: str, assignment: Mapping[str, Any]) -> bool:
        """Whether a dimension is active under this assignment.

        A condition on a dimension that is inactive or not assigned does not hold.
        """
        return all(
            parent in assignment
            and condition.allows(assignment[parent])
            and self.is_active(parent, assignment)
            for parent, condition in self[name].when.items()
        )

    def why_unreachable(self, name: str) -> str | None:
        """Explain why no assignment makes a dimension active; None if one does."""
        for parent, wanted in self[name].when.items():
            if parent not in self:  # it was dropped as unreachable itself
                return f"it takes part only with {parent}: {wanted}, which is left out too"
            if not any(map(wanted.allows, self[parent].ends)):
                return f"it takes part only with {parent}: {wanted}, and {parent} is {self[parent]}"
        return None

    def turning_values(self, name: str) -> list[Any]:
        """List values inside a range that cover each outcome of the conditions on it.

        These are the bounds in conditions and the midpoints between them, as values of the range.
        """
        dimension = self[name]
        if not isinstance(dimension, Range):
            return []
        bounds = {
            comparison.bound
            for _, other in self.items()
            if name in other.when
            for comparison in other.when[name].comparisons
            if dimension.low < comparison.bound < dimension.high
        }
        places = sorted({dimension.low, *bounds, dimension.high})
        middles = [(one + other) / 2 for one, other in pairwise(places)] if bounds else []
        found = (dimension.nearest(place) for place in sorted([*bounds, *middles]))
        return [value for value in dict.fromkeys(found) if value not in dimension.ends]

    def is_excluded(self, name: str, partial: Mapping[str, Any]) -> bool:
        """Whether the values given so far already make a dimension inactive."""
        return any(
            (parent in partial and not condition.allows(partial[parent]))
            or self.is_excluded(parent, partial)
            for parent, condition in self[name].when.items()
        )

    def active(self, assignment: Mapping[str, Any]) -> dict[str, Any]:
        """Return the assignment without inactive dimensions, parents first."""
        given = [name for name in self.ordered() if name in assignment]
        return {name: assignment[name] for name in given if self.is_active(name, assignment)}

    def cell(self, assignment: Mapping[str, Any]) -> str:
        """Return a text that is equal for two points in the same cell of each dimension."""
        return canonical_json({name: self[name].cell(value) for name, value in assignment.items()})

    def grid_points(
        self,
        allows: Callable[[dict[str, Any]], bool] = lambda values: True,
        given: Mapping[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield every distinct active assignment once; the last dimension changes fastest.

        `allows` is asked about an assignment after each value: one that it refuses is left out with
        all that begin like it. A dimension in `given` has that value alone. Raises ValueError if a
        dimension is a range of real numbers without a step.
        """
        return self._extend_assignment({}, self.ordered(), allows, given or {})

    def grid_counts(self, deciding: Collection[str]) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield assignments of the deciding dimensions, each with the number of its grid points.

        Dimensions in conditions are always deciding. The others are counted by multiplication.
        """
        parents = {parent for _, dimension in self.items() for parent in dimension.when}
        decided = [name for name in self.ordered() if name in parents or name in deciding]
        others = [name for name in self if name not in decided]
        for assignment in self._extend_assignment({}, decided, lambda values: True, {}):
            active = [name for name in others if self.is_active(name, assignment)]
            yield assignment, prod(self[name].grid_size for name in active)

    def _extend_assignment(
        self,
        assignment: dict[str, Any],
        names: list[str],
        allows: Callable[[dict[str, Any]], bool],
        given: Mapping[str, Any],
    ) -> Iterator[dict[str, Any]]:
        if not allows(assignment):
            return
        if not names:
            yield assignment
        elif not self.is_active(names[0], assignment):
            yield from self._extend_assignment(assignment, names[1:], allows, given)
        else:
            name = names[0]
            for value in (given[name],) if name in given else self[name].grid_values():
                extended = assignment | {name: value}
                yield from self._extend_assignment(extended, names[1:], allows, given)


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


@lru_cache(maxsize=1024)
def _to_stored_json(method: str, name: str, choice: str) -> str | None:
    """Serialise a choice as a configuration stores it; None if the method refuses it."""
    try:
        field = get_method(method).config.model_fields[name]
        alone: dict[str, Any] = {name: (field.annotation, field)}
        model: type[BaseModel] = create_model(name, **alone)
        held = model.model_validate({name: json.loads(choice)})
        return canonical_json(held.model_dump(mode="json", exclude_none=True)[name])
    except (UnknownMethodError, KeyError, ValidationError):
        return None
