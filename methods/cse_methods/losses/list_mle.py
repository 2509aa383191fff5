"""ListMLE: maximise the likelihood of the teacher's ranking under the student's scores."""

import math

import torch
from torch import Tensor

from cse_methods.losses.similarity import (
    Reduction,
    check_lists,
    check_temperature,
    reduce,
    without_positive,
)


def list_mle(
    student: Tensor,
    teacher: Tensor,
    *,
    temperature: float,
    exclude_positive: bool = False,
    reduction: Reduction = "mean",
    eps: float = 0.0,
) -> Tensor:
    r"""Compute the negative log-likelihood of the teacher's ranking in a Plackett-Luce model.

    For anchor :math:`i`, with :math:`y_1, \dots, y_n` the student's similarities divided by
    :math:`\tau` in the teacher's order, nearest sentence first,

    .. math:: L_i = \sum_k \Big( \log \sum_{l \ge k} e^{y_l} - y_k \Big)

    Args:
        student: similarities, shape (B, B), B >= 2; receives gradients.
        teacher: similarities, shape (B, B); only their order counts, the lower column wins ties.
        temperature: :math:`\tau` > 0.
        exclude_positive: exclude j = i, the second view of the anchor itself, from both lists.
        reduction: over anchors.
        eps: added to each sum, as a multiple of the row's largest exponential; the public RankCSE
            code has 1e-7, which matters if a row's logits spread over more than 16.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if the matrices are not both (B, B), or the temperature is not above 0.

    Source:
        Xia et al. 2008; for sentences Liu et al. 2023 (RankCSE), eq. 5.
    """
    check_lists(student=student, teacher=teacher)
    check_temperature("temperature", temperature)
    if exclude_positive:
        student, teacher = without_positive(student), without_positive(teacher)
    order = teacher.detach().argsort(dim=1, descending=True, stable=True)
    logits = student.gather(1, order) / temperature
    remaining = logits.flip(1).logcumsumexp(dim=1).flip(1)  # log of the sum over l >= k
    if eps:
        remaining = torch.logaddexp(remaining, logits.amax(dim=1, keepdim=True) + math.log(eps))
    return reduce((remaining - logits).sum(dim=1), reduction)
