"""The winner's curse: how far the best of many values is above what it stands for."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from scipy.special import stdtrit  # Student's quantiles

from cse_platform.leaderboard.statistics.intervals import TAILS


@dataclass(frozen=True)
class WinnersCurse:
    """The best value of a search, and what its configuration reaches with other seeds."""

    best: float
    """The highest of the search: chosen, and so too high."""
    fresh: float
    """The mean over seeds that did not choose it."""
    seeds: int
    """How many these are."""
    excess: float
    """The best minus that mean: luck that does not come again."""
    low: float | None
    high: float | None
    """The ends of a 95 % interval of the excess; None where no configuration has two such seeds."""


def winners_curse(
    best: float, fresh: Sequence[float], others: Sequence[Sequence[float]] = ()
) -> WinnersCurse | None:
    r"""How far the best value of a search is above its configuration's mean over fresh seeds.

    .. math:: b - \bar x \pm t_{\nu, 0.975} \, s / \sqrt m

    for m fresh seeds with mean :math:`\bar x`. s is pooled over all configurations that have
    several fresh seeds, with :math:`\nu` degrees of freedom: it takes seeds to vary alike. The best
    value itself is taken as it is: it has happened, and the question is what it hides.

    Args:
        best: the highest value of the search.
        fresh: what its configuration reached with seeds that were begun after it was chosen.
        others: the same of other configurations.

    Returns:
        None without a fresh seed: then nothing is known of it.
    """
    if not fresh:
        return None
    groups = [group for group in (fresh, *others) if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    mean = fsum(fresh) / len(fresh)
    excess = best - mean
    if not freedom:
        return WinnersCurse(best, mean, len(fresh), excess, None, None)
    reach = float(stdtrit(freedom, TAILS[1])) * sqrt(
        fsum(map(_squares, groups)) / freedom / len(fresh)
    )
    return WinnersCurse(best, mean, len(fresh), excess, excess - reach, excess + reach)


def _squares(group: Sequence[float]) -> float:
    mean = fsum(group) / len(group)
    return fsum((value - mean) ** 2 for value in group)
