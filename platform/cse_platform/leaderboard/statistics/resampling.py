"""The paired bootstrap: scores of encoders on resamples of a task's examples."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups, number_by_appearance
from cse_methods.tasks import Statistic

Floats = NDArray[np.float64]
Ints = NDArray[np.signedinteger[Any]]
BLOCK = 64
"""Resamples per block, so that the counts and ranks of 5,000 pairs fit in a core's cache."""
Progress = Callable[[int, int], None]
"""Called with the number of scores computed since the last call, and the total."""


def draw_scores(
    task: str,
    statistic: Statistic,
    values: NDArray[np.floating[Any]],
    gold: Floats | None = None,
    groups: Groups | None = None,
    *,
    resamples: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> Floats:
    """Compute each encoder's score in resamples of a task's groups of examples, with replacement.

    A resample is a vector of counts: how often each example was drawn. Examples of one group are
    drawn together, so that resamples of unequal groups differ in size. Values are sorted only once,
    as ranks and precisions in each resample follow from running sums of the counts. Spearman's
    correlation is exactly what scipy.stats.spearmanr gives for the resampled pairs, as all sums are
    of integers; an average precision is that of scikit-learn, in which ties share a threshold.

    The resamples depend only on `seed` and the task's id, gold and groups: all encoders get the
    same ones, in this call and any other, and fewer resamples are a prefix of more.

    A draw is 0 if all gold scores or all values in its resample are equal, or no label is 1.

    Args:
        task: the task's id.
        statistic: what makes a score of the values.
        values: shape (encoders, examples); in a correlation NaN counts as 0, as in scores.
        gold: gold scores, or labels 0 and 1, shape (examples,); None for a mean.
        groups: the group of each example, shape (examples,); by default, every example is a group
            of its own.
        resamples: the number of draws.
        seed: of the resamples.
        progress: called after each block with the number of scores computed since the last call;
            they sum to encoders x resamples.

    Returns:
        Shape (encoders, resamples), in [-1, 1].

    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, sections 6 and 13. Davison and
        Hinkley 1997, Bootstrap Methods and their Application, section 3.8, for groups.
    """
    order = np.arange(values.shape[1])
    if statistic == "mean":
        compute = partial(_compute_means, values.astype(np.float64))
    else:
        assert gold is not None
        # Equal gold sorts equally, so that the counts refer to the same pairs in every call; in
        # this order, pairs of equal gold are adjacent.
        order = np.argsort(gold, kind="stable")
        gold, values = gold[order], values[:, order]
        if statistic == "spearman":
            compute = partial(_compute_correlations, _Order(gold), list(map(_Order, values)))
        else:
            compute = partial(_compute_precisions, gold, values)
    groups = np.arange(len(order)) if groups is None else number_by_appearance(groups[order])
    draws = np.empty((len(values), resamples))
    rng = np.random.default_rng([seed, *task.encode()])
    for start in range(0, resamples, BLOCK):
        counts = _draw_counts(groups, rng)
        block = draws[:, start : start + BLOCK]
        block[:] = compute(counts)[:, : block.shape[1]]
        if progress is not None:
            progress(block.size)
    return draws


class _Order:
    """The distinct values of pairs in ascending order, with the pairs that have each value."""

    def __init__(self, values: NDArray[np.floating[Any]]) -> None:
        from scipy.sparse import csr_array  # not needed to read a leaderboard

        known = np.nan_to_num(values, nan=0.0)
        _, self.value, sizes = np.unique(known, return_inverse=True, return_counts=True)
        pairs = np.argsort(self.value, kind="stable")
        ends = np.concatenate([[0], np.cumsum(sizes)])
        # (values, pairs) of 0 and 1: times the pairs' counts, it gives the values' counts.
        ones = np.ones(len(values), np.int16)  # a product has the type of the counts
        self.members: Any = csr_array((ones, pairs, ends), shape=(len(sizes), len(values)))
        self.tied = np.flatnonzero(sizes > 1)
        self.tied_pairs = np.flatnonzero(sizes[self.value] > 1)


def _choose_integer_type(pairs: int) -> type[np.int16 | np.int32]:
    """Choose the narrowest type for a number of pairs and for twice a centred rank.

    Most of the time is spent on reading and writing these, so narrow types are faster.
    """
    return np.int16 if pairs < 2**15 else np.int32


def _draw_counts(groups: Groups, rng: np.random.Generator) -> Ints:
    """Draw how often each pair is in each resample of a block, shape (pairs, BLOCK).

    Groups are numbered from 0 in order of appearance; with as many groups as pairs, each is one
    pair.
    """
    sizes = np.bincount(groups)
    times = np.empty((BLOCK, len(sizes)), _choose_integer_type(len(sizes)))
    for row, drawn in zip(times, rng.integers(0, len(sizes), size=times.shape), strict=True):
        row[:] = np.bincount(drawn, minlength=len(sizes))
    most = int((times @ sizes).max())
    counts: Ints = np.ascontiguousarray(times.T, _choose_integer_type(most))
    return counts if len(sizes) == len(groups) else counts.take(groups, axis=0)


def _compute_ranks(counts: Ints, pairs: Ints) -> Ints:
    """Compute twice the centred mid-ranks from the counts of values in ascending order.

    A value that is drawn c times after s smaller draws has the mid-rank s + (c + 1) / 2. With the
    running sum S = s + c, twice that minus twice the mean (pairs + 1) / 2 is 2 S - c - pairs: an
    integer, so that all sums of ranks are exact. `pairs` has the size of each resample, in the type
    of the counts.
    """
    # Packed integers: a running sum down the rows adds narrow integers one by one. The 64
    # resamples of a row lie side by side in int16 (or int32), so the same bytes are read as int64:
    # each holds four (or two) counts, and one addition adds all of them. This is exact as long as
    # no field overflows into its neighbour. No count is negative, and no running sum exceeds
    # `pairs`, which the type that `_choose_integer_type` has chosen can hold.
    ranks = np.cumsum(counts.view(np.int64), axis=0).view(counts.dtype)
    # Twice a sum may exceed the narrow type and wrap around. Integers wrap modulo 2^16 (or 2^32),
    # and subtraction does too: the final value lies in [-pairs, pairs], so it comes out right.
    ranks *= 2
    ranks -= counts
    ranks -= pairs
    return ranks


def _sum_cubes(counts: Ints) -> Floats:
    """Sum the cubes down the rows."""
    exact = counts.astype(np.float64)
    sums: Floats = np.einsum("vr,vr,vr->r", exact, exact, exact)
    return sums


def _compute_means(values: Floats, counts: Ints) -> Floats:
    """Compute the mean in each resample of a block, shape (encoders, BLOCK)."""
    means: Floats = values @ counts.astype(np.float64) / counts.sum(axis=0)
    return means


def _compute_precisions(labels: Floats, values: NDArray[Any], counts: Ints) -> Floats:
    """Compute the average precision in each resample of a block, shape (encoders, BLOCK).

    It is the mean, over the drawn examples with label 1, of the share of label 1 among the examples
    with no lower value; 0 if there is none.
    """
    times = counts.astype(np.float64)
    precisions = np.zeros((len(values), counts.shape[1]))
    for precision, row in zip(precisions, values, strict=True):
        falling = np.argsort(-row, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(row[falling])), len(row) - 1)
        drawn = np.cumsum(times[falling], axis=0)[ends]
        positive = np.cumsum(times[falling] * labels[falling, None], axis=0)[ends]
        gained = np.diff(positive, axis=0, prepend=0)
        # Before the first example that was drawn, nothing is gained.
        products = (gained * positive / np.maximum(drawn, 1)).sum(axis=0)
        np.divide(products, positive[-1], out=precision, where=positive[-1] > 0)
    return precisions


def _compute_correlations(gold: _Order, encoders: Sequence[_Order], counts: Ints) -> Floats:
    """Compute Spearman in each resample of a block, shape (encoders, BLOCK); 0 if undefined."""
    pairs: Ints = counts.sum(axis=0, dtype=counts.dtype)
    cubes = pairs.astype(np.float64) ** 3
    gold_counts: Ints = gold.members @ counts
    gold_ranks = _compute_ranks(gold_counts, pairs).astype(np.float64)
    gold_spread = cubes - _sum_cubes(gold_counts)
    singly = _sum_cubes(counts)
    wide: Ints = counts.astype(np.int32 if counts.dtype == np.int16 else np.int64)
    correlations = np.zeros((len(encoders), counts.shape[1]))
    for correlation, order in zip(correlations, encoders, strict=True):
        sizes: Ints = order.members @ counts
        ranks: Ints = _compute_ranks(sizes, pairs).take(order.value, axis=0)
        by_gold: Ints = gold.members @ (wide * ranks)
        products = np.einsum("vr,vr->r", by_gold.astype(np.float64), gold_ranks)
        # The squares of doubled ranks sum to a third of pairs^3 minus the cubes of the ties. For
        # values of a single pair, these are the cubes of the pairs' counts; only others are summed.
        ties = singly - _sum_cubes(counts[order.tied_pairs]) + _sum_cubes(sizes[order.tied])
        spread = np.sqrt((cubes - ties) * gold_spread)
        np.divide(3 * products, spread, out=correlation, where=spread > 0)
    return correlations
