"""The results of an evaluation: scores, and the values by example behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cse_methods.tasks import Statistic

Split = Literal["dev", "test"]


@dataclass(frozen=True)
class Score:
    """One number on one task."""

    task: str
    split: Split
    metric: str
    """`spearman` (SentEval's 'all'), `spearman_mean`, `spearman_wmean`, `pearson`, …; `accuracy`,
    `f1`; `kcc`, `ndcg`, `ndcg_exponential`; `alignment`, `uniformity`, `effective_rank`,
    `mean_cosine`; `main_score` of a referenced task, whose settings say which metric that is."""
    value: float
    """Correlations, accuracies and ranking metrics are fractions."""
    identity: str
    """Hash of all that a comparison depends on; scores with equal identities are comparable."""


@dataclass(frozen=True, eq=False)
class Examples:
    """A value for every example of one task, for significance tests."""

    task: str
    split: Split
    identity: str
    statistic: Statistic
    """What makes a score of the values: their mean, Spearman's correlation with the gold scores, or
    the average precision of the labels ranked by them."""
    values: NDArray[np.float32]
    """Shape (examples,), in the order of the data: the cosine of a pair, the share of classifiers
    that are right about a text, the metric of a query."""
    gold: NDArray[np.float64] | None
    """Shape (examples,): gold scores, or labels 0 and 1; None for a mean."""
    subsets: Mapping[str, int]
    """Number of examples in each subset, in order."""
    data_sha256: str
    """Checksum of the data, gold scores and labels included."""


@dataclass(frozen=True)
class Evaluation:
    """The results of one evaluation of one encoder."""

    tasks: frozenset[str]
    """The requested tasks, and `ranking` and `geometry` if they were requested."""
    scores: tuple[Score, ...]
    without_value: tuple[tuple[str, Split, str], ...] = ()
    """Task, split and metric of each score without a value, because all similarities or labels are
    equal, no sentence has enough partners to rank, or no pair is positive."""
    examples: tuple[Examples, ...] = ()
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings of which each identity is the hash."""
    by_width: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Spearman of each set of pairs on the first coordinates of the vectors, by their number."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of `encoding`, and of each task."""
