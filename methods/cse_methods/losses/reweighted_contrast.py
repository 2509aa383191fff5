"""MACL: a temperature that follows the alignment, and positives that all pull equally hard."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import check_temperature

_CERTAIN = 40.0
"""From this log-odds of the positive on, the loss of an anchor is 1 to the last digit."""


def alignment_temperature(
    positives: Tensor, *, temperature: float, alpha: float, a0: float
) -> Tensor:
    r"""Compute the temperature for a batch, :math:`\tau = t (1 + \alpha (A - A_0))`.

    Args:
        positives: cosines of positive pairs, whose mean is the alignment :math:`A`.
        temperature: :math:`t` > 0, the temperature at the alignment `a0`.
        alpha: how fast the temperature rises with the alignment.
        a0: :math:`A_0`.

    Returns:
        Scalar, without gradient.

    Raises:
        ValueError: if the result is not above 0.

    Source:
        Huang et al. 2023 (MACL).
    """
    alignment = positives.detach().mean()
    adapted = temperature * (1 + alpha * (alignment - a0))
    if not adapted > 0:
        raise ValueError(
            f"the temperature {temperature:g} * (1 + {alpha:g} * (A - {a0:g})) is {adapted:.3g} at "
            f"an alignment A = {alignment:.3g}, and must be above 0; take a smaller alpha or a0"
        )
    return adapted


def reweighted_contrast(
    positives: Tensor, negatives: Tensor, *, temperature: float | Tensor
) -> Tensor:
    r"""Compute a cross-entropy whose anchors are weighted by how unsure they are of the positive.

    With :math:`P_i` the softmax of anchor :math:`i`'s positive among its candidates,

    .. math:: L = -\frac{1}{B} \sum_i \frac{\log P_i}{1 - P_i}

    where the weight is constant. Then :math:`x_i`, the log-odds of :math:`P_i`, has the gradient
    -1 / B whatever :math:`P_i` is: so it is computed, and no rounding of :math:`P_i` matters.

    Args:
        positives: cosine of each anchor and its positive, shape (B,).
        negatives: cosines of each anchor and its negatives, shape (B, K), K >= 1.
        temperature: :math:`\tau` > 0; divides cosines; treated as constant.

    Returns:
        Scalar >= 1, which it nears as positives become certain.

    Raises:
        ValueError: if shapes do not fit, or the temperature is not above 0.

    Source:
        Huang et al. 2023 (MACL), whose released code gives NaN where :math:`P_i` rounds to 1.
    """
    check_temperature("temperature", temperature)
    if positives.dim() != 1 or negatives.shape[:-1] != positives.shape or not negatives.numel():
        raise ValueError(
            "expected positives (B,) and negatives (B, K), B and K >= 1, "
            f"got {tuple(positives.shape)} and {tuple(negatives.shape)}"
        )
    odds = positives / temperature - torch.logsumexp(negatives / temperature, dim=1)  # x, (B,)
    known = odds.detach().clamp(max=_CERTAIN)
    # P is the sigmoid of x, 1 - P that of -x.
    value = -F.logsigmoid(known) / torch.sigmoid(-known)
    return (value - (odds - odds.detach())).mean()
