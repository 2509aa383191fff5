"""The pruner `curve`: judges by earlier curves whether a trial can still come among the best.

A trial is worth its best trained step. So the rule predicts its gain: by how much its final best
lies above its best so far. Complete trials show the gains from the same share of the steps on,
given how high a trial stands, how it rises, and how far it is below its peak.

The gains are fitted by linear regression under a prior, so that few trials say little: the
prediction is a Student t distribution that widens where a trial is unlike all earlier ones. The
caller fills `PastCurves` with earlier trials, and calls `judge` after each dev point.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

SMOOTHING = 0.5
"""Weight of the newest point in the smoothed curve."""
DEFAULT_NOISE = 0.01
"""Standard deviation of a dev score over seeds, where no configuration has two; a fraction."""
NOISE_WEIGHT = 2.0
"""Number of trials that the default noise counts for among seeds, and the noise among gains."""
PRIOR_MEAN = np.array([0.0, -0.5, 0.5, 0.0])
PRIOR_SD = np.array([0.05, 0.5, 0.5, 0.5])
"""Of the gain at the mean level, and of what each unit of level, rise and drop adds to it. One that
stands low gains what it lacks, or nothing; one that rises goes on to rise, or stays."""
ALIKE = 3
"""If fewer earlier trials than this are as far out as a trial is, its own rise is believed."""
OPTIMISM = 1.25
"""Factor by which a believed rise may exceed its straight continuation."""
LONGER = 2.0
"""Trials with more than this times as many steps, or as few, are not comparable."""
COLLAPSED = -0.05
"""Uniformity above which all sentences have nearly one vector; it is 0 where they have."""

Curve = Mapping[int, float]
"""The dev score by optimiser step, a fraction. Step 0, which nothing is kept of, says where the
first rise began; it may be left out, and so may values that are not numbers."""

_Floats = NDArray[np.float64]
_Counts = NDArray[np.intp]


@dataclass(frozen=True)
class Rule:
    """The settings that decide when a trial is stopped."""

    chance: float = 0.05
    """The share of trials that would have come among the top, and may be stopped for it."""
    top: int = 1
    """Number of best trials that are looked for."""
    min_step: int = 1
    """No trial is stopped before this optimiser step."""
    startup_trials: int = 5
    """Number of complete curves that must have come as far."""


@dataclass(frozen=True)
class Verdict:
    """The decision about a trial."""

    stop: bool
    why: str
    """For people."""
    chance: float = 1.0
    """The chance of coming among the top, as far as it could be computed."""


class PastCurves:
    """Stores curves of complete trials, and compares them at any share of their steps."""

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
        """Add the curve of a complete trial, whose last step is the trial's.

        Trials of one `configuration` are seeds of each other: they tell the noise. A stopped trial
        has no final best, and cannot be added.
        """
        if points := _select_trained(curve):
            last = max(curve)
            self._shares.append(np.array([step / last for step, _ in points]))
            self._states.append(_compute_states(points, last, curve.get(0)))
            self._lengths.append(last)
            number = self._numbers.setdefault(configuration, len(self._numbers))
            self._configurations.append(number)
            self._table = None

    def at(self, share: float, *, steps: int) -> tuple[_Floats, _Floats, _Counts]:
        """Return the states, the gains until the end, and the configurations of comparable curves.

        A curve is comparable with a trial of so many steps if it is at most `LONGER` times as long
        or as short, and has a point so early: it is read at its last point until there.
        """
        if not self._states:
            return np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.intp)
        shares, states, finals, configurations = self._stack_curves()
        reached = (shares <= share + 1e-9).sum(axis=1)
        lengths = np.array(self._lengths)
        rows = np.flatnonzero((reached > 0) & (abs(np.log(lengths / steps)) <= math.log(LONGER)))
        there = states[rows, reached[rows] - 1]
        return there, finals[rows] - there[:, 0], configurations[rows]

    def _stack_curves(self) -> tuple[_Floats, _Floats, _Floats, _Counts]:
        if self._table is None:
            longest = max(map(len, self._shares))
            shares = np.full((len(self), longest), np.inf)
            states = np.zeros((len(self), longest, 3))
            for row, (share, state) in enumerate(zip(self._shares, self._states, strict=True)):
                shares[row, : len(share)], states[row, : len(state)] = share, state
            finals = np.array([state[-1, 0] for state in self._states])
            self._table = shares, states, finals, np.array(self._configurations)
        return self._table


def judge(
    curve: Curve, *, steps: int, past: PastCurves, best: Sequence[float], rule: Rule
) -> Verdict:
    """Decide whether a trial goes on after the last step of its curve.

    The trial stops when its chance to pass the bar is below `rule.chance` of what that chance is
    for a trial that nothing is known of. So of the trials that would pass it, that share is lost at
    most; a chance below `rule.chance` itself would lose most of them, because few trials pass.

    Args:
        curve: what the trial has reported until now.
        steps: how many optimiser steps the whole trial takes.
        past: complete trials of the same method and backbone, of this sweep and of others.
        best: best value of each configuration that this sweep has tried, stopped ones included.
        rule: when it stops.
    """
    points = _select_trained(curve)
    if not points or max(curve) < rule.min_step:
        return Verdict(False, "too early")
    if len(best) < rule.top:
        return Verdict(False, f"fewer than {rule.top} configurations have a value")
    share, state = max(curve) / steps, _compute_states(points, steps, curve.get(0))[-1]
    bar = sorted(best, reverse=True)[rule.top - 1]
    if state[0] >= bar:
        return Verdict(False, "among the best")
    states, gains, configurations = past.at(share, steps=steps)
    if len(gains) < rule.startup_trials:
        return Verdict(False, f"only {len(gains)} complete curves came as far")
    noise = _estimate_noise(gains, configurations, left=1 - share)
    luck = _estimate_luck(states[:, 0] + gains, configurations)
    chance = _estimate_chance(bar - state[0], state, states, gains, noise, luck=luck)
    why = (
        f"at {share:.0%} of its steps its best is {100 * state[0]:.1f}; by {len(gains)} complete "
        f"curves the chance that it passes {100 * bar:.1f} is {chance:.2g}"
    )
    return Verdict(chance < rule.chance * rule.top / (len(best) + 1), why, chance)


def explain_collapse(value: float, metrics: Mapping[str, float]) -> str | None:
    """Explain why a report of a trained step shows a broken trial; None if it does not.

    `value` is its dev score; `metrics` is all that was reported.
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
    """Compute at each point the best so far, the rise until the last step and the drop.

    The rise is that of the smoothed curve, extended in a straight line; the drop is the smoothed
    curve's distance from the best so far.
    """
    states = np.empty((len(points), 3))
    at, best, trend = 0, -math.inf, 0.0
    smooth = points[0][1] if start is None or math.isnan(start) else start
    for row, (step, value) in enumerate(points):
        weight = SMOOTHING if row else 1.0
        new = smooth + weight * (value - smooth)
        trend += weight * ((new - smooth) / (step - at) - trend)
        best, smooth, at = max(best, value), new, step
        states[row] = best, max(0.0, trend) * (steps - step), best - smooth
    return states


def _estimate_noise(gains: _Floats, configurations: _Counts, *, left: float) -> float:
    """Estimate the pooled standard deviation of a gain over the seeds of a configuration.

    `left` is the share of the steps that is left to gain in: the default shrinks with it.
    """
    squares, freedom = _sum_seed_squares(gains, configurations)
    default = NOISE_WEIGHT * DEFAULT_NOISE**2 * max(left, 0.05)
    return math.sqrt((default + squares) / (NOISE_WEIGHT + freedom))


def _estimate_luck(finals: _Floats, configurations: _Counts) -> float:
    """Estimate the variance of a final best over the seeds of a configuration; 0 if unknown."""
    squares, freedom = _sum_seed_squares(finals, configurations)
    return squares / freedom if freedom else 0.0


def _sum_seed_squares(values: _Floats, configurations: _Counts) -> tuple[float, int]:
    """Sum squared distances from the means over seeds. Returns the degrees of freedom too."""
    seeds = np.bincount(configurations)
    means = np.bincount(configurations, values) / np.maximum(seeds, 1)
    squares = float(((values - means[configurations]) ** 2).sum())
    return squares, len(values) - int(np.count_nonzero(seeds))


def _estimate_chance(
    needed: float, state: _Floats, states: _Floats, gains: _Floats, noise: float, luck: float
) -> float:
    """Estimate the chance to gain at least `needed`; 1 for a rise no earlier trial can judge.

    The trial and the one that set the bar each have the luck of a seed, of this variance.
    """
    centre = np.array([states[:, 0].mean(), 0.0, 0.0])
    known = np.column_stack([np.ones(len(gains)), states - centre])
    asked = np.concatenate([[1.0], state - centre])
    precision = np.diag((noise / PRIOR_SD) ** 2)
    spread = np.linalg.inv(precision + known.T @ known)
    far_out = np.sort(((known @ spread) * known).sum(axis=1))
    if OPTIMISM * state[1] >= needed and asked @ spread @ asked > far_out[-min(ALIKE, len(gains))]:
        return 1.0
    mean = spread @ (precision @ PRIOR_MEAN + known.T @ gains)
    rest, moved = gains - known @ mean, mean - PRIOR_MEAN
    squares = NOISE_WEIGHT * noise**2 + rest @ rest + moved @ precision @ moved
    freedom = NOISE_WEIGHT + len(gains) - float(np.trace(spread @ (known.T @ known)))
    width = math.sqrt(squares / freedom * (1.0 + asked @ spread @ asked) + 2 * luck)
    surprise = needed - float(asked @ mean)
    # Gains are skewed, because none is below 0: their own tail counts where it is the heavier one.
    return max(float(stdtr(freedom, -surprise / width)), float((rest >= surprise).mean()))
