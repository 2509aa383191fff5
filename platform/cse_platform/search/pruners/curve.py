"""The pruner `curve`: judge by earlier learning curves whether a trial can still become a top one.

A trial's value is its best trained step. The rule predicts its gain: by how much its final best
exceeds its best so far. Complete trials show the gains from the same share of the steps on, as a
function of three features: the best so far, the current rise, and the drop below the best.

Gains are fitted by Bayesian linear regression, whose prior dominates while there are few trials.
The prediction is a Student t distribution that is wider for trials unlike all earlier ones. The
caller fills `PastCurves` with earlier trials, and calls `judge` after each dev point.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from cse_platform.sweep.pruners import CurvePruner

SMOOTHING = 0.5
"""Weight of the newest point in the smoothed curve."""
DEFAULT_NOISE = 0.01
"""Default standard deviation of a dev score over seeds, as a fraction; used with `NOISE_WEIGHT`."""
NOISE_WEIGHT = 2.0
"""Weight of the default noise, in trials; likewise of the noise in the fit of gains."""
PRIOR_MEAN = np.array([0.0, -0.5, 0.5, 0.0])
PRIOR_SD = np.array([0.05, 0.5, 0.5, 0.5])
"""The prior of the coefficients: the gain at the mean level, and the change of the gain per unit of
level, rise and drop. A trial at a low level gains what it lacks, or nothing; a rising trial keeps
rising, or stops."""
MIN_AS_EXTREME = 3
"""If fewer earlier trials than this are as extreme as a trial, its own rise is extrapolated."""
OPTIMISM = 1.25
"""Factor by which an extrapolated rise may exceed its linear continuation."""
LONGER = 2.0
"""Trials whose numbers of steps differ by more than this factor are not comparable."""
COLLAPSED = -0.05
"""Uniformity above which embeddings have collapsed; it is 0 if all are equal."""

Curve = Mapping[int, float]
"""Dev scores, as fractions, by optimiser step. Step 0 only shows where the first rise began and may
be missing; values may be NaN."""

_Floats = NDArray[np.float64]
_Counts = NDArray[np.intp]


@dataclass(frozen=True)
class Verdict:
    """The decision about a trial."""

    stop: bool
    why: str
    """The reason in words."""
    chance: float = 1.0
    """The chance of becoming a top trial; 1 if it was not computed."""


class PastCurves:
    """The curves of complete trials, which can be read at any share of their steps."""

    def __init__(self) -> None:
        self._shares: list[_Floats] = []
        self._states: list[_Floats] = []
        self._lengths: list[int] = []
        self._numbers: dict[str, int] = {}
        self._configurations: list[int] = []
        self._table: tuple[_Floats, _Floats, _Floats, _Counts] | None = None

    def __len__(self) -> int:
        return len(self._states)

    def add(self, curve: Curve, *, configuration: str) -> None:
        """Add the curve of a complete trial, which must reach its last step.

        Trials of the same `configuration` are its seeds, from which the noise is estimated. Stopped
        trials have no final best and must not be added.
        """
        if points := _select_trained(curve):
            last = max(curve)
            self._shares.append(np.array([step / last for step, _ in points]))
            self._states.append(_compute_states(points, last, curve.get(0)))
            self._lengths.append(last)
            number = self._numbers.setdefault(configuration, len(self._numbers))
            self._configurations.append(number)
            self._table = None

    def states_at(self, share: float, *, steps: int) -> tuple[_Floats, _Floats, _Counts]:
        """Return the states, remaining gains and configurations of comparable curves at a share.

        A curve is comparable if its number of steps differs from `steps` by at most a factor of
        `LONGER`, and if it has a point at or before that share: the last such point is used.
        """
        if not self._states:
            return np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.intp)
        if self._table is None:
            longest = max(map(len, self._shares))
            shares = np.full((len(self), longest), np.inf)
            states = np.zeros((len(self), longest, 3))
            for row, (share_of, state) in enumerate(zip(self._shares, self._states, strict=True)):
                shares[row, : len(share_of)], states[row, : len(state)] = share_of, state
            finals = np.array([state[-1, 0] for state in self._states])
            self._table = shares, states, finals, np.array(self._configurations)
        shares, states, finals, configurations = self._table
        reached = (shares <= share).sum(axis=1)
        lengths = np.array(self._lengths)
        rows = np.flatnonzero((reached > 0) & (abs(np.log(lengths / steps)) <= math.log(LONGER)))
        chosen = states[rows, reached[rows] - 1]
        return chosen, finals[rows] - chosen[:, 0], configurations[rows]


def judge(
    curve: Curve,
    *,
    steps: int,
    past: PastCurves,
    best: Sequence[float],
    rule: CurvePruner,
    top: int,
) -> Verdict:
    """Decide whether a trial goes on after the last step of its curve.

    The bar is the value of the `top`-th best configuration. The trial stops if its chance to
    pass the bar is below `rule.chance` times the chance of a trial about which nothing is known. So
    at most that share of the trials that would pass is lost. A threshold of `rule.chance` itself
    would lose most of them, because few trials pass.

    Args:
        curve: what the trial has reported so far.
        steps: the number of optimiser steps of the whole trial.
        past: complete trials of the same method and backbone, of this sweep and of others.
        best: best value of each configuration that this sweep has tried, stopped ones included.
        rule: the settings of the rule.
        top: the number of best configurations among which the trial may still come.
    """
    points = _select_trained(curve)
    if not points or max(curve) < rule.min_step:
        return Verdict(False, "too early")
    if len(best) < top:
        return Verdict(False, f"fewer than {top} configurations have a value")
    share, state = max(curve) / steps, _compute_states(points, steps, curve.get(0))[-1]
    bar = sorted(best, reverse=True)[top - 1]
    if state[0] >= bar:
        return Verdict(False, "among the best")
    states, gains, configurations = past.states_at(share, steps=steps)
    if len(gains) < rule.startup_trials:
        return Verdict(False, f"only {len(gains)} complete curves came as far")
    # The pooled standard deviation of a gain over the seeds of a configuration. The default shrinks
    # in proportion to the remaining share of the steps.
    default = NOISE_WEIGHT * DEFAULT_NOISE**2 * max(1 - share, 0.05)
    squares, freedom = _sum_seed_squares(gains, configurations)
    noise = math.sqrt((default + squares) / (NOISE_WEIGHT + freedom))
    # The variance of the final best over seeds of a configuration; 0 if unknown.
    squares, freedom = _sum_seed_squares(states[:, 0] + gains, configurations)
    luck = squares / freedom if freedom else 0.0
    chance = _estimate_chance(bar - state[0], state, states, gains, noise, luck=luck)
    why = (
        f"at {share:.0%} of its steps its best is {100 * state[0]:.1f}; by {len(gains)} complete "
        f"curves the chance that it passes {100 * bar:.1f} is {chance:.2g}"
    )
    return Verdict(chance < rule.chance * top / (len(best) + 1), why, chance)


def explain_collapse(value: float, metrics: Mapping[str, float]) -> str | None:
    """Explain why a report of a trained step shows that training has failed; None if it does not.

    `value` is its dev score; `metrics` holds all reported metrics.
    """
    if math.isnan(value) or math.isnan(metrics.get("train/loss", 0.0)):
        return f"its {'dev score' if math.isnan(value) else 'loss'} is not a number"
    if (uniformity := metrics.get("dev/uniformity", -math.inf)) > COLLAPSED:
        return f"it collapsed: all sentences have nearly one vector (uniformity {uniformity:.3f})"
    return None


def _select_trained(curve: Curve) -> list[tuple[int, float]]:
    return sorted((step, v) for step, v in curve.items() if step > 0 and not math.isnan(v))


def _compute_states(
    points: Sequence[tuple[int, float]], steps: int, start: float | None
) -> _Floats:
    """Compute the features at each point, shape (points, 3): best so far, rise and drop.

    The rise is the linear extrapolation of the smoothed curve to the last step; the drop is the
    distance of the smoothed curve from the best so far.
    """
    states = np.empty((len(points), 3))
    last_step, best, trend = 0, -math.inf, 0.0
    smooth = points[0][1] if start is None or math.isnan(start) else start
    for row, (step, value) in enumerate(points):
        weight = SMOOTHING if row else 1.0
        new = smooth + weight * (value - smooth)
        trend += weight * ((new - smooth) / (step - last_step) - trend)
        best, smooth, last_step = max(best, value), new, step
        states[row] = best, max(0.0, trend) * (steps - step), best - smooth
    return states


def _sum_seed_squares(values: _Floats, configurations: _Counts) -> tuple[float, int]:
    """Sum squared deviations from the means over seeds. Returns the degrees of freedom, too."""
    seeds = np.bincount(configurations)
    means = np.bincount(configurations, values) / np.maximum(seeds, 1)
    squares = float(((values - means[configurations]) ** 2).sum())
    return squares, len(values) - int(np.count_nonzero(seeds))


def _estimate_chance(
    needed: float, state: _Floats, states: _Floats, gains: _Floats, noise: float, luck: float
) -> float:
    """Estimate the chance of a gain of at least `needed`; 1 if the trial's own rise suffices.

    The own rise counts only if the trial is more extreme than nearly all earlier ones. `luck` is
    the variance over seeds; it enters twice, for this trial and for the one that set the bar.
    """
    centre = np.array([states[:, 0].mean(), 0.0, 0.0])
    known = np.column_stack([np.ones(len(gains)), states - centre])
    point = np.concatenate([[1.0], state - centre])
    precision = np.diag((noise / PRIOR_SD) ** 2)
    spread = np.linalg.inv(precision + known.T @ known)
    far_out = np.sort(((known @ spread) * known).sum(axis=1))
    if (
        OPTIMISM * state[1] >= needed
        and point @ spread @ point > far_out[-min(MIN_AS_EXTREME, len(gains))]
    ):
        return 1.0
    mean = spread @ (precision @ PRIOR_MEAN + known.T @ gains)
    residuals, moved = gains - known @ mean, mean - PRIOR_MEAN
    squares = NOISE_WEIGHT * noise**2 + residuals @ residuals + moved @ precision @ moved
    freedom = NOISE_WEIGHT + len(gains) - float(np.trace(spread @ (known.T @ known)))
    width = math.sqrt(squares / freedom * (1.0 + point @ spread @ point) + 2 * luck)
    surprise = needed - float(point @ mean)
    # Gains are skewed, because none is negative; their empirical tail counts if it is heavier.
    return max(float(stdtr(freedom, -surprise / width)), float((residuals >= surprise).mean()))
