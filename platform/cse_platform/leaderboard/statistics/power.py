"""Estimates the noise of a printed difference, and the number of seeds that would decide it.

All errors are standard errors in the unit of the scores; noise is assumed to be normal.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

LEVEL, POWER = 0.05, 0.8
REACH = float(ndtri(1 - LEVEL / 2))
"""Number of standard errors that a difference must exceed to be significant, two-sided."""
_REACH_WITH_POWER = REACH + float(ndtri(POWER))


def correlation_difference_error(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    r"""Compute the standard error of the difference of two Spearman correlations with the same
    gold.

    .. math:: \frac{1}{n} \Bigl[ c_a (1-r_a^2)^2 + c_b (1-r_b^2)^2
              - 2 \sqrt{c_a c_b} \, \psi \Bigr], \quad
              \psi = r_{ab} (1 - r_a^2 - r_b^2) - \tfrac12 r_a r_b (1 - r_a^2 - r_b^2 - r_{ab}^2)

    is its square; :math:`c = 1 + r^2 / 2` accounts for ranks varying more than values.

    Args:
        r_a: correlation of A with gold, in [-1, 1].
        r_b: of B with gold.
        r_ab: of A with B.
        n: number of independent pairs.

    Source:
        Pearson and Filon 1898, as in Steiger 1980, eq. 3; Bonett and Wright 2000, Sample size
        requirements for estimating Pearson, Kendall and Spearman correlations, for c.
    """
    c_a, c_b = 1 + r_a**2 / 2, 1 + r_b**2 / 2
    left = 1 - r_a**2 - r_b**2
    shared = r_ab * left - r_a * r_b * (left - r_ab**2) / 2
    own = c_a * (1 - r_a**2) ** 2 + c_b * (1 - r_b**2) ** 2
    return math.sqrt(max(0.0, own - 2 * math.sqrt(c_a * c_b) * shared) / n)


def accuracy_difference_error(p_a: float, p_b: float, agreement: float, n: int) -> float:
    r"""Compute the standard error of the difference of two accuracies on the same n samples.

    .. math:: \sqrt{(v_a + v_b - 2 \phi \sqrt{v_a v_b}) / n}, \quad v = p (1 - p)

    Args:
        p_a: accuracy of A, in [0, 1].
        p_b: accuracy of B.
        agreement: phi, the correlation between the correctness of A and that of B.
        n: number of samples.
    """
    v_a, v_b = p_a * (1 - p_a), p_b * (1 - p_b)
    return math.sqrt((v_a + v_b - 2 * agreement * math.sqrt(v_a * v_b)) / n)


def expected_maximum(n: int) -> float:
    """Compute the expected maximum of n independent standard normal values."""
    x = np.linspace(-12, 12, 4801)
    density = n * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * ndtr(x) ** (n - 1)
    return float(np.trapezoid(x * density, x))


def seeds_to_decide(
    difference: float, *, seeds_error: float, pairs_error: float = 0.0
) -> int | None:
    """Compute the seeds per side that detect a difference at the 5 % level with 80 % power.

    Args:
        difference: the true difference.
        seeds_error: standard error of the difference with one seed per side.
        pairs_error: standard error that remains with any number of seeds; 0 on these test sets.

    Returns:
        At least 2; None if no number of seeds is enough.
    """
    room = (difference / _REACH_WITH_POWER) ** 2 - pairs_error**2
    return max(2, math.ceil(seeds_error**2 / room)) if room > 0 else None
