"""How far the mean over a few seeds may be off, as draws."""

import numpy as np

from cse_platform.leaderboard.statistics.resampling import Floats


def seed_errors(scores: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    r"""Draws of the errors of the means over n seeds: multivariate t with n - 1 degrees of freedom.

    .. math:: e = \frac{D^\top z}{\sqrt{n (n-1)}} \Big/ \sqrt{\chi^2_{n-1} / (n-1)}, \quad
              z \sim N(0, I_n)

    where :math:`D` are the scores minus their means. A draw's tasks move together, as a seed's
    do: each task's errors are :math:`t_{n-1} s / \sqrt n` with its own :math:`s`, and so are those
    of the average over tasks, with the :math:`s` of the seeds' averages.

    Drawing seeds with replacement instead would be too narrow for the two to five there are, by
    :math:`\sqrt{(n-1)/n}` and by t's tails. Scores have the shape (seeds, tasks), of at least two
    seeds.

    Returns:
        Shape (tasks, resamples), around 0.
    """
    n = len(scores)
    normal = rng.standard_normal((resamples, n)) @ (scores - scores.mean(axis=0))
    unsure = np.sqrt(rng.chisquare(n - 1, resamples) / (n - 1))
    errors: Floats = (normal / (np.sqrt(n * (n - 1)) * unsure[:, None])).T
    return errors
