"""Find points that `require` allows, at random or near a point that a sampler proposed."""

import random
from collections.abc import Container, Mapping
from typing import Any

from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.require import Requirements, random_point

TRIES = 200
"""The number of random points to try before falling back to slice sampling from a known one."""
ROUNDS = 5
"""The number of rounds of slice sampling over all dimensions."""
STEPS = 30
"""The most times that the step of a move is reduced."""
AROUND = 0.1
"""Standard deviation of points drawn around another one, as a share of each range."""

Values = Mapping[str, Any]


class AllowedPoints:
    """Finds allowed points that have the given values; the other values are random.

    Args:
        requirements: the conditions; some point with the given values must satisfy them.
        given: values of dimensions that do not change.
        seed: seed of the random draws.
        worn: cells of the space to avoid if possible.
    """

    def __init__(
        self,
        requirements: Requirements,
        given: Values,
        *,
        seed: int | str,
        worn: Container[str] = (),
    ) -> None:
        self.requirements, self.given, self.worn = requirements, given, worn
        self.space, self.rng = requirements.space, random.Random(seed)

    def draw_anywhere(self) -> dict[str, Any]:
        """Draw a random point among all allowed ones.

        If none is found by chance, start from a known one and redraw each dimension in turn within
        what the others allow (slice sampling, Neal 2003).
        """
        for _ in range(TRIES):
            point = self._complete_point({})
            if self._is_allowed(point):
                return point
        point = self._complete_point(self.requirements.some_point(self.given) or {})
        for _ in range(ROUNDS):
            for name in self._shuffle_movable(point):
                point = self._redraw_value(point, name)
        return point

    def draw_around(self, target: Values) -> dict[str, Any]:
        """Draw an allowed point around the target; only real numbers are shifted."""
        return self.draw_near(
            {name: self._shift_value(name, value) for name, value in target.items()}
        )

    def draw_near(self, target: Values) -> dict[str, Any]:
        """Draw an allowed point that differs little from the target.

        Among points that share about half of the target's values, take the nearest allowed one, and
        move each of its dimensions towards the target as far as the others allow.
        """
        mixed = (self._complete_point(self._draw_half(target)) for _ in range(TRIES))
        allowed = [point for point in mixed if self._is_allowed(point)] or [self.draw_anywhere()]
        point = min(allowed, key=lambda point: self._measure_distance(point, target))
        for name in self._shuffle_movable(point):
            if name in target:
                point = self._move_towards(point, name, target[name])
        return point

    def _complete_point(self, values: Values) -> dict[str, Any]:
        return random_point(self.space, {**values, **self.given}, self.rng)

    def _is_allowed(self, point: Values) -> bool:
        return (
            self.requirements.broken_by(point) is None and self.space.cell(point) not in self.worn
        )

    def _draw_half(self, target: Values) -> dict[str, Any]:
        return {name: value for name, value in target.items() if self.rng.random() < 0.5}

    def _shuffle_movable(self, point: Values) -> list[str]:
        names = [name for name in point if name not in self.given]
        return self.rng.sample(names, len(names))

    def _shift_value(self, name: str, value: Any) -> Any:
        dimension = self.space[name]
        if not dimension.is_real:
            return value
        share = abs(dimension.share(value) + self.rng.gauss(0, AROUND)) % 2
        return dimension.at(min(share, 2 - share))  # reflected at the bounds

    def _redraw_value(self, point: dict[str, Any], name: str) -> dict[str, Any]:
        if name not in point:  # a new choice has made it inactive
            return point
        dimension = self.space[name]
        here, low, high = dimension.share(point[name]), 0.0, 1.0
        for _ in range(STEPS):
            share = self.rng.uniform(low, high)
            other = self._complete_point({**point, name: dimension.at(share)})
            if self._is_allowed(other):
                return other
            if not isinstance(dimension, Choices):
                low, high = (share, high) if share < here else (low, share)
        return point

    def _move_towards(self, point: dict[str, Any], name: str, goal: Any) -> dict[str, Any]:
        there = self._complete_point({**point, name: goal})
        if name not in point or self._is_allowed(there):
            return there if name in point else point
        dimension = self.space[name]
        if isinstance(dimension, Choices):
            return point
        here, away = dimension.share(point[name]), dimension.share(goal)
        for _ in range(STEPS):
            middle = (here + away) / 2
            other = self._complete_point({**point, name: dimension.at(middle)})
            if self._is_allowed(other):
                here, point = middle, other
            else:
                away = middle
        return point

    def _measure_distance(self, point: Values, target: Values) -> float:
        return sum(
            _measure_gap(self.space[name], point[name], target[name])
            if name in point and name in target
            else 1.0
            for name in {*point, *target}
        )


def _measure_gap(dimension: Dimension, one: Any, other: Any) -> float:
    if isinstance(dimension, Choices):
        return float(one != other)
    return abs(dimension.share(one) - dimension.share(other))
