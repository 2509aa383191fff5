"""The results of an evaluation: scores, and the similarities behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["dev", "test"]


@dataclass(frozen=True)
class Score:
    """One number on one task."""

    task: str
    split: Split
    metric: str
    """`spearman` (SentEval's 'all'), `spearman_mean`, `spearman_wmean`, `pearson`, …; `accuracy`,
    `f1`; `kcc`, `ndcg`, `ndcg_exponential`; `alignment`, `uniformity`, `effective_rank`,
    `mean_cosine`."""
    value: float
    """Correlations, accuracies and ranking metrics are fractions."""
    identity: str
    """Hash of all that a comparison depends on; scores with equal identities are comparable."""


@dataclass(frozen=True, eq=False)
class Similarities:
    """The cosine of every pair of one task, for significance tests."""

    task: str
    split: Split
    identity: str
    cosines: NDArray[np.float32]
    """Shape (pairs,), in the order of the data; scores are computed from exactly these values."""
    gold: NDArray[np.float64]
    """Shape (pairs,)."""
    subsets: Mapping[str, int]
    """Number of pairs in each subset, in order."""
    data_sha256: str
    """Checksum of the pairs and their gold scores."""


@dataclass(frozen=True)
class Evaluation:
    """The results of one evaluation of one encoder."""

    tasks: frozenset[str]
    """The requested tasks, and `ranking` and `geometry` if they were requested."""
    scores: tuple[Score, ...]
    without_value: tuple[tuple[str, Split, str], ...] = ()
    """Task, split and metric of each score without a value, because all similarities or labels are
    equal, no sentence has enough partners to rank, or no pair is positive."""
    similarities: tuple[Similarities, ...] = ()
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings of which each identity is the hash."""
    by_width: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Spearman of each set of pairs on the first coordinates of the vectors, by their number."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of `encoding`, and of each task."""
