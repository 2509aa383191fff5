"""ListNet: learn a teacher's ranking through top-one distributions."""

import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import (
    Reduction,
    check_lists,
    check_temperature,
    reduce,
    without_positive,
)


def list_net(
    student: Tensor,
    teacher: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    exclude_positive: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the cross-entropy between the teacher's and the student's top-one distributions.

    For anchor :math:`i`, with :math:`s_{ij}, t_{ij}` the similarities of sentences :math:`i, j`,

    .. math:: L = -\frac{1}{B} \sum_i \sum_j
              \mathrm{softmax}_j(t_{ij} / \tau_3) \, \log \mathrm{softmax}_j(s_{ij} / \tau_2)

    Args:
        student: similarities, shape (B, B), B >= 2; receives gradients.
        teacher: similarities, shape (B, B); treated as constant.
        student_temperature: :math:`\tau_2` > 0; lower values sharpen the student's distribution.
        teacher_temperature: :math:`\tau_3` > 0.
        exclude_positive: exclude j = i, the second view of the anchor itself, from both lists.
        reduction: over anchors.

    Returns:
        Scalar, in nats. With "mean", never below the mean entropy of the teacher's distributions.

    Raises:
        ValueError: if the matrices are not both (B, B), or a temperature is not above 0.

    Source:
        Cao et al. 2007; for sentences Liu et al. 2023 (RankCSE), eq. 4; its footnote 1 excludes
        the positive pair.
    """
    check_lists(student=student, teacher=teacher)
    check_temperature("student_temperature", student_temperature)
    check_temperature("teacher_temperature", teacher_temperature)
    teacher = teacher.detach()
    if exclude_positive:
        student, teacher = without_positive(student), without_positive(teacher)
    target = F.softmax(teacher / teacher_temperature, dim=1)
    surprise = F.log_softmax(student / student_temperature, dim=1)
    return reduce(-(target * surprise).sum(dim=1), reduction)
