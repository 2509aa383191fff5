"""The results of the statistics: intervals, ranks, comparisons. Scores are fractions."""

from dataclasses import dataclass
from typing import Literal

Spread = Literal["seeds", "pairs"]
"""The source of an interval: Student's t over seeds, or a bootstrap over pairs, which leaves out
how the seeds of a single one vary."""


@dataclass(frozen=True)
class Interval:
    """Where the true value lies with 95 %, as far as `over` shows."""

    low: float
    high: float
    over: Spread


@dataclass(frozen=True)
class RankInterval:
    """The 2.5 to 97.5 percentile of a row's ranks over joint resamples; 1 is the best."""

    best: int
    worst: int
    among: int
    """How many rows were ranked."""


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
    """Two-sided, that the effect is nil, by the same bootstrap."""
    p_holm: float | None = None
    """The p after Holm's correction over the tasks; the average is not among them."""
    williams_t: float | None = None
    """Williams's T2 for two correlations with the same gold; None without pairs, and for the
    average."""
    williams_p: float | None = None
    """Two-sided, with pairs - 3 degrees of freedom."""
    williams_p_holm: float | None = None
    pairs: int | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of A with B, by task and on average."""

    a: str
    b: str
    n_a: int
    """Seeds."""
    n_b: int
    tasks: tuple[TaskComparison, ...]
    average: TaskComparison | None
    """The comparison on the average over `tasks`, if they are the whole family."""
    notes: tuple[str, ...] = ()
    """The limits of the comparison: different reading, no pairs, single seeds."""
    told: tuple[str, ...] = ()
    """Descriptions of A and B: configuration, backbone, dev set, seeds."""


@dataclass(frozen=True)
class Matrix:
    """The comparison of all rows on the average over the tasks; rows are A, columns B."""

    names: tuple[str, ...]
    effects: tuple[tuple[float, ...], ...]
    """Mean of the row's minus mean of the column's."""
    p: tuple[tuple[float | None, ...], ...]
    """Two-sided, that the effect is nil; None on the diagonal, and where one seed and no pairs say
    nothing."""
    p_holm: tuple[tuple[float | None, ...], ...]
    """The p after Holm's correction over all unordered pairs."""
    notes: tuple[str, ...] = ()
    """The limits of the comparisons."""
    tasks: tuple[str, ...] = ()
    """The tasks that the means are over."""
    told: tuple[str, ...] = ()
    """A description of each name: configuration, backbone, dev set, seeds."""
    single: tuple[str, ...] = ()
    """Names of one seed: how their seeds vary is in no p."""
