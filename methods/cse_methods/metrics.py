"""Measures of embeddings, for training and evaluation: Spearman, alignment, uniformity."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

_BLOCK_ROWS = 1024


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosine of each row of a (N, D) matrix with its partner in another, shape (N,).

    A zero vector has cosine 0 with everything; a vector that holds NaN has NaN. In 64 bits, because
    the cosines of equal vectors are then exactly 1 after rounding: pairs of equal sentences tie,
    where noise in the last digit would rank them by what else was encoded.
    """
    return F.cosine_similarity(first.double(), second.double(), dim=1).float()


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Compute Spearman's rank correlation; ties share their mean rank.

    Args:
        predicted: similarities, shape (N,), N >= 2; NaN counts as 0, as in SentEval.
        gold: graded similarities, shape (N,).

    Returns:
        A fraction in [-1, 1]; nan where one side is constant, which has no ranks to compare.

    Raises:
        ValueError: if the two differ in shape or hold fewer than two values.
    """
    from scipy.stats import spearmanr  # takes a second, and a driver needs none

    guesses = np.nan_to_num(np.asarray(predicted, dtype=np.float64), nan=0.0)
    truth = np.asarray(gold, dtype=np.float64)
    if guesses.ndim != 1 or guesses.shape != truth.shape or len(truth) < 2:
        raise ValueError(
            "expected two lists of one length N >= 2, "
            f"got shapes {guesses.shape} (predicted) and {truth.shape} (gold)"
        )
    if np.ptp(guesses) == 0 or np.ptp(truth) == 0:
        return math.nan
    return float(spearmanr(guesses, truth).statistic)


def alignment(first: Tensor, second: Tensor) -> float:
    r"""Compute the mean squared distance of positive pairs on the unit sphere; less is better.

    Args:
        first: embeddings, shape (N, D), N >= 1; normalised here.
        second: embeddings, shape (N, D); row i is the positive of row i.

    Returns:
        In [0, 4]; nan where a vector is zero, which has no direction, or not finite.

    Raises:
        ValueError: if the two differ in shape or are empty.

    Source:
        Wang and Isola 2020, :math:`\alpha = 2`.
    """
    if first.dim() != 2 or first.shape != second.shape or len(first) == 0:
        raise ValueError(
            "expected pairs of embeddings (N, D), N >= 1, "
            f"got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    distances = _scale_to_sphere(first) - _scale_to_sphere(second)
    return float(distances.square().sum(dim=1).mean())


def uniformity(embeddings: Tensor) -> float:
    r"""Measure how evenly embeddings cover the unit sphere; less is better.

    .. math:: \log \frac{2}{N (N - 1)} \sum_{i < j} e^{-2 \|x_i - x_j\|^2}

    Args:
        embeddings: shape (N, D), N >= 2; normalised here.

    Returns:
        In [-8, 0]; 0 where all embeddings point one way; nan where one is zero, which has no
        direction, or not finite.

    Raises:
        ValueError: if there are fewer than two embeddings.

    Source:
        Wang and Isola 2020, :math:`t = 2`.
    """
    if embeddings.dim() != 2 or len(embeddings) < 2:
        raise ValueError(f"expected embeddings (N, D), N >= 2, got {tuple(embeddings.shape)}")
    points = _scale_to_sphere(embeddings)
    total = torch.zeros((), dtype=torch.float64, device=points.device)
    # A block of rows at a time: memory grows with N, and |x - y|^2 = 2 - 2 x.y needs no D.
    for start in range(0, len(points), _BLOCK_ROWS):
        block = points[start : start + _BLOCK_ROWS]
        kernel = torch.exp(4 * (block @ points[start:].T - 1))
        total += kernel.triu(diagonal=1).sum()
    pairs = len(points) * (len(points) - 1) / 2
    return float(torch.log(total / pairs))


def _scale_to_sphere(embeddings: Tensor) -> Tensor:
    """Scale rows to length 1, however short they are, in float64; a zero vector becomes NaN."""
    # `F.normalize` leaves a vector shorter than its epsilon inside the sphere, and 0 at its centre.
    rows = embeddings.double()
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths
