"""Tests: two correlations with the same gold, and what many tests together may claim."""

import math
from collections.abc import Sequence

from scipy.special import stdtr  # Student's distribution function

_NEARLY_ONE = 1 - 1e-12
_ROUNDING = 1e-9


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float]:
    r"""Williams's T2: do two predictors correlate equally with the same gold?

    .. math:: T = (r_a - r_b) \sqrt{\frac{(n-1)(1+r_{ab})}
              {2 \frac{n-1}{n-3} |R| + \bar r^2 (1-r_{ab})^3}}, \quad
              |R| = 1 - r_a^2 - r_b^2 - r_{ab}^2 + 2 r_a r_b r_{ab}

    with :math:`\bar r = (r_a + r_b) / 2`. It was derived for Pearson's r of normal variables, and
    keeps its level there. Spearman's correlations vary more where they are high: of equal encoders
    at 0.78, some 7 in 100 came out different at 5 %. It knows the pairs' luck only, not the seeds'.

    Args:
        r_a: correlation of A with gold.
        r_b: of B with gold.
        r_ab: of A with B. Two that agree entirely (1) have equal correlations with gold: t is 0.
        n: pairs.

    Returns:
        t, positive where A is better, and the two-sided p with n - 3 degrees of freedom.

    Raises:
        ValueError: if there are fewer than four pairs, or no three variables correlate so.

    Source:
        Williams 1959; Steiger 1980, Tests for comparing elements of a correlation matrix, eq. 7,
        who recommends it for two correlations that share a variable.
    """
    if n < 4:
        raise ValueError(f"Williams's test needs at least 4 pairs, got {n}")
    # At either end the formula is 0 / 0, and right beside it is its limit.
    between = min(max(r_ab, -_NEARLY_ONE), _NEARLY_ONE)
    apart = r_a - r_b
    # |R|, written so that nothing cancels where A and B nearly agree.
    determinant = (1 - between) * (1 + between - 2 * r_a * r_b) - apart**2
    if determinant < -_ROUNDING:
        raise ValueError(f"no three variables have correlations {r_a}, {r_b} and {r_ab}")
    mean = (r_a + r_b) / 2
    unsure = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - between) ** 3
    if unsure == 0:
        return math.copysign(math.inf, apart), 0.0
    statistic = apart * math.sqrt((n - 1) * (1 + between) / unsure)
    return statistic, float(2 * stdtr(n - 3, -abs(statistic)))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: the chance of any false claim stays below the level.

    The smallest of m is multiplied by m, the next by m - 1 and so on, never falling below the one
    before and never above 1. It holds however the tests depend on each other. None stands where
    there was no test, and does not count. The order stays.
    Source:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted: list[float | None] = [None] * len(ps)
    rising = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    highest = 0.0
    for before, (p, place) in enumerate(rising):
        highest = max(highest, min(1.0, (len(rising) - before) * p))
        adjusted[place] = highest
    return adjusted
