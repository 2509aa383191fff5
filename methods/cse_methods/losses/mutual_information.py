"""IS-BERT's loss: mutual information between sentence vectors and their own word pieces."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def mutual_information(tokens: Tensor, mask: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
    r"""Compute the two expectations of the Jensen-Shannon bound on mutual information.

    With :math:`r` the dot product of a word piece's vector and a sentence's vector, and :math:`N`
    the number of word pieces in the batch,

    .. math::
        E^+ = \frac{1}{N} \sum_{own} (\log 2 - \mathrm{softplus}(-r)), \quad
        E^- = \frac{1}{N (B - 1)} \sum_{others} (\mathrm{softplus}(-r) + r - \log 2)

    where the first sum is over each piece with its own sentence, the second over each piece with
    every other sentence. The bound is :math:`E^+ - E^-`; training maximises it.

    Args:
        tokens: vectors of word pieces, shape (B, L, D), B >= 2.
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        sentences: vectors of the same sentences, shape (B, D).

    Returns:
        :math:`E^+`, at most log 2, and :math:`E^-`, at least -log 2; scalars, in nats.

    Source:
        Zhang et al. 2020 (IS-BERT), as in its released code.
    """
    real = mask.bool()
    pieces = mask.sum()
    products = tokens @ sentences.T  # (B, L, B)
    own = torch.eye(len(mask), dtype=torch.bool, device=mask.device).unsqueeze(1)  # (B, 1, B)
    softened = F.softplus(-products)
    inside = _sum_where(real.unsqueeze(2) & own, math.log(2) - softened)
    outside = _sum_where(real.unsqueeze(2) & ~own, softened + products - math.log(2))
    return inside / pieces, outside / (pieces * (len(mask) - 1))


def _sum_where(chosen: Tensor, values: Tensor) -> Tensor:
    """Sum the chosen values; boolean indexing would make the host wait for a GPU."""
    return torch.where(chosen, values, 0).sum()
