"""SimCSE++'s second term: a coordinate of one view finds itself among those of the other."""

import torch
from torch import Tensor

from cse_methods.losses.similarity import check_temperature, check_views, find_positive

VARIANCE_FLOOR = 1e-5
"""Added to the variance of every coordinate, as batch normalisation does."""


def dimension_contrast(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    r"""Compute the cross-entropy of finding each coordinate in the other view.

    With :math:`n` the batch normalisation of a coordinate, without weight and bias (mean and biased
    variance of the batch),

    .. math:: M = \frac{n(z^1)^\top n(z^2)}{B \tau_d}, \qquad
              L = \frac{1}{D} \sum_c \left[ \log \sum_d e^{M_{cd}} - M_{cc} \right]

    Args:
        first: embeddings of the first view, shape (B, D).
        second: embeddings of the second view, shape (B, D).
        temperature: :math:`\tau_d` > 0; divides correlations.

    Returns:
        Scalar, in nats, >= 0; the logarithm of D for B = 1, where nothing varies.

    Raises:
        ValueError: if shapes differ, the batch is empty, or the temperature is not above 0.

    Source:
        Xu et al. 2023 (SimCSE++), the dimension-wise term of its released code.
    """
    check_temperature("temperature", temperature)
    check_views(first, second)
    first, second = _standardise_coordinates(first), _standardise_coordinates(second)
    logits = first.T @ second / (len(first) * temperature)  # (D, D)
    return find_positive(logits)


def _standardise_coordinates(rows: Tensor) -> Tensor:
    variance, mean = torch.var_mean(rows, dim=0, correction=0)
    return (rows - mean) / torch.sqrt(variance + VARIANCE_FLOOR)
