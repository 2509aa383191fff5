"""The losses by hand-worked value, by property, and by what they refuse."""

import math
from functools import partial

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.ranking_consistency import ranking_consistency
from cse_methods.losses.similarity import cosine_matrix

seeds, sizes = st.integers(0, 2**16), st.integers(2, 8)
RANK_LOSSES = {
    "list_net": partial(list_net, student_temperature=0.1, teacher_temperature=0.05),
    "list_net_all": partial(
        list_net, student_temperature=0.1, teacher_temperature=0.05, exclude_positive=False
    ),
    "list_mle": partial(list_mle, temperature=0.1),
    "list_mle_others": partial(list_mle, temperature=0.1, exclude_positive=True),
}


def lists(seed: int, size: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    both = torch.rand(2, size, size, generator=draw, dtype=torch.float64) * 2 - 1
    return both[0], both[1]


def views(seed: int, size: int, *, count: int = 2) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, 5, generator=draw, dtype=torch.float64))


def test_cosine_matrix_by_hand() -> None:
    first = torch.tensor([[0.03, 0.04], [0.0, 0.0]])
    second = torch.tensor([[1.0, 0.0], [0.0, -2.0], [6.0, 8.0]])
    expected = torch.tensor([[0.6, -0.8, 1.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(cosine_matrix(first, second), expected)


def test_cosine_matrix_stays_exact_in_mixed_precision() -> None:
    first, second = (view.float() for view in views(0, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = cosine_matrix(first, second)
    assert torch.equal(mixed, cosine_matrix(first, second))
    assert cosine_matrix(first.half(), second.half()).dtype == torch.float32


def test_a_weight_of_minus_infinity_leaves_the_own_hard_negative_out() -> None:
    # Beside the own positive, e, stand the other positive, 1, and the other's hard negative, 1.
    axes = torch.eye(2, requires_grad=True)
    loss = info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=-math.inf)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(math.e + 2) - 1)
    assert axes.grad is not None
    assert axes.grad.isfinite().all()


def test_weights_that_no_number_follows_from() -> None:
    table: list[float] = [math.inf, math.nan]
    for weight in table:
        axes = torch.eye(2)
        with pytest.raises(ValueError, match=f"hard_negative_weight must be .*, got {weight}"):
            info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=weight)


def test_list_mle_is_finite_where_exponentials_are_not() -> None:
    # The teacher wants last what the student is surest of: logits 0 and 100 in each row.
    student = torch.tensor([[0.0, 1], [1, 0]], requires_grad=True)
    loss = list_mle(student, torch.eye(2), temperature=0.01)
    loss.backward()
    assert loss.item() == pytest.approx(100)
    assert student.grad is not None
    assert student.grad.isfinite().all()


def test_the_teacher_is_constant_and_sum_is_mean_times_batch() -> None:
    for loss in RANK_LOSSES.values():
        student, teacher = (matrix.requires_grad_() for matrix in lists(5, 4))
        mean = loss(student, teacher)
        mean.backward()
        assert teacher.grad is None
        assert loss(student, teacher, reduction="sum").item() == pytest.approx(4 * mean.item())


def test_lists_that_do_not_match() -> None:
    table_of_shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 3), (4, 4)),
        ((3, 4), (3, 4)),
        ((1, 1), (1, 1)),
        ((3,), (3,)),
    ]
    for shapes in table_of_shapes:
        for loss in RANK_LOSSES.values():
            with pytest.raises(
                ValueError, match=r"B >= 2, got student \(.+\), teacher \(.+\)$"
            ) as refused:
                loss(torch.zeros(shapes[0]), torch.zeros(shapes[1]))
            assert f"student {shapes[0]}, teacher {shapes[1]}" in str(refused.value)


def test_temperatures_that_cannot_divide() -> None:
    table: list[float] = [0.0, -0.05, math.nan, 1e-40]
    for temperature in table:
        square = torch.zeros(3, 3)
        with pytest.raises(ValueError, match=f"temperature must be .*, got {temperature}"):
            info_nce(square, square, temperature=temperature)
        with pytest.raises(ValueError, match=f"teacher_temperature must be .*, got {temperature}"):
            list_net(square, square, student_temperature=1, teacher_temperature=temperature)
        with pytest.raises(ValueError, match=f"temperature must be .*, got {temperature}"):
            list_mle(square, square, temperature=temperature)
        with pytest.raises(ValueError, match=f"temperature must be .*, got {temperature}"):
            ranking_consistency(square, temperature=temperature)


def test_views_that_do_not_match() -> None:
    with pytest.raises(ValueError, match=r"one shape \(B, D\), got \(3, 2\), \(4, 2\)"):
        info_nce(torch.ones(3, 2), torch.ones(4, 2), temperature=1)
    with pytest.raises(ValueError, match=r"got \(3, 2\) and \(3, 5\)"):
        cosine_matrix(torch.ones(3, 2), torch.ones(3, 5))


def test_an_empty_batch() -> None:
    nothing = torch.ones(0, 2)
    with pytest.raises(ValueError, match=r"B >= 1, got an empty batch \(0, 2\)"):
        info_nce(nothing, nothing, temperature=1)
    with pytest.raises(ValueError, match=r"B >= 1, got an empty batch \(0, 2\)"):
        bidirectional_margin(nothing, nothing, nothing, low=0.1, high=0.3)


def test_a_negative_eps() -> None:
    with pytest.raises(ValueError, match=r"eps must be 0 or above, got -0\.1"):
        list_mle(torch.zeros(2, 2), torch.zeros(2, 2), temperature=1, eps=-0.1)
