"""The geometry of an embedding space: how evenly its directions are used."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.data.pairs import PairSet
from cse_methods.evaluation.measures.buckets import in_buckets
from cse_methods.metrics import alignment, uniformity
from cse_methods.training.dev_evaluation import SAME_MEANING

BIN_EDGES = np.linspace(-1, 1, 41)


def geometry(dev: PairSet, first: Tensor, second: Tensor) -> dict[str, float]:
    """Measure the geometry of an embedding space on a dev set.

    Args:
        dev: graded pairs.
        first: embeddings of the first sentences, shape (pairs, D).
        second: embeddings of the second sentences, shape (pairs, D).

    Returns:
        `alignment` over pairs with gold > 4, in [0, 4]; and over every sentence of every pair,
        `uniformity` in [-8, 0], `effective_rank` in [1, D] and `mean_cosine` in [-1, 1]. A value is
        nan if there is nothing to measure.
    """
    everything = torch.cat([first, second])
    positive = torch.from_numpy(dev.gold > SAME_MEANING)
    measures = {
        "uniformity": uniformity(everything),
        "effective_rank": effective_rank(everything),
        "mean_cosine": mean_cosine(everything),
    }
    pairs = first[positive], second[positive]
    return measures | {"alignment": alignment(*pairs) if positive.any() else math.nan}


def effective_rank(embeddings: Tensor) -> float:
    r"""Compute the effective number of directions over which the embeddings spread.

    .. math:: \exp\Bigl(-\sum_k p_k \log p_k\Bigr), \quad p_k = \sigma_k / \sum_j \sigma_j

    with :math:`\sigma_k` the singular values of the centred embeddings.

    Args:
        embeddings: shape (N, D), N >= 2.

    Returns:
        In [1, min(N - 1, D)]; nan if all embeddings are equal.

    Source:
        Roy and Vetterli 2007, definition 1.
    """
    centred = embeddings.double() - embeddings.double().mean(dim=0)
    values = torch.linalg.svdvals(centred)
    # For equal vectors only rounding errors remain, whose rank would be meaningless.
    if values[0] <= 1e-6 * embeddings.double().norm():
        return math.nan
    shares = values[values > 0] / values.sum()
    return float(torch.exp(-(shares * shares.log()).sum()))


def mean_cosine(embeddings: Tensor) -> float:
    """Compute the mean cosine over all pairs of different embeddings.

    It is 0 for evenly spread directions, and 1 for a single direction.

    Args:
        embeddings: shape (N, D), N >= 2.

    Source:
        Ethayarajh 2019, section 3.3 (anisotropy), over all pairs instead of sampled ones.
    """
    points = F.normalize(embeddings.double(), dim=1)
    count = len(points)
    # |sum of the points|^2 is the sum over all ordered pairs, including each point with itself.
    total = points.sum(dim=0).square().sum() - points.square().sum()
    return float(total / (count * (count - 1)))


def histogram(cosines: NDArray[Any], gold: NDArray[Any]) -> Mapping[str, list[int]]:
    """Count the cosines in each bin of `BIN_EDGES`, by bucket of gold scores, `0-1` to `4-5`."""
    by_bucket = {}
    for bucket, inside in in_buckets(gold).items():
        counts, _ = np.histogram(np.clip(cosines[inside], -1, 1), bins=BIN_EDGES)
        by_bucket[bucket] = counts.tolist()
    return by_bucket
