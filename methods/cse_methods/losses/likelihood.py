"""The likelihood of vectors that a flow maps to a standard normal distribution."""

import math

from torch import Tensor


def log_likelihood(mapped: Tensor, log_determinant: Tensor) -> Tensor:
    r"""Compute the log density of vectors from what a flow maps them to.

    .. math:: \log N(z; 0, 1) + \log |\det \partial z / \partial x|

    Args:
        mapped: z, shape (B, D).
        log_determinant: a scalar, or one value for each vector.

    Returns:
        Shape (B,), in nats.

    Source:
        Li et al. 2020 (BERT-flow), as in its released code.
    """
    normal = -0.5 * (mapped.square() + math.log(2 * math.pi))
    return normal.sum(dim=1) + log_determinant


def bits_per_dimension(likelihood: Tensor, *, width: int) -> Tensor:
    """Compute the negative log-likelihood of vectors of `width` coordinates, in bits per one."""
    return -likelihood / (math.log(2) * width)
