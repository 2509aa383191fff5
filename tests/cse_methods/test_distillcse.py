from math import log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from started_papers import configured
from torch import Tensor

from cse_methods.errors import TrainingError
from cse_methods.losses.group_shuffling import group_ends, shuffle_by_rank, shuffle_ranks
from cse_methods.papers.distillcse import DistillCSE, weigh_teachers
from cse_methods.training.student import Batch

FIRST = torch.tensor([[1.0, 0], [0, 1], [0, 1]])
TEACHER = np.array([[2, 0], [0, 1], [3, 0]], dtype=np.float32)


def started(*teachers: np.ndarray, **settings: Any) -> DistillCSE:
    names = ["mini"] * len(teachers)
    return DistillCSE(configured("distillcse", teachers=names, **settings), teachers)


def distilled(objective: DistillCSE, first: Tensor, *, step: int = 1) -> float:
    batch = Batch([""] * len(first), np.arange(len(first)), step=step)
    parts = objective.losses(first, first.flip(0), batch=batch)
    assert parts.keys() == {"contrastive", "distilled"}
    return parts["distilled"].item()


def test_the_distillation_equals_a_hand_worked_one() -> None:
    """Of each row, the two others: the teacher's cosines are 0 and 1 or equal, and so its shares.

    A teacher's cosine of 1 counts thrice one of 0, a student's twice.
    """
    taus = {"teacher_temperature": 1 / log(3), "student_temperature": 1 / log(2)}
    rows = (
        -(1 / 4 * log(1 / 2) + 3 / 4 * log(1 / 2)),
        -(1 / 2 * log(1 / 3) + 1 / 2 * log(2 / 3)),
        -(3 / 4 * log(1 / 3) + 1 / 4 * log(2 / 3)),
    )
    plain = started(TEACHER, group_share=None, distill_weight=2, **taus)
    assert distilled(plain, FIRST) == pytest.approx(2 * sum(rows) / 3)
    # Whole rows shuffled: the two similarities of a row stand as they are, or changed about.
    changed = (rows[0], rows[1], -(1 / 4 * log(1 / 3) + 3 / 4 * log(2 / 3)))
    possible = [2 * (rows[0] + rows[1] + third) / 3 for third in (rows[2], changed[2])]
    shuffling = started(TEACHER, group_share=1, distill_weight=2, **taus)
    found = [distilled(shuffling, FIRST, step=step) for step in range(1, 9)]
    assert {round(value, 5) for value in found} == {round(value, 5) for value in possible}
    assert found == [distilled(shuffling, FIRST, step=step) for step in range(1, 9)]


def test_of_two_sentences_there_is_nothing_to_distil() -> None:
    assert distilled(started(TEACHER), FIRST[:2]) == 0


def test_shuffling_leaves_the_stream_of_dropout_alone() -> None:
    before = torch.get_rng_state()
    distilled(started(TEACHER, group_share=0.5), FIRST)
    assert torch.equal(torch.get_rng_state(), before)


def test_teachers_of_one_width_weigh_the_same_and_of_two_by_alpha() -> None:
    assert weigh_teachers([768], alpha=0.3) == (1,)
    assert weigh_teachers([768] * 3, alpha=0.3) == pytest.approx((1 / 3,) * 3)
    assert weigh_teachers([768, 1024, 768], alpha=0.3) == pytest.approx((0.15, 0.7, 0.15))
    assert weigh_teachers([1024, 768], alpha=0.3) == pytest.approx((0.7, 0.3))
    with pytest.raises(TrainingError, match="the widths 2, 3, 4, and alpha weighs two"):
        weigh_teachers([4, 3, 2], alpha=0.3)
    wide = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.float32)
    alone = started(TEACHER, group_share=None)
    both = started(TEACHER, wide, group_share=None, alpha=1.0)
    assert distilled(both, FIRST) == pytest.approx(distilled(alone, FIRST))


def test_groups_end_where_probabilities_reach_a_multiple_of_the_share() -> None:
    """Four equally alike sentences have a quarter each: ends are exact, and count what is below."""
    equal = torch.ones(5, 5, dtype=torch.float64)
    for share, ends in [(1.0, [4]), (0.5, [1, 4]), (0.3, [1, 2, 3, 4]), (0.7, [2, 4])]:
        assert group_ends(equal, share=share).tolist() == [ends] * 5
    # The first of two has e / (e + 1) = 0.73: most groups are empty.
    first = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 1, 0]])
    assert group_ends(first, share=0.25).tolist() == [[0, 0, 1, 2]] * 3
    assert group_ends(torch.eye(2), share=0.5).tolist() == [[0, 1]] * 2
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share must be above 0 and at most 1"):
            group_ends(equal, share=share)
    with pytest.raises(ValidationError, match="group_share"):
        configured("distillcse", teachers=["mini"], group_share=0)


def test_ranks_are_shuffled_by_the_draws_of_their_group() -> None:
    draws = torch.tensor([[0.9, 0.5, 0.1, 0.3]])
    assert shuffle_ranks(torch.tensor([[1, 4]]), draws).tolist() == [[0, 2, 3, 1]]
    assert shuffle_ranks(torch.tensor([[0, 2, 2, 4]]), draws).tolist() == [[1, 0, 2, 3]]


@given(seed=st.integers(0, 1000), size=st.integers(2, 9), share=st.floats(0.01, 1))
def test_no_rank_leaves_its_group_and_equals_stay_in_order(seed, size, share) -> None:
    draw = torch.Generator().manual_seed(seed)
    teacher = torch.randint(3, (size, size), generator=draw).float()
    ends = group_ends(teacher, share=share)
    shuffled = shuffle_ranks(ends, torch.rand(size, size - 1, generator=draw))
    ranks = torch.arange(size - 1).repeat(size, 1)
    groups = torch.searchsorted(ends, ranks, right=True)
    assert torch.equal(groups.gather(1, shuffled), groups)
    assert torch.equal(shuffled.sort(dim=1).values, ranks)
    student = torch.rand(size, size, generator=draw)
    assert torch.equal(shuffle_by_rank(student, teacher, ranks), student)
