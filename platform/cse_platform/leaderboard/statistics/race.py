"""A race over seeds: which configurations can still be the best, and so get a further seed."""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from scipy.special import stdtr  # Student's distribution function

RACE_ALPHA = 0.05
"""The chance that the truly best configuration is dropped in a race is at most this."""
_FEWEST = 2
"""Seeds that each configuration has before any is dropped: one says nothing of its spread."""

SeedValues = Mapping[int, float | None]
"""The values of a configuration by seed; None if that trial ended without one."""


def still_racing(
    values: Mapping[str, SeedValues], *, seeds: Sequence[int], alpha: float = RACE_ALPHA
) -> list[str]:
    r"""Find the configurations that may still be the best after the rounds so far.

    In round i every racer gets the i-th seed. After each round from the second to the last but one,
    a racer is compared with the leader, the racer with the highest mean, over the m seeds that both
    have. It is dropped where

    .. math:: P\!\left(t_\nu \ge \frac{\bar d}{\max(s \sqrt{2 / m},\, s_d / \sqrt m)}\right)
              \le \frac{\alpha}{(n - 2)(k - 1)}

    for k configurations and n planned seeds. :math:`\bar d` is the mean of the paired differences
    and :math:`s_d` their standard deviation. :math:`s` and :math:`\nu` are the residual standard
    deviation and its degrees of freedom over all configurations, after configuration and seed are
    taken out: the differences of two configurations over two or three seeds say too little. The
    wider of the two errors counts, because one configuration may vary more than the others.

    The truly best one is dropped only where one of k - 1 others beats it after one of n - 2 rounds.
    Each of these tests takes an equal part of alpha, so that they stay below it together, however
    they depend on each other. No test follows the last round: it would save nothing. Equal ones all
    stay.

    How often it errs and what it saves is in docs/statistics.md.

    The value of the search must not be among `values`. A configuration races because that value was
    among the highest of many, so it is too high, by an amount that nobody knows.

    Args:
        values: by configuration and seed; a seed that is lacking has not ended yet.
        seeds: those planned, in the order in which they are given.
        alpha: chance of dropping the truly best configuration.

    Returns:
        In the order of `values`. Only whole rounds count, so that the answer does not depend on
        which trial of a round ends first.

    Source:
        Maron and Moore 1994, Hoeffding races; with t tests, as Birattari et al. 2002, A racing
        algorithm for configuring metaheuristics.
    """
    racing, rounds_of = list(values), dict.fromkeys(values, 0)
    tests = (len(seeds) - _FEWEST) * (len(values) - 1)
    for rounds in range(_FEWEST, len(seeds)):
        so_far = seeds[:rounds]
        if len(racing) < 2 or not all(values[name].keys() >= set(so_far) for name in racing):
            break
        rounds_of.update(dict.fromkeys(racing, rounds))  # what is dropped stays at its last round
        known = {
            name: _select_known_values(values[name], seeds[: rounds_of[name]]) for name in values
        }
        racing = _keep_unbeaten(racing, known, level=alpha / tests)
    return racing


def _select_known_values(values: SeedValues, seeds: Sequence[int]) -> dict[int, float]:
    """Select the values of these seeds that are known."""
    return {seed: value for seed in seeds if (value := values[seed]) is not None}


def _keep_unbeaten(
    racing: Sequence[str], known: Mapping[str, Mapping[int, float]], *, level: float
) -> list[str]:
    """Keep the configurations that the leader does not beat at this level."""
    means = {name: float(np.mean(list(known[name].values()))) for name in racing if known[name]}
    variance, freedom = _estimate_residual(known)
    if not means or freedom < 1:
        return list(racing)
    leader = known[max(means, key=means.__getitem__)]
    return [name for name in racing if _compute_p(leader, known[name], variance, freedom) > level]


def _compute_p(
    leader: Mapping[int, float], other: Mapping[int, float], variance: float, freedom: int
) -> float:
    """Compute the one-sided p that the leader is no better.

    It is 1 if they share too few seeds, or are equal.
    """
    apart = np.array([leader[seed] - other[seed] for seed in leader.keys() & other.keys()])
    if len(apart) < _FEWEST or apart.mean() <= 0:
        return 1.0
    error = sqrt(max(2 * variance, float(apart.var(ddof=1))) / len(apart))
    return float(stdtr(freedom, -apart.mean() / error)) if error else 0.0


def _estimate_residual(known: Mapping[str, Mapping[int, float]]) -> tuple[float, int]:
    """Estimate the variance around configuration plus seed, and its degrees of freedom."""
    cells = [(name, seed) for name, values in known.items() for seed in values]
    names, seeds = (list(dict.fromkeys(side)) for side in zip(*cells, strict=True))
    design = np.zeros((len(cells), len(names) + len(seeds)))
    for row, (name, seed) in enumerate(cells):
        design[row, [names.index(name), len(names) + seeds.index(seed)]] = 1
    observed = np.array([known[name][seed] for name, seed in cells])
    fitted, _, rank, _ = np.linalg.lstsq(design, observed)
    freedom = len(cells) - int(rank)
    left = float(((observed - design @ fitted) ** 2).sum())
    return (left / freedom if freedom else 0.0), freedom
