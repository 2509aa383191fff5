"""The paired bootstrap of Spearman's correlation over the pairs of a task, without re-sorting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cse_methods.data.shared_sentences import Groups, number_by_appearance

BLOCK = 64
"""Resamples per block, so that the counts and ranks of 5,000 pairs fit in a core's cache."""

Floats = NDArray[np.float64]
Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class TaskPairs:
    """The cosines of some encoders on the same pairs of sentences."""

    task: str
    gold: Floats
    """Graded similarities, shape (pairs,)."""
    cosines: NDArray[np.floating[Any]]
    """Shape (encoders, pairs); NaN counts as 0, as in scores."""
    groups: Groups | None = None
    """The group of each pair, shape (pairs,); by default, every pair is a group of its own."""

    def __post_init__(self) -> None:
        """Check that the shapes of gold, cosines and groups match.

        Raises:
            ValueError: if they do not.
        """
        gold, cosines = np.shape(self.gold), np.shape(self.cosines)
        if len(gold) != 1 or len(cosines) != 2 or gold != cosines[1:] or gold == (0,):
            raise ValueError(
                f"{self.task}: expected gold (pairs,) and cosines (encoders, pairs) of one length "
                f">= 1, got shapes {gold} and {cosines}"
            )
        if self.groups is not None and np.shape(self.groups) != gold:
            raise ValueError(
                f"{self.task}: expected a group for each of {gold[0]} pairs, "
                f"got shape {np.shape(self.groups)}"
            )


def spearman_draws(
    task_pairs: TaskPairs,
    *,
    resamples: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> Floats:
    """Compute Spearman of each encoder in resamples of a task's groups of pairs, with replacement.

    A resample is a vector of counts: how often each pair was drawn. Pairs of one group are drawn
    together, so that resamples of unequal groups differ in size. The values are sorted only once:
    in each resample, their mid-ranks follow from running sums of the counts. The correlation of
    these ranks, weighted by the counts, is exactly what scipy.stats.spearmanr gives for the
    resampled pairs, as all sums are of integers.

    The resamples depend only on `seed` and the task's id, gold and groups: all encoders get the
    same ones, in this call and any other, and fewer resamples are a prefix of more.

    A draw is 0 if all gold values or all cosines in its resample are equal. `progress` is called
    after each block with the number of correlations computed since the last call; they sum to
    encoders x resamples.

    Returns:
        Shape (encoders, resamples), in [-1, 1].

    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, sections 6 and 13. Davison and
        Hinkley 1997, Bootstrap Methods and their Application, section 3.8, for groups.
    """
    # Equal gold sorts equally, so that the counts refer to the same pairs in every call; in this
    # order, pairs of equal gold are adjacent.
    by_gold = np.argsort(task_pairs.gold, kind="stable")
    gold = _Order(task_pairs.gold[by_gold])
    encoders = [_Order(cosines[by_gold]) for cosines in task_pairs.cosines]
    groups = np.arange(len(by_gold))
    if task_pairs.groups is not None:
        groups = number_by_appearance(task_pairs.groups[by_gold])
    draws = np.empty((len(encoders), resamples))
    rng = np.random.default_rng([seed, *task_pairs.task.encode()])
    for start in range(0, resamples, BLOCK):
        counts = _draw_counts(groups, rng)
        block = draws[:, start : start + BLOCK]
        block[:] = _compute_correlations(counts, gold, encoders)[:, : block.shape[1]]
        if progress is not None:
            progress(block.size)
    return draws


class _Order:
    """The distinct values of pairs in ascending order, with the pairs that have each value."""

    def __init__(self, values: NDArray[np.floating[Any]]) -> None:
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


def _compute_correlations(counts: Ints, gold: _Order, encoders: Sequence[_Order]) -> Floats:
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
