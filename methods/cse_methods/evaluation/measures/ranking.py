"""How well similarities rank the partners of a sentence: Kendall's tau and NDCG per query.

Source: Liu et al. 2023 (RankCSE), appendix G. It leaves open what is fixed here: a query is a
sentence in more than three pairs, by default on either side of them; tau is tau-b, because labels
tie; NDCG has a log2 discount, uses the whole list, and is the mean over all orders of tied
predictions; all queries have the same weight.
"""

from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau

Side = Literal["either", "first"]
Gain = Literal["linear", "exponential"]
Sentence = TypeVar("Sentence", bound=Hashable)

MORE_THAN = 3
"""A sentence in more pairs than this is a query."""


def score_rankings(
    first: Sequence[Sentence], second: Sequence[Sentence], cosines: ArrayLike, gold: ArrayLike
) -> dict[str, float]:
    """Compute the means over the queries of a set of pairs, equally weighted; gold must be >= 0.

    A query whose labels or similarities are all equal has no tau, and one without a label above 0
    has no NDCG; they are left out of the respective mean.

    Returns:
        `kcc` in [-1, 1], `ndcg` (linear gain) and `ndcg_exponential` in [0, 1]; nan if no query
        is left, as in a set in which no sentence has enough partners.
    """
    similarities, labels = np.asarray(cosines), np.asarray(gold)
    lists = [(similarities[own], labels[own]) for own in queries(first, second).values()]
    return {
        "kcc": _average_known_values([kendall(*each) for each in lists]),
        "ndcg": _average_known_values([ndcg(*each) for each in lists]),
        "ndcg_exponential": _average_known_values(
            [ndcg(*each, gain="exponential") for each in lists]
        ),
    }


def queries(
    first: Sequence[Sentence], second: Sequence[Sentence], *, side: Side = "either"
) -> dict[Sentence, NDArray[np.int64]]:
    """Return the ascending row numbers of each sentence that has enough partners to rank."""
    if len(first) != len(second):
        raise ValueError(f"expected pairs, got {len(first)} and {len(second)} sentences")
    rows: dict[Sentence, list[int]] = {}
    for row, pair in enumerate(zip(first, second, strict=True)):
        for sentence in dict.fromkeys(pair if side == "either" else pair[:1]):
            rows.setdefault(sentence, []).append(row)
    return {query: np.array(own) for query, own in rows.items() if len(own) > MORE_THAN}


def kendall(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Compute Kendall's tau-b of one query's list, in [-1, 1]; nan if one side is constant."""
    guesses, labels = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    return float(kendalltau(guesses, labels, variant="b").statistic)


def ndcg(predicted: ArrayLike, gold: ArrayLike, *, gain: Gain = "linear") -> float:
    r"""Compute the normalised discounted cumulative gain of one query's whole list.

    .. math:: \frac{\sum_r g_{\pi(r)} / \log_2(r + 1)}{\sum_r g_{\pi^*(r)} / \log_2(r + 1)}

    with :math:`\pi` the order of the predictions, :math:`\pi^*` that of the labels, highest first.
    If predictions tie, the numerator is its mean over all their orders, so that the order of rows
    in a file does not matter.

    Args:
        predicted: similarities, shape (N,), N >= 1.
        gold: labels, >= 0, shape (N,).
        gain: the gain g of a label y is y ("linear") or 2^y - 1 ("exponential").

    Returns:
        In [0, 1]; nan if no label is above 0.

    ValueError if the two differ in shape or are empty.
    Source:
        McSherry and Najork 2008, for ties.
    """
    guesses, labels = np.asarray(predicted), np.asarray(gold, dtype=np.float64)
    if guesses.ndim != 1 or guesses.shape != labels.shape or not len(labels):
        raise ValueError(
            "expected two lists of one length N >= 1, "
            f"got shapes {guesses.shape} (predicted) and {labels.shape} (gold)"
        )
    gains = labels if gain == "linear" else np.exp2(labels) - 1
    discounts = 1 / np.log2(np.arange(2, len(gains) + 2))
    _, tie, sizes = np.unique(-guesses, return_inverse=True, return_counts=True)  # highest first
    # Each of the tied sentences is equally often at each of the tie's ranks.
    mean_gains = np.bincount(tie, weights=gains) / sizes
    gained = np.repeat(mean_gains, sizes) @ discounts
    best = np.sort(gains)[::-1] @ discounts
    return float(gained / best) if best > 0 else float("nan")


def _average_known_values(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
