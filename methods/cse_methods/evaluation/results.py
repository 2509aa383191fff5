"""What an evaluation gives: scores, and the similarities behind them."""

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
    """Hash of everything that a comparison depends on: scores of one identity can be compared."""


@dataclass(frozen=True, eq=False)
class Similarities:
    """The cosine of every pair of one task: what a significance test needs."""

    task: str
    split: Split
    identity: str
    cosines: NDArray[np.float32]
    """Shape (pairs,), in the order of the data; the scores are computed from these very values."""
    gold: NDArray[np.float64]
    """Shape (pairs,)."""
    subsets: Mapping[str, int]
    """Pairs of each subset, in order."""
    data_sha256: str
    """Checksum of the pairs and their gold scores."""


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation of one encoder gave."""

    tasks: frozenset[str]
    """The tasks that were asked for, and `ranking` and `geometry` where they were."""
    scores: tuple[Score, ...]
    without_value: tuple[tuple[str, Split, str], ...] = ()
    """Task, split and metric of each score that has no value: all similarities or labels are
    equal, no sentence has enough partners to rank, or no pair is a positive."""
    similarities: tuple[Similarities, ...] = ()
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each identity is the hash of."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """`encoding`, and each task's own time."""
