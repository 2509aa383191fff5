"""Response surfaces on which searches are simulated: recorded ones, and functions with noise.

A surface says what dev curve a configuration has with a seed, and what its mean over seeds is. A
configuration's score is the best value of its curve, as in a sweep.
"""

import csv
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from cse_platform.sweep.space.dimensions import Choices
from cse_platform.sweep.space.space import Space

Array = NDArray[np.float64]
Assignment = Mapping[str, Any]

SEEDS = 400
"""Noises over which the mean of a configuration is taken."""
DRAWN = 20_000
"""Configurations among which the best of a space is looked for."""
CLIMBS, CANDIDATES, REDRAWN = 6, 2000, 0.3
"""How often the best one is then improved on, among how many that differ from it, and the share of
coordinates in which they do."""


class Surface(Protocol):
    """What can be known of a space."""

    name: str
    space: Space
    points: int
    """Dev points of a whole trial, after step 0."""
    start: Assignment
    """What somebody who has not searched would take: the paper's settings, or the middle."""

    def curve(self, assignment: Assignment, *, seed: int) -> Array:
        """The dev curve of a trial, without step 0, shape (points,), fractions."""

    def mean(self, assignments: list[Assignment]) -> Array:
        """The mean score of each configuration over seeds, shape (N,)."""


def unit(space: Space, assignment: Assignment) -> list[float]:
    """Coordinates in [0, 1]: ranges by their own scale, a coordinate for each choice."""
    found: list[float] = []
    for name, dimension in space.items():
        value = assignment[name]
        if isinstance(dimension, Choices):
            found += [float(value == choice) for choice in dimension.choices]
        else:
            low, high = float(dimension.low), float(dimension.high)
            scale: Callable[[float], float] = np.log if dimension.log else float
            found.append(float((scale(value) - scale(low)) / (scale(high) - scale(low))))
    return found


def drawn(space: Space, rng: np.random.Generator) -> dict[str, Any]:
    """A configuration at random."""
    found: dict[str, Any] = {}
    for name, dimension in space.items():
        if isinstance(dimension, Choices):
            found[name] = dimension.choices[rng.integers(len(dimension.choices))]
        elif dimension.log:
            found[name] = float(np.exp(rng.uniform(np.log(dimension.low), np.log(dimension.high))))
        else:
            found[name] = float(rng.uniform(dimension.low, dimension.high))
    return found


def best_mean(surface: Surface) -> tuple[float, float]:
    """The highest mean of a space, and the share of configurations within 0.3 points of it."""
    rng = np.random.default_rng(0)

    def redrawn(one: Assignment) -> Assignment:
        other = drawn(surface.space, rng)
        return {name: other[name] if rng.random() < REDRAWN else one[name] for name in one}

    everywhere = candidates = [drawn(surface.space, rng) for _ in range(DRAWN)]
    means = found = surface.mean(everywhere)
    for _ in range(CLIMBS):
        top = candidates[int(found.argmax())]
        candidates = [top, *(redrawn(top) for _ in range(CANDIDATES))]
        found = surface.mean(candidates)
    return float(found.max()), float((means >= found.max() - 0.003).mean())


class RecordedSurface:
    """Real dev curves, between which a Gaussian process interpolates.

    The noise of a seed is that of a seed that was trained: the curves of a configuration that has
    several, less their mean.
    """

    def __init__(
        self, name: str, file: Path, *, space: Mapping[str, Any], start: Assignment, parts: int = 3
    ) -> None:
        self.name, self.space, self.start = name, Space.model_validate(space), start
        curves = _read(file)
        self.points = len(next(iter(next(iter(curves.values())).values())))
        configurations = [json.loads(text) for text in curves]
        means = np.array([np.mean(list(seeds.values()), axis=0) for seeds in curves.values()])
        self.noise = _residuals(list(curves.values()))
        self._middle = means.mean(axis=0)
        _, _, axes = np.linalg.svd(means - self._middle, full_matrices=False)
        self._axes: Array = axes[:parts]
        inputs = np.array([unit(self.space, one) for one in configurations])
        targets = (means - self._middle) @ self._axes.T
        self._models = [_fitted(inputs, column) for column in targets.T]

    def _expected(self, assignments: list[Assignment]) -> Array:
        inputs = np.array([unit(self.space, one) for one in assignments])
        parts = np.column_stack([model.predict(inputs) for model in self._models])
        return np.asarray(parts @ self._axes + self._middle)

    def curve(self, assignment: Assignment, *, seed: int) -> Array:
        rng = _rng(assignment, seed)
        noise = self.noise[rng.integers(len(self.noise))]
        return np.asarray(self._expected([assignment])[0] + noise)

    def mean(self, assignments: list[Assignment]) -> Array:
        expected = self._expected(assignments)
        return np.asarray(np.mean([(expected + noise).max(axis=1) for noise in self.noise], axis=0))


class Analytic:
    """A function of coordinates in [0, 1], which trials approach along curves that fall again.

    The first coordinate is a learning rate: with a high one a curve peaks early and falls. Where a
    trial diverges, its curve is NaN from the second point on, and its mean is the untrained score.

    Args:
        name: of the surface.
        function: the final score of coordinates, (N, dimensions) to (N,).
        dimensions: number of real ones; those of choices come after them, one for each.
        noise: standard deviation of a seed, a fraction; or that of each coordinates, as `function`.
        choices: by name.
        diverges: whether a trial diverges, as `function`.
        untrained: score at step 0, a fraction.
    """

    points = 8

    def __init__(
        self,
        name: str,
        function: Callable[[Array], Array],
        *,
        dimensions: int,
        noise: float | Callable[[Array], Array],
        choices: Mapping[str, list[str]] | None = None,
        diverges: Callable[[Array], Any] | None = None,
        untrained: float = 0.62,
    ) -> None:
        self.name, self.function, self.diverges = name, function, diverges
        ranges: dict[str, Any] = {f"x{i}": {"low": 0.0, "high": 1.0} for i in range(dimensions)}
        chosen = choices or {}
        self.space = Space.model_validate({**ranges, **chosen})
        middle: dict[str, Any] = dict.fromkeys(ranges, 0.5)
        self.start = {**middle, **{name: several[0] for name, several in chosen.items()}}
        self.noise, self.untrained = noise, untrained

    def _expected(self, inputs: Array) -> Array:
        final = self.function(inputs)
        share = np.arange(1, self.points + 1) / self.points
        peak = 1.0 - 0.7 * inputs[:, :1]
        rise = np.minimum(share / peak, 1.0) ** 0.5
        fall = 0.1 * np.maximum(share - peak, 0.0)
        return np.asarray(self.untrained + (final[:, None] - self.untrained) * rise - fall)

    def _noise_levels(self, inputs: Array) -> Array:
        """Standard deviations of seeds, shape (N, 1)."""
        levels = self.noise(inputs) if callable(self.noise) else np.full(len(inputs), self.noise)
        return levels[:, None]

    def _diverging(self, inputs: Array) -> Any:
        return self.diverges(inputs) if self.diverges else np.zeros(len(inputs), dtype=bool)

    @cached_property
    def _noises(self) -> Array:
        rng = np.random.default_rng(1)
        return self._draw(rng, SEEDS)

    def _draw(self, rng: np.random.Generator, count: int) -> Array:
        """Most of the noise is the seed's, the same at every point; the rest is the point's."""
        seeds = rng.normal(0, 1, (count, 1))
        return seeds + rng.normal(0, 0.4, (count, self.points))

    def curve(self, assignment: Assignment, *, seed: int) -> Array:
        inputs = np.array([unit(self.space, assignment)])
        noise = self._noise_levels(inputs) * self._draw(_rng(assignment, seed), 1)
        curve = np.asarray((self._expected(inputs) + noise)[0])
        if self._diverging(inputs)[0]:
            curve[1:] = np.nan
        return curve

    def mean(self, assignments: list[Assignment]) -> Array:
        inputs = np.array([unit(self.space, one) for one in assignments])
        expected, total = self._expected(inputs), np.zeros(len(inputs))
        levels = self._noise_levels(inputs)
        for noise in self._noises:
            total += (expected + levels * noise).max(axis=1)
        return np.where(self._diverging(inputs), self.untrained, total / len(self._noises))


def bowl(inputs: Array) -> Array:
    """A broad maximum off the middle, of unlike curvature by dimension, in five dimensions."""
    centre = np.array([0.3, 0.7, 0.4, 0.6, 0.25])
    weights = np.array([0.08, 0.05, 0.025, 0.012, 0.004])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def valley(inputs: Array) -> Array:
    """Two coordinates that must go together, as two temperatures do, in four dimensions."""
    together = inputs[:, 1] - inputs[:, 2]
    height = inputs[:, 1] - 0.3
    rest = 0.04 * (inputs[:, 0] - 0.6) ** 2 + 0.02 * (inputs[:, 3] - 0.5) ** 2
    return np.asarray(0.68 - 0.08 * together**2 - 0.02 * height**2 - rest)


def peaks(inputs: Array) -> Array:
    """A broad lower hill and a narrower higher one, in three dimensions."""
    broad = ((inputs - np.array([0.25, 0.3, 0.7])) ** 2).sum(axis=1)
    narrow = ((inputs - np.array([0.75, 0.7, 0.3])) ** 2).sum(axis=1)
    hills = 0.05 * np.exp(-broad / 0.9), 0.06 * np.exp(-narrow / 0.4)
    return np.asarray(0.62 + np.maximum(*hills))


def slope(inputs: Array) -> Array:
    """A slope that rises up to near where trials diverge, in four dimensions."""
    centre = np.array([0.58, 0.5, 0.3, 0.65])
    weights = np.array([0.12, 0.05, 0.04, 0.02])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def beyond_cliff(inputs: Array) -> Any:
    """A third of the space: the higher the second coordinate, the lower the rate that diverges."""
    return inputs[:, 0] + 0.4 * inputs[:, 1] > 0.85


def ridge(inputs: Array) -> Array:
    """A narrow ridge along a bent line in three dimensions, which rises slowly to its best."""
    along = inputs[:, 0]
    aside = inputs[:, 1] - (0.5 + 0.35 * np.sin(2 * np.pi * along))
    above = inputs[:, 2] - (1 - along) ** 2
    return np.asarray(0.68 - 0.2 * aside**2 - 0.15 * above**2 - 0.03 * (along - 0.75) ** 2)


def plain(inputs: Array) -> Array:
    """A broad maximum in four dimensions, for noise that is not the same everywhere."""
    centre = np.array([0.35, 0.7, 0.55, 0.4])
    weights = np.array([0.07, 0.03, 0.05, 0.01])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def growing(inputs: Array) -> Array:
    """From 0.1 points to 1.3, along the second coordinate."""
    return np.asarray(0.001 + 0.012 * inputs[:, 1])


HEIGHTS = np.array([[0.670, 0.655, 0.650], [0.655, 0.668, 0.650], [0.680, 0.645, 0.640]])
"""The best score of each pair of choices. The first choice of the best pair is the worst one on the
average over the second."""


def paired(inputs: Array) -> Array:
    """Two choices of three, which interact; the first one moves the best of three numbers."""
    numbers, first, second = inputs[:, :3], inputs[:, 3:6], inputs[:, 6:9]
    best = np.einsum("ni,ij,nj->n", first, HEIGHTS, second)
    centre = first @ np.array([[0.3, 0.3, 0.7], [0.5, 0.3, 0.5], [0.65, 0.3, 0.3]])
    return np.asarray(best - ((numbers - centre) ** 2 * np.array([0.06, 0.03, 0.04])).sum(axis=1))


def analytic_surfaces() -> list[Analytic]:
    """The functions; the noise of a seed has a standard deviation of 0.2 to 0.5 points, or grows.

    The last four have what a Gaussian process takes badly: a third of the space where trials
    diverge, a bent ridge, noise that grows, and choices that interact.
    """
    pair = {"first": ["a", "b", "c"], "second": ["a", "b", "c"]}
    return [
        Analytic("bowl", bowl, dimensions=5, noise=0.003),
        Analytic("valley", valley, dimensions=4, noise=0.004),
        Analytic("peaks", peaks, dimensions=3, noise=0.005),
        Analytic("cliff", slope, dimensions=4, noise=0.003, diverges=beyond_cliff),
        Analytic("ridge", ridge, dimensions=3, noise=0.002),
        Analytic("noise", plain, dimensions=4, noise=growing),
        Analytic("choices", paired, dimensions=3, noise=0.003, choices=pair),
    ]


def _rng(assignment: Assignment, seed: int) -> np.random.Generator:
    """Of one trial: the same configuration and seed give the same curve."""
    text = json.dumps([sorted(assignment.items()), seed])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def _read(file: Path) -> dict[str, dict[int, Array]]:
    """The curves in a table, by configuration (as JSON) and seed."""
    found: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if (step := int(row["step"])) > 0:
                found[row["configuration"]][int(row["seed"])][step] = float(row["value"])
    return {
        configuration: {
            seed: np.array([points[step] for step in sorted(points)])
            for seed, points in seeds.items()
        }
        for configuration, seeds in found.items()
    }


def _residuals(curves: list[dict[int, Array]]) -> Array:
    """What seeds add to the mean of their configuration; few seeds make the mean too near."""
    found = []
    for seeds in curves:
        if (count := len(seeds)) > 1:
            several = np.array(list(seeds.values()))
            found += list((several - several.mean(axis=0)) * np.sqrt(count / (count - 1)))
    return np.array(found)


def _fitted(inputs: Array, targets: Array) -> GaussianProcessRegressor:
    """The exponential kernel, which hardly rises above what was trained.

    The smoother ones predict no better what they have not seen (within 1.2 points, by tenfold
    cross-validation) and put a peak behind each cliff.
    """
    scale = np.ones(inputs.shape[1])
    kernel = ConstantKernel(1.0) * Matern(scale, (0.05, 20.0), nu=0.5) + WhiteKernel(0.05)
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    )
    return model.fit(inputs, targets)
