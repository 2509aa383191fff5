"""Semantic textual similarity: correlations of cosines with human scores."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr

from cse_methods.metrics import spearman

Correlation = Callable[[NDArray[Any], NDArray[Any]], float]


def pearson(predicted: NDArray[Any], gold: NDArray[Any]) -> float:
    """Compute Pearson's correlation, in [-1, 1]; nan if one side is constant."""
    guesses, truth = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    if np.ptp(guesses) == 0 or np.ptp(truth) == 0:
        return math.nan
    return float(pearsonr(guesses, truth).statistic)


def correlations(
    cosines: NDArray[Any], gold: NDArray[Any], subsets: Mapping[str, int]
) -> dict[str, float]:
    """Compute what SentEval reports of an STS set, with Spearman's and Pearson's correlations.

    Args:
        cosines: of every pair, shape (pairs,), subset after subset.
        gold: human scores, shape (pairs,).
        subsets: number of pairs in each subset, in order.

    Returns:
        `spearman`: over all pairs in one list ('all'), the number that papers report;
        `spearman_mean`: the mean over subsets; `spearman_wmean`: the same, weighted by their
        sizes; and the three for `pearson`. Fractions in [-1, 1]; nan if one side is constant.

    ValueError if the sizes of subsets do not add up to the number of pairs.
    """
    if sum(subsets.values()) != len(gold) or len(cosines) != len(gold):
        raise ValueError(
            f"expected as many cosines and pairs of subsets as gold scores, {len(gold)}; "
            f"got {len(cosines)} and {sum(subsets.values())}"
        )
    scores: dict[str, float] = {}
    ends = np.cumsum(list(subsets.values()))[:-1]
    measures: dict[str, Correlation] = {"spearman": spearman, "pearson": pearson}
    for name, measure in measures.items():
        subset = zip(np.split(cosines, ends), np.split(gold, ends), strict=True)
        each = [measure(ours, theirs) for ours, theirs in subset]
        scores[name] = measure(cosines, gold)
        scores[f"{name}_mean"] = float(np.mean(each))
        scores[f"{name}_wmean"] = float(np.average(each, weights=list(subsets.values())))
    return scores
