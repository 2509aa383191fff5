"""DistillCSE: shuffle a student's similarities among those that its teacher finds about as alike.

The groups are of ranks: rank 0 is the sentence that is most like the anchor by the teacher.
"""

import torch
from torch import Tensor

from cse_methods.losses.similarity import check_lists, without_positive


def group_ends(teacher: Tensor, *, share: float) -> Tensor:
    r"""Compute where the groups of each anchor's ranking end.

    With :math:`c_r` the cumulative softmax of an anchor's similarities with the others, the largest
    first, group g ends before the first rank with :math:`c_r \ge (g + 1) p`. The softmax is of the
    similarities themselves, without a temperature, so that groups are of about equal size.

    Args:
        teacher: similarities, shape (B, B), B >= 2.
        share: :math:`p`, the probability of a group, in (0, 1].

    Returns:
        Integers in [0, B - 1], ascending in each row, shape (B, G); the last is B - 1. G is the
        smallest whole number with G p >= 1. Groups can be empty.

    Raises:
        ValueError: if the teacher's matrix is not (B, B), or the share is not in (0, 1].

    Source:
        Xu et al. 2023 (DistillCSE), as its released code computes it.
    """
    check_lists(teacher=teacher)
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share}")
    ranked = without_positive(teacher).sort(dim=1, descending=True).values
    cumulative = ranked.softmax(dim=1).cumsum(dim=1)
    count = int(1 / share)
    if count * share < 1:
        count += 1
    bounds = [(group + 1) * share for group in range(count)]
    ends = torch.stack([(cumulative < bound).sum(dim=1) for bound in bounds], dim=1)
    ends[:, -1] = ranked.shape[1]
    return ends


def shuffle_ranks(ends: Tensor, draws: Tensor) -> Tensor:
    """Permute the ranks of each anchor inside their groups.

    Args:
        ends: the ends of the groups, shape (B, G), as `group_ends` returns them.
        draws: random numbers in [0, 1), shape (B, B - 1); inside a group they are sorted.

    Returns:
        The rank that takes the place of each rank, integers, shape (B, B - 1).
    """
    ranks = torch.arange(draws.shape[1], device=ends.device).repeat(len(draws), 1)
    groups = torch.searchsorted(ends, ranks, right=True)  # (B, B - 1)
    return (groups + draws).argsort(dim=1)


def shuffle_by_rank(student: Tensor, teacher: Tensor, shuffled: Tensor) -> Tensor:
    """Move the student's similarities to where the teacher ranks another sentence.

    Where the teacher has the sentence of rank r, the result has the student's similarity with that
    of rank `shuffled[r]`. Equal similarities of the teacher are ranked in the order of the batch.

    Args:
        student: similarities, shape (B, B), B >= 2; receives gradients.
        teacher: similarities, shape (B, B).
        shuffled: a permutation of the ranks of each anchor, shape (B, B - 1).

    Returns:
        Shape (B, B), with the student's diagonal.

    Raises:
        ValueError: if the matrices are not both (B, B).
    """
    check_lists(student=student, teacher=teacher)
    own = torch.eye(len(teacher), dtype=torch.bool, device=teacher.device)
    ranking = teacher.masked_fill(own, -torch.inf).argsort(dim=1, descending=True, stable=True)
    moved = torch.cat([ranking[:, :-1].gather(1, shuffled), ranking[:, -1:]], dim=1)
    return torch.zeros_like(student).scatter(1, ranking, student.gather(1, moved))
