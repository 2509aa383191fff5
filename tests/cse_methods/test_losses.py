"""The losses where no golden value reaches: extremes, constants, and what they refuse."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import get_args

import pytest
import torch
from torch import Tensor, ones

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.multi_positive import MultiPositive, multi_positive
from cse_methods.losses.ranking_consistency import ranking_consistency
from cse_methods.losses.segments import (
    Negatives,
    SameSequence,
    entailment,
    local_contrast,
    pool_segments,
)
from cse_methods.losses.similarity import cosine_matrix

OF_LISTS = partial(list_net, student_temperature=0.1, teacher_temperature=0.05)
RANK_LOSSES = (
    *(OF_LISTS, partial(OF_LISTS, exclude_positive=False)),
    *(partial(list_mle, temperature=0.1, exclude_positive=how) for how in (False, True)),
)
FORMS = get_args(MultiPositive)
OWNERS = torch.tensor([0, 0, 1])
"""The sequence of each of three segments."""


def views(seed: int, size: int, *, count: int = 2) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, 5, generator=draw, dtype=torch.float64))


def is_finite(loss: Tensor, *leaves: Tensor) -> bool:
    """The loss and its gradients."""
    loss.backward()
    values = [loss, *(leaf.grad for leaf in leaves)]
    return all(value is not None and bool(value.isfinite().all()) for value in values)


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
    assert loss.item() == pytest.approx(math.log(math.e + 2) - 1)
    assert is_finite(loss, axes)


def test_the_queue_receives_no_gradient_and_an_empty_one_is_none() -> None:
    first, second, queue = (view.requires_grad_() for view in views(0, 4, count=3))
    empty = info_nce(first, second, temperature=0.1, queue=queue[:0])
    assert empty.item() == info_nce(first, second, temperature=0.1).item()
    info_nce(first, second, temperature=0.1, queue=queue).backward()
    assert first.grad is not None
    assert queue.grad is None


def test_losses_are_finite_where_exponentials_are_not() -> None:
    # The teacher wants last what the student is surest of: logits 0 and 100 in each row.
    student = torch.tensor([[0.0, 1], [1, 0]], requires_grad=True)
    loss = list_mle(student, torch.eye(2), temperature=0.01)
    assert loss.item() == pytest.approx(100)
    assert is_finite(loss, student)
    for form in FORMS:
        axes = torch.eye(2, requires_grad=True)
        loss = multi_positive(axes, [-axes, axes.flip(0)], temperature=1e-3, form=form)
        assert is_finite(loss, axes), form


def test_the_teacher_is_constant_and_sum_is_mean_times_batch() -> None:
    for loss in RANK_LOSSES:
        student, teacher = (matrix[:, :4].tanh().requires_grad_() for matrix in views(5, 4))
        mean = loss(student, teacher)
        mean.backward()
        assert teacher.grad is None
        assert loss(student, teacher, reduction="sum").item() == pytest.approx(4 * mean.item())


def test_the_weight_of_an_l2_form_is_a_constant() -> None:
    for form in [form for form in FORMS if form != "l1"]:
        first, *others = views(3, 5, count=3)
        loss = partial(multi_positive, first, others, temperature=0.1, form=form)
        assert abs(loss(weight=0.5).item() - loss().item()) == pytest.approx(math.log(2))


def test_segments_are_pooled_alike_in_any_order() -> None:
    rows, sequence = views(0, 6)[0], torch.tensor([0, 0, 0, 1, 2, 2])
    weights, order = torch.tensor([32, 32, 7, 20, 32, 11]), torch.tensor([3, 0, 5, 2, 4, 1])
    pooled = pool_segments(rows, sequence, weights)
    torch.testing.assert_close(pool_segments(rows[order], sequence[order], weights[order]), pooled)
    torch.testing.assert_close(pool_segments(rows, sequence, 7 * weights), pooled)


def test_one_segment_a_sequence_is_info_nce() -> None:
    first, second = views(0, 6)
    kinds = product(get_args(SameSequence), get_args(Negatives), get_args(NegativesFrom))
    for same, negatives, origin in kinds:
        expected = info_nce(first, second, temperature=0.2, negatives_from=origin)
        how = {"same_sequence": same, "negatives": negatives, "negatives_from": origin}
        found = local_contrast(first, second, torch.arange(6), temperature=0.2, **how).item()
        assert found == pytest.approx(expected.item()), how


def test_a_single_sequence_has_nothing_to_learn_from() -> None:
    for same in ("neither", "positive"):
        first, second = (view.requires_grad_() for view in views(0, 4))
        sequence = torch.zeros(4, dtype=torch.long)
        loss = local_contrast(first, second, sequence, temperature=0.05, same_sequence=same)
        pooled = pool_segments(first, sequence, None)
        loss = loss + entailment(first, pooled, sequence, temperature=0.05)
        loss.backward()
        assert loss.item() == pytest.approx(0, abs=1e-12)
        for view in (first, second):
            assert view.grad is not None
            assert view.grad.abs().max() < 1e-12  # and not NaN


def test_shapes_that_do_not_match() -> None:
    three, four, wide, none = ones(3, 2), ones(4, 2), ones(3, 5), ones(0, 2)
    zeros = torch.zeros(4, dtype=torch.long)
    table: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
        (cosine_matrix, (three, wide), r"got \(3, 2\) and \(3, 5\)"),
        (info_nce, (three, four), r"one shape \(B, D\), got \(3, 2\), \(4, 2\)"),
        (info_nce, (three[0], three[0]), r"one shape \(B, D\), got \(2,\), \(2,\)"),
        (info_nce, (none, none), r"B >= 1, got an empty batch \(0, 2\)"),
        (partial(info_nce, queue=wide), (three, three), r"got \(3, 2\) and \(3, 5\)"),
        (multi_positive, (three, [three, four]), r"got \(3, 2\), \(3, 2\), \(4, 2\)"),
        (multi_positive, (three, []), "one or more views of positives, got 0"),
        (local_contrast, (four, four, OWNERS), r"of each \(S,\), got \(4, 2\) and \(3,\)"),
        (local_contrast, (four, three, zeros), r"got \(4, 2\), \(3, 2\)"),
        (entailment, (four, four, OWNERS), r"of each \(S,\), got \(4, 2\) and \(3,\)"),
        (entailment, (four, four[:2], zeros + 2), "a segment of sequence 2, but only 2 sequences"),
    ]
    for loss, given, match in table:
        temperature = {} if loss is cosine_matrix else {"temperature": 1}
        with pytest.raises(ValueError, match=match):
            loss(*given, **temperature)
    for views_of, match in (((three, three, wide), r"\(3, 5\)"), ((none,) * 3, "an empty batch")):
        with pytest.raises(ValueError, match=match):
            bidirectional_margin(*views_of, low=0.1, high=0.3)


def test_segments_that_cannot_be_pooled() -> None:
    rows, weights = ones(3, 2), torch.tensor([3, 1, 0])
    table: list[tuple[Tensor, Tensor, Tensor | None, str]] = [
        (rows[:0], OWNERS[:0], None, r"S >= 1, .* got \(0, 2\) and \(0,\)"),
        (rows, OWNERS, ones(2), r"got \(2,\) weights for \(3,\) segments"),
        (rows, 2 * OWNERS, None, "sequence 1 has no segment with a weight above 0"),
        (rows, torch.arange(3), weights, "sequence 2 has no segment with a weight above 0"),
    ]
    for vectors, sequence, weights_of, match in table:
        with pytest.raises(ValueError, match=match):
            pool_segments(vectors, sequence, weights_of)


def test_lists_that_do_not_match() -> None:
    table: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        *(((3, 3), (4, 4)), ((3, 4), (3, 4)), ((1, 1), (1, 1)), ((3,), (3,))),
    ]
    for (student, teacher), loss in product(table, RANK_LOSSES):
        with pytest.raises(ValueError, match=r"B >= 2, got student \(.+\), teacher") as refused:
            loss(torch.zeros(student), torch.zeros(teacher))
        assert str(refused.value).endswith(f"got student {student}, teacher {teacher}")


def test_temperatures_that_cannot_divide() -> None:
    square = ones(3, 3)
    losses: list[Callable[..., Tensor]] = [
        *(partial(one, square, square) for one in (info_nce, list_mle)),
        *(partial(ranking_consistency, square), partial(multi_positive, square, [square])),
        partial(list_net, square, square, student_temperature=1),
        partial(local_contrast, square, square, OWNERS),
        partial(entailment, square, square[:2], OWNERS),
    ]
    for loss, value in product(losses, (0.0, -0.05, math.nan, 1e-40)):
        name = "teacher_temperature" if loss is losses[4] else "temperature"
        with pytest.raises(ValueError, match=f"{name} must be .*, got {value}"):
            loss(**{name: value})


def test_weights_and_bands_that_are_none() -> None:
    axes = torch.eye(2)
    for weight in (math.inf, math.nan):
        with pytest.raises(ValueError, match=f"hard_negative_weight must be .*, got {weight}"):
            info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=weight)
    for weight in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"weight must be above 0, got {weight}"):
            multi_positive(axes, [axes], temperature=1, weight=weight)
    for low, high in ((0.3, 0.1), (-0.1, 0.3), (math.nan, 0.3)):
        with pytest.raises(ValueError, match=f"must hold, got low={low}, high={high}"):
            bidirectional_margin(axes, axes, axes, low=low, high=high)
    with pytest.raises(ValueError, match=r"eps must be 0 or above, got -0\.1"):
        list_mle(axes, axes, temperature=1, eps=-0.1)
