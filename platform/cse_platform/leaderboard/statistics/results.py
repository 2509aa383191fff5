"""The results of the statistics: intervals, ranks, comparisons. Scores are fractions."""

from dataclasses import dataclass
from typing import Literal

Spread = Literal["seeds", "pairs"]
"""What an interval covers: seeds, by Student's t, or pairs, by a bootstrap for a single seed, which
does not cover the spread over seeds.
"""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of the true value, for the spread that `over` names."""

    low: float
    high: float
    over: Spread


@dataclass(frozen=True)
class RankInterval:
    """The 2.5 to 97.5 percentile of a row's ranks over joint resamples; 1 is the best."""

    best: int
    worst: int
    among: int
    """The number of rows that were ranked."""


@dataclass(frozen=True)
class TaskComparison:
    """The comparison of A with B on one task, or on the average over them."""

    task: str
    mean_a: float
    mean_b: float
    effect: float
    """Mean of A minus mean of B."""
    interval: Interval | None
    """The interval of the effect, by the paired bootstrap; None for one seed without pairs."""
    p: float | None
    """Two-sided p value of no difference, by the same bootstrap."""
    p_holm: float | None = None
    """The p after Holm's correction over the tasks, without the average."""
    williams_t: float | None = None
    """Williams's T2 for two correlations with the same gold; None without pairs and for the
    average.
    """
    williams_p: float | None = None
    """Two-sided, with n - 3 degrees of freedom for n pairs."""
    williams_p_holm: float | None = None
    pairs: int | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of A with B, by task and on average."""

    a: str
    b: str
    n_a: int
    """The number of seeds of A."""
    n_b: int
    tasks: tuple[TaskComparison, ...]
    average: TaskComparison | None
    """The comparison on the average over `tasks`, if they are the whole family."""
    notes: tuple[str, ...] = ()
    """The limits of the comparison, such as texts read differently, no pairs, single seeds."""
    told: tuple[str, ...] = ()
    """Descriptions of A and B: configuration, backbone, dev set, seeds."""


@dataclass(frozen=True)
class Matrix:
    """The comparison of all rows on the average over the tasks; rows are A, columns B."""

    names: tuple[str, ...]
    effects: tuple[tuple[float, ...], ...]
    """Mean of the row minus mean of the column."""
    p: tuple[tuple[float | None, ...], ...]
    """Two-sided p value of no difference; None on the diagonal, and for a single seed without
    pairs.
    """
    p_holm: tuple[tuple[float | None, ...], ...]
    """The p after Holm's correction over all unordered pairs."""
    notes: tuple[str, ...] = ()
    """The limits of the comparisons."""
    tasks: tuple[str, ...] = ()
    """The tasks that the means are over."""
    told: tuple[str, ...] = ()
    """A description of each name: configuration, backbone, dev set, seeds."""
    single: tuple[str, ...] = ()
    """Names with a single seed, whose spread over seeds no p covers."""
