import math
from functools import partial
from itertools import product
from typing import get_args

import pytest
import torch
from torch import Tensor

from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.multi_positive import MultiPositive, multi_positive
from cse_methods.losses.reweighted_contrast import reweighted_contrast
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


def views(seed: int, size: int, *, count: int = 2) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, 5, generator=draw, dtype=torch.float64))


def is_finite(loss: Tensor, *leaves: Tensor) -> bool:
    """The loss and its gradients."""
    loss.backward()
    values = [loss, *(leaf.grad for leaf in leaves)]
    return all(value is not None and bool(value.isfinite().all()) for value in values)


def test_cosines_are_exact_in_mixed_precision_too() -> None:
    first = torch.tensor([[0.03, 0.04], [0.0, 0.0]])
    second = torch.tensor([[1.0, 0.0], [0.0, -2.0], [6.0, 8.0]])
    expected = torch.tensor([[0.6, -0.8, 1.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(cosine_matrix(first, second), expected)
    first, second = (view.float() for view in views(0, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = cosine_matrix(first, second)
    assert torch.equal(mixed, cosine_matrix(first, second))
    assert cosine_matrix(first.half(), second.half()).dtype == torch.float32


def test_hard_negatives_can_be_excluded_and_the_queue_gets_no_gradient() -> None:
    # Beside the own positive, e, stand the other positive, 1, and the other's hard negative, 1.
    axes = torch.eye(2, requires_grad=True)
    loss = info_nce(axes, axes, temperature=1, negatives=axes, hard_negative_weight=-math.inf)
    assert loss.item() == pytest.approx(math.log(math.e + 2) - 1)
    assert is_finite(loss, axes)
    first, second, queue = (view.requires_grad_() for view in views(0, 4, count=3))
    empty = info_nce(first, second, temperature=0.1, queue=queue[:0])
    assert empty.item() == info_nce(first, second, temperature=0.1).item()
    info_nce(first, second, temperature=0.1, queue=queue).backward()
    assert first.grad is not None
    assert queue.grad is None


def test_losses_are_finite_though_exponentials_overflow() -> None:
    # The teacher wants last what the student is surest of: logits 0 and 100 in each row.
    student = torch.tensor([[0.0, 1], [1, 0]], requires_grad=True)
    loss = list_mle(student, torch.eye(2), temperature=0.01)
    assert loss.item() == pytest.approx(100)
    assert is_finite(loss, student)
    for form in FORMS:
        axes = torch.eye(2, requires_grad=True)
        loss = multi_positive(axes, [-axes, axes.flip(0)], temperature=1e-3, form=form)
        assert is_finite(loss, axes), form


def test_the_teacher_gets_no_gradient_and_sum_is_mean_times_batch() -> None:
    for loss in RANK_LOSSES:
        student, teacher = (matrix[:, :4].tanh().requires_grad_() for matrix in views(5, 4))
        mean = loss(student, teacher)
        mean.backward()
        assert teacher.grad is None
        assert loss(student, teacher, reduction="sum").item() == pytest.approx(4 * mean.item())


def test_the_weight_of_an_l2_form_adds_a_constant() -> None:
    for form in [form for form in FORMS if form != "l1"]:
        first, *others = views(3, 5, count=3)
        loss = partial(multi_positive, first, others, temperature=0.1, form=form)
        assert abs(loss(weight=0.5).item() - loss().item()) == pytest.approx(math.log(2))


def test_with_one_segment_a_sequence_the_local_loss_is_info_nce() -> None:
    first, second = views(0, 6)
    kinds = product(get_args(SameSequence), get_args(Negatives), get_args(NegativesFrom))
    for same, negatives, origin in kinds:
        expected = info_nce(first, second, temperature=0.2, negatives_from=origin)
        how = {"same_sequence": same, "negatives": negatives, "negatives_from": origin}
        found = local_contrast(first, second, torch.arange(6), temperature=0.2, **how).item()
        assert found == pytest.approx(expected.item()), how
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


def test_a_batch_of_one_has_no_negative_to_weigh() -> None:
    with pytest.raises(ValueError, match="K >= 1, got"):
        reweighted_contrast(torch.tensor([0.2]), torch.empty(1, 0), temperature=0.1)
