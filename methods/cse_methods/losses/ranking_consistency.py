"""Ranking consistency: both views of a batch are to rank it alike."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.lists import Reduction, check_lists, check_temperature, reduce

_RELEASED_FLOOR = 1e-7


def ranking_consistency(
    similarities: Tensor,
    other: Tensor | None = None,
    *,
    temperature: float,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the Jensen-Shannon divergence between the two views' top-one distributions.

    With :math:`p_i, q_i` the softmax of row :math:`i` of :math:`S / \tau` and of
    :math:`S' / \tau`, and :math:`m_i` their mean,

    .. math:: L = \frac{1}{2 B} \sum_i \mathrm{KL}(p_i \| m_i) + \mathrm{KL}(q_i \| m_i)

    Args:
        similarities: :math:`S`, first view against second, shape (B, B); receives gradients.
        other: :math:`S'`, second view against first, shape (B, B); receives gradients. None is
            the transpose of `similarities`, as it always is for a symmetric similarity.
        temperature: :math:`\tau` > 0.
        reduction: over anchors.

    Returns:
        Scalar, in nats; with "mean" in [0, ln 2], 0 if both distributions agree.

    Raises:
        ValueError: if the matrices are not both (B, B), or the temperature is not above 0.

    Source:
        Liu et al. 2023 (RankCSE), eq. 2.
    """
    first, second = _log_distributions(similarities, other, temperature)
    mixture = torch.logaddexp(first, second) - math.log(2)
    divergence = first.exp() * (first - mixture) + second.exp() * (second - mixture)
    return reduce(divergence.sum(dim=1) / 2, reduction)


def released_consistency(
    similarities: Tensor, other: Tensor | None = None, *, temperature: float
) -> Tensor:
    """Compute what the public RankCSE code has in place of eq. 2; for reproduction only.

    That code clamps the logarithm of the mixture to a constant (1e-7), so that only minus the mean
    entropy of the two distributions is left: negative, and lowest if both are flat, whether they
    agree or not.

    Args:
        similarities: first view against second, shape (B, B); receives gradients.
        other: second view against first, shape (B, B); None is the transpose.
        temperature: > 0.

    Returns:
        Scalar, in nats, averaged over anchors, in [-ln B, 0] except for the clamp.

    Raises:
        ValueError: if the matrices are not both (B, B), or the temperature is not above 0.

    Source:
        perceptiveshawty/RankCSE at 17c5226, a community implementation.
    """
    views = [log.exp() for log in _log_distributions(similarities, other, temperature)]
    first, second = (view.clamp_min(_RELEASED_FLOOR) for view in views)
    kept = first * (first.log() - _RELEASED_FLOOR) + second * (second.log() - _RELEASED_FLOOR)
    return kept.sum(dim=1).mean() / 2


def _log_distributions(
    similarities: Tensor, other: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    other = similarities.T if other is None else other
    check_lists(similarities=similarities, other=other)
    check_temperature("temperature", temperature)
    first = F.log_softmax(similarities / temperature, dim=1)
    return first, F.log_softmax(other / temperature, dim=1)
