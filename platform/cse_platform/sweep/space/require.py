"""What must hold between hyperparameters: what is wrong with it, and which points satisfy it.

An expression with a hyperparameter that takes no part in a trial holds there.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from cse_platform.sweep.reading.problems import Problem, did_you_mean
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.expression_kinds import kind_problems
from cse_platform.sweep.space.expressions import Expression
from cse_platform.sweep.space.space import Space

MOST_TRIED = 20_000
"""Points that are tried before it is said that none satisfies."""
MANY = 1_000
"""Values of a dimension that are too many to try each."""

Values = Mapping[str, Any]


class Requirements:
    """What must hold in every trial of a sweep.

    Args:
        texts: the expressions.
        space: the dimensions.
        fixed: the settings that every trial shares.
    """

    def __init__(self, texts: Sequence[str], space: Space, fixed: Values) -> None:
        self.expressions = [Expression(text) for text in texts]
        self.space, self.fixed = space, fixed

    @cached_property
    def deciding(self) -> Space:
        """The dimensions that expressions name, and those whose values these depend on."""
        names = {name for one in self.expressions for name in one.names if name in self.space}
        while more := {parent for name in names for parent in self.space[name].when} - names:
            names |= more
        return Space({name: one for name, one in self.space.items() if name in names})

    def broken_by(self, assignment: Values) -> str | None:
        """The first expression that these values of dimensions break; None if they break none."""
        values = {**self.fixed, **assignment}
        return next((one.text for one in self.expressions if not one.holds(values)), None)

    def problems(self) -> list[Problem]:
        """What is wrong with the expressions; paths start at the list of them."""
        wrong = [
            Problem((place,), text)
            for place, one in enumerate(self.expressions)
            for text in self._wrong(one)
        ]
        return wrong or list(self._unsatisfiable())

    def _wrong(self, expression: Expression) -> list[str]:
        known = {name: (value,) for name, value in self.fixed.items()}
        known |= {name: _ends(dimension) for name, dimension in self.space.items()}
        unknown = sorted(expression.names - known.keys())
        if unknown:
            near = {name: did_you_mean(name, known) for name in unknown}
            way_out = "; give it under one of the two"
            said = "{!r} is neither in 'space' nor in 'fixed'{}"
            return [said.format(name, near[name] or way_out) for name in unknown]
        if not expression.names & set(self.space):
            return [f"no hyperparameter of 'space' in {expression.text!r}, so it decides nothing"]
        return kind_problems(expression, known)

    def _unsatisfiable(self) -> Iterator[Problem]:
        alone = [Requirements([one.text], self.space, self.fixed) for one in self.expressions]
        nowhere = [place for place, one in enumerate(alone) if one.some_point({}) is None]
        for place in nowhere:
            yield Problem(
                (place,), f"holds nowhere in the space: {alone[place].how_it_was_tried()}"
            )
        if not nowhere and self.some_point({}) is None:
            how = self.how_it_was_tried()
            yield Problem((), f"each holds somewhere, but all together nowhere: {how}")

    def some_point(self, given: Values) -> dict[str, Any] | None:
        """Values of the dimensions that decide, which satisfy all beside `given`; None if none do.

        Certain where these have few values; ranges are tried at both ends and at random.
        """
        deciding = self.deciding
        values = {name: _few(deciding[name]) or _ends(deciding[name]) for name in deciding}
        values |= {name: (given[name],) for name in deciding if name in given}
        points = islice(_combinations(deciding, deciding.ordered(), values, {}), MOST_TRIED)
        found = next((point for point in points if self._satisfied(given, point)), None)
        if found is not None or self._is_counted():
            return found
        rng = random.Random(0)
        drawn = (random_point(deciding, given, rng) for _ in range(MOST_TRIED))
        return next((point for point in drawn if self._satisfied(given, point)), None)

    def how_it_was_tried(self) -> str:
        """How `some_point` looks for one."""
        names = ", ".join(self.deciding)
        if self._is_counted():
            return f"every combination of {names} was tried"
        return f"both ends of {names} were tried, and {MOST_TRIED} points between"

    def _satisfied(self, given: Values, point: Values) -> bool:
        return self.broken_by({**given, **point}) is None

    def _is_counted(self) -> bool:
        few = [_few(dimension) for _, dimension in self.deciding.items()]
        return math.prod(len(values) or MOST_TRIED + 1 for values in few) <= MOST_TRIED


def require_problems(texts: Sequence[str], space: Space, fixed: Values) -> list[Problem]:
    """What is wrong with expressions; paths start at the list of them."""
    unread = []
    for place, text in enumerate(texts):
        try:
            Expression(text)
        except ValueError as error:
            unread.append(Problem((place,), str(error)))
    return unread or Requirements(texts, space, fixed).problems()


def _few(dimension: Dimension) -> tuple[Any, ...]:
    """All values of a dimension; empty where they are many."""
    if dimension.is_real:
        return ()
    values = tuple(islice(dimension.grid_values(), MANY + 1))
    return values if len(values) <= MANY else ()


def _ends(dimension: Dimension) -> tuple[Any, ...]:
    if isinstance(dimension, Choices):
        return dimension.choices
    return dimension.low, dimension.high


def _combinations(
    space: Space, names: Sequence[str], values: Mapping[str, tuple[Any, ...]], point: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    if not names:
        yield point
    elif not space.is_active(names[0], point):
        yield from _combinations(space, names[1:], values, point)
    else:
        for value in values[names[0]]:
            yield from _combinations(space, names[1:], values, point | {names[0]: value})


def random_point(space: Space, given: Values, rng: random.Random) -> dict[str, Any]:
    """A value for each active dimension, parents first: the given one, or one at random."""
    point: dict[str, Any] = {}
    for name in space.ordered():
        if space.is_active(name, point):
            point[name] = given[name] if name in given else space[name].at(rng.random())
    return point
