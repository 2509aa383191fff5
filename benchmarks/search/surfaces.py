"""Response surfaces for simulated searches: recorded ones, and functions with noise.

A surface gives the dev curve of a configuration with a seed, and the mean score of a configuration
over seeds. A score is the best value of a curve, as in a sweep.
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
"""The number of noise samples over which the mean of a configuration is taken."""
DRAWN = 20_000
"""The number of random configurations among which the best of a space is sought."""
CLIMBS, CANDIDATES, REDRAWN = 6, 2000, 0.3
"""How often the best one is then improved, the number of variants each time, and the share of
coordinates in which a variant differs."""


class Surface(Protocol):
    """A space, and the results of trials in it."""

    name: str
    space: Space
    points: int
    """Number of dev points of a whole trial, without step 0."""
    start: Assignment
    """A choice without any search: the paper's settings, or the middle of the space."""

    def curve(self, assignment: Assignment, *, seed: int) -> Array:
        """Return the dev curve of a trial, without step 0, shape (points,), as fractions."""

    def mean(self, assignments: list[Assignment]) -> Array:
        """Return the mean score of each configuration over seeds, shape (N,)."""


def unit(space: Space, assignment: Assignment) -> list[float]:
    """Map an assignment to [0, 1]: ranges by their scale, one coordinate for each choice."""
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
    """Draw a random configuration."""
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
    """Find the highest mean of a space, and the share of configurations within 0.3 points."""
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
    """Recorded dev curves, interpolated by a Gaussian process.

    The noise of a seed is drawn from recorded residuals: the curves of a configuration with several
    seeds, less their mean.
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

    The first coordinate is a learning rate: the higher it is, the earlier a curve peaks and falls.
    If a trial diverges, its curve is NaN from the second point on, and its mean is `untrained`.

    Args:
        name: the name of the surface.
        function: the final score at coordinates, (N, dimensions) to (N,).
        dimensions: number of real coordinates; those of choices follow, one for each choice.
        noise: standard deviation over seeds, as a fraction; or a function of the coordinates.
        choices: the values of each further dimension.
        diverges: whether trials at coordinates diverge, (N, dimensions) to (N,).
        untrained: score at step 0, as a fraction.
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
        """Return the standard deviations over seeds, shape (N, 1)."""
        levels = self.noise(inputs) if callable(self.noise) else np.full(len(inputs), self.noise)
        return levels[:, None]

    def _diverging(self, inputs: Array) -> Any:
        return self.diverges(inputs) if self.diverges else np.zeros(len(inputs), dtype=bool)

    @cached_property
    def _noises(self) -> Array:
        rng = np.random.default_rng(1)
        return self._draw(rng, SEEDS)

    def _draw(self, rng: np.random.Generator, count: int) -> Array:
        """Draw noise: most is the same at all points of a seed, the rest is independent."""
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
    """A broad maximum off the centre, with different curvatures, in five dimensions."""
    centre = np.array([0.3, 0.7, 0.4, 0.6, 0.25])
    weights = np.array([0.08, 0.05, 0.025, 0.012, 0.004])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def valley(inputs: Array) -> Array:
    """A valley along two coordinates that must agree, like two temperatures, in four dimensions."""
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
    """A slope that rises almost up to where trials diverge, in four dimensions."""
    centre = np.array([0.58, 0.5, 0.3, 0.65])
    weights = np.array([0.12, 0.05, 0.04, 0.02])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def beyond_cliff(inputs: Array) -> Any:
    """Diverge in a third of the space: at higher second coordinates already at lower rates."""
    return inputs[:, 0] + 0.4 * inputs[:, 1] > 0.85


def ridge(inputs: Array) -> Array:
    """A narrow ridge along a bent line in three dimensions, which rises slowly to its maximum."""
    along = inputs[:, 0]
    aside = inputs[:, 1] - (0.5 + 0.35 * np.sin(2 * np.pi * along))
    above = inputs[:, 2] - (1 - along) ** 2
    return np.asarray(0.68 - 0.2 * aside**2 - 0.15 * above**2 - 0.03 * (along - 0.75) ** 2)


def plain(inputs: Array) -> Array:
    """A broad maximum in four dimensions, used with noise that varies."""
    centre = np.array([0.35, 0.7, 0.55, 0.4])
    weights = np.array([0.07, 0.03, 0.05, 0.01])
    return np.asarray(0.68 - ((inputs - centre) ** 2 * weights).sum(axis=1))


def growing(inputs: Array) -> Array:
    """Noise that grows from 0.1 to 1.3 points along the second coordinate."""
    return np.asarray(0.001 + 0.012 * inputs[:, 1])


HEIGHTS = np.array([[0.670, 0.655, 0.650], [0.655, 0.668, 0.650], [0.680, 0.645, 0.640]])
"""The best score of each pair of choices. The first choice of the best pair has the worst average
over second choices."""


def paired(inputs: Array) -> Array:
    """Two interacting choices out of three; the first one moves the optimum of three numbers."""
    numbers, first, second = inputs[:, :3], inputs[:, 3:6], inputs[:, 6:9]
    best = np.einsum("ni,ij,nj->n", first, HEIGHTS, second)
    centre = first @ np.array([[0.3, 0.3, 0.7], [0.5, 0.3, 0.5], [0.65, 0.3, 0.3]])
    return np.asarray(best - ((numbers - centre) ** 2 * np.array([0.06, 0.03, 0.04])).sum(axis=1))


def analytic_surfaces() -> list[Analytic]:
    """Make the surfaces; the noise over seeds is 0.2 to 0.5 points, or grows.

    The last four are hard for a Gaussian process: trials diverge in a third of the space, a ridge
    is bent, noise grows, and choices interact.
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
    """Make the generator of one trial: equal configuration and seed give equal curves."""
    text = json.dumps([sorted(assignment.items()), seed])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def _read(file: Path) -> dict[str, dict[int, Array]]:
    """Read the curves of a table, by configuration (as JSON) and seed."""
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
    """Compute deviations of seeds from their configuration's mean, corrected for few seeds."""
    found = []
    for seeds in curves:
        if (count := len(seeds)) > 1:
            several = np.array(list(seeds.values()))
            found += list((several - several.mean(axis=0)) * np.sqrt(count / (count - 1)))
    return np.array(found)


def _fitted(inputs: Array, targets: Array) -> GaussianProcessRegressor:
    """Fit a Gaussian process with the exponential kernel, which hardly overshoots its data.

    Smoother kernels predict unseen points no better (within 1.2 points, by tenfold
    cross-validation) and put a peak behind each cliff.
    """
    scale = np.ones(inputs.shape[1])
    kernel = ConstantKernel(1.0) * Matern(scale, (0.05, 20.0), nu=0.5) + WhiteKernel(0.05)
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    )
    return model.fit(inputs, targets)
