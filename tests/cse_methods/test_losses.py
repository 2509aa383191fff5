"""The losses by hand-worked value, by property, and by what they refuse."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.ranking_consistency import ranking_consistency, released_consistency
from cse_methods.losses.similarity import cosine_matrix

seeds, sizes = st.integers(0, 2**16), st.integers(2, 8)
quick = settings(max_examples=25, deadline=None)

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


def test_info_nce_by_hand() -> None:
    # Cosines 1 with the own positive, 0 with the other: ln(e + 1) - 1 at temperature 1.
    axes = torch.eye(2)
    assert info_nce(axes, axes, temperature=1).item() == pytest.approx(math.log(math.e + 1) - 1)


def test_hard_negative_by_hand() -> None:
    # Own hard negative has cosine 1, weight ln 2 and so 2 e; the other's has cosine 0 and so 1.
    axes = torch.eye(2)
    loss = info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=math.log(2))
    assert loss.item() == pytest.approx(math.log(math.e + 1 + 2 * math.e + 1) - 1)


@pytest.mark.parametrize("weight", [0.1, -3.7, 20.0])
def test_hard_negatives_in_double_precision(weight: float) -> None:
    first, second, hard = views(2, 4, count=3)
    logits = torch.cat([cosine_matrix(first, view) for view in (second, hard)], dim=1) / 0.1
    for row in range(4):
        logits[row, 4 + row] += weight
    expected = (logits.logsumexp(dim=1) - logits[:, :4].diagonal()).mean()
    loss = info_nce(first, second, temperature=0.1, negatives=hard, hard_negative_weight=weight)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-14)


def test_a_weight_of_minus_infinity_leaves_the_own_hard_negative_out() -> None:
    # Beside the own positive, e, stand the other positive, 1, and the other's hard negative, 1.
    axes = torch.eye(2, requires_grad=True)
    loss = info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=-math.inf)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(math.e + 2) - 1)
    assert axes.grad is not None
    assert axes.grad.isfinite().all()


@pytest.mark.parametrize("weight", [math.inf, math.nan])
def test_weights_that_no_number_follows_from(weight: float) -> None:
    axes = torch.eye(2)
    with pytest.raises(ValueError, match=f"hard_negative_weight must be .*, got {weight}"):
        info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=weight)


def test_info_nce_looks_from_anchors_only() -> None:
    first, second = views(1, 5)
    forth, back = info_nce(first, second, temperature=0.1), info_nce(second, first, temperature=0.1)
    assert forth.item() != pytest.approx(back.item())


def test_list_net_by_hand() -> None:
    # Each anchor ranks two others. Teacher: 1/2, 1/2. Student: logits 0 and ln 3, so 1/4, 3/4.
    student = 0.05 * math.log(3) * torch.tensor([[0.0, 0, 1], [0, 0, 1], [0, 1, 0]])
    expected = -(math.log(1 / 4) + math.log(3 / 4)) / 2
    loss = list_net(student, torch.zeros(3, 3), student_temperature=0.05, teacher_temperature=0.1)
    assert loss.item() == pytest.approx(expected)


def test_list_mle_by_hand() -> None:
    # Teacher's order in each row: own sentence, then the other. Student's odds 1 : 3.
    student = math.log(3) * torch.tensor([[0.0, 1], [1, 0]])
    loss = list_mle(student, torch.eye(2), temperature=1)
    assert loss.item() == pytest.approx(math.log(4))  # the second choice is certain


def test_consistency_by_hand() -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4), m = (3/8, 5/8), in both rows.
    flat, tilted = torch.zeros(2, 2), math.log(3) * torch.tensor([[0.0, 1], [0, 1]])
    to_p = math.log((1 / 2) / (3 / 8)) / 2 + math.log((1 / 2) / (5 / 8)) / 2
    to_q = math.log((1 / 4) / (3 / 8)) / 4 + 3 * math.log((3 / 4) / (5 / 8)) / 4
    loss = ranking_consistency(flat, tilted, temperature=1)
    assert loss.item() == pytest.approx((to_p + to_q) / 2, rel=1e-5)


def test_the_released_consistency_rewards_flat_rankings_that_disagree() -> None:
    sharp, flat = torch.tensor([[5.0, 0], [0, 5]]), torch.zeros(2, 2)
    agree, neither = (released_consistency(s, s, temperature=1).item() for s in (sharp, flat))
    assert neither < agree < 0
    assert neither == pytest.approx(-math.log(2), rel=1e-5)


@quick
@given(seed=seeds, size=sizes)
def test_the_order_of_the_batch_does_not_matter(seed: int, size: int) -> None:
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    first, second, hard = views(seed, size, count=3)
    student, teacher = lists(seed, size)
    loss = info_nce(first, second, temperature=0.1, negatives=hard)
    mixed = info_nce(first[order], second[order], temperature=0.1, negatives=hard[order])
    assert mixed.item() == pytest.approx(loss.item())
    for rank in RANK_LOSSES.values():
        mixed = rank(student[order][:, order], teacher[order][:, order])
        assert mixed.item() == pytest.approx(rank(student, teacher).item())
    mixed = ranking_consistency(student[order][:, order], temperature=0.1)
    assert mixed.item() == pytest.approx(ranking_consistency(student, temperature=0.1).item())


@quick
@given(seed=seeds, size=st.integers(3, 8))
def test_own_ranking_is_the_minimum_of_list_net(seed: int, size: int) -> None:
    student, teacher = lists(seed, size)
    loss = partial(list_net, student_temperature=0.1, teacher_temperature=0.1)
    rows = teacher[~torch.eye(size, dtype=torch.bool)].view(size, -1) / 0.1
    entropy = torch.distributions.Categorical(logits=rows).entropy().mean().item()
    assert loss(teacher, teacher).item() == pytest.approx(entropy)
    assert loss(student, teacher).item() >= entropy


@quick
@given(seed=seeds, size=sizes)
def test_list_mle_is_least_in_the_teacher_s_order(seed: int, size: int) -> None:
    student, teacher = lists(seed, size)
    ordered = student.sort(dim=1).values.gather(1, teacher.argsort(dim=1).argsort(dim=1))
    best, other = (list_mle(s, teacher, temperature=0.5).item() for s in (ordered, student))
    assert 0 <= best <= other + 1e-12


@quick
@given(seed=seeds, size=sizes, temperature=st.floats(0.01, 10))
def test_consistency_lies_between_agreement_and_ln_2(
    seed: int, size: int, temperature: float
) -> None:
    first, second = lists(seed, size)
    loss = partial(ranking_consistency, temperature=temperature)
    assert 0 <= loss(first, second).item() <= math.log(2) + 1e-12
    assert loss(first, second).item() == pytest.approx(loss(second, first).item())
    assert loss(first, first).item() == pytest.approx(0, abs=1e-12)


def test_list_mle_is_finite_where_exponentials_are_not() -> None:
    # The teacher wants last what the student is surest of: logits 0 and 100 in each row.
    student = torch.tensor([[0.0, 1], [1, 0]], requires_grad=True)
    loss = list_mle(student, torch.eye(2), temperature=0.01)
    loss.backward()
    assert loss.item() == pytest.approx(100)
    assert student.grad is not None
    assert student.grad.isfinite().all()


@pytest.mark.parametrize(
    "loss",
    [
        *RANK_LOSSES.values(),
        partial(list_mle, temperature=0.1, eps=1e-7),
        partial(ranking_consistency, temperature=0.5),
        partial(released_consistency, temperature=0.5),
    ],
)
def test_gradients_of_similarities(loss: Callable[..., Tensor]) -> None:
    student, other = lists(3, 4)
    assert torch.autograd.gradcheck(lambda s: loss(s, other), student.requires_grad_())


def test_gradients_of_embeddings() -> None:
    tracked = [view.requires_grad_() for view in views(4, 3, count=3)]
    assert torch.autograd.gradcheck(
        lambda a, b, n: info_nce(a, b, temperature=0.2, negatives=n, hard_negative_weight=1),
        tracked,
    )


@pytest.mark.parametrize("loss", RANK_LOSSES.values(), ids=RANK_LOSSES)
def test_the_teacher_is_constant_and_sum_is_mean_times_batch(loss: Callable[..., Tensor]) -> None:
    student, teacher = (matrix.requires_grad_() for matrix in lists(5, 4))
    mean = loss(student, teacher)
    mean.backward()
    assert teacher.grad is None
    assert loss(student, teacher, reduction="sum").item() == pytest.approx(4 * mean.item())


@pytest.mark.parametrize("loss", RANK_LOSSES.values(), ids=RANK_LOSSES)
@pytest.mark.parametrize(
    "shapes", [((3, 3), (4, 4)), ((3, 4), (3, 4)), ((1, 1), (1, 1)), ((3,), (3,))]
)
def test_lists_that_do_not_match(
    loss: Callable[..., Tensor], shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    with pytest.raises(ValueError, match=r"B >= 2, got student \(.+\), teacher \(.+\)$") as refused:
        loss(torch.zeros(shapes[0]), torch.zeros(shapes[1]))
    assert f"student {shapes[0]}, teacher {shapes[1]}" in str(refused.value)


@pytest.mark.parametrize("temperature", [0.0, -0.05, math.nan, 1e-40])
def test_temperatures_that_cannot_divide(temperature: float) -> None:
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


def test_the_least_temperature_that_float32_divides_by() -> None:
    axes = torch.eye(2)
    assert info_nce(axes, axes, temperature=2e-38).item() == 0


def test_a_negative_eps() -> None:
    with pytest.raises(ValueError, match=r"eps must be 0 or above, got -0\.1"):
        list_mle(torch.zeros(2, 2), torch.zeros(2, 2), temperature=1, eps=-0.1)
