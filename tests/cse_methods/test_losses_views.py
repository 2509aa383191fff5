"""Losses over views of a batch: queue, same-view negatives, several positives, margin."""

import math
from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.multi_positive import MultiPositive, multi_positive

seeds, sizes = st.integers(0, 2**16), st.integers(2, 8)
quick = settings(max_examples=25, deadline=None)

FORMS = get_args(MultiPositive)
PROPER = [form for form in FORMS if form != "l2-literal"]


def views(seed: int, size: int, *, count: int = 3, width: int = 5) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, width, generator=draw, dtype=torch.float64))


def several(first: Tensor, second: Tensor, third: Tensor, *, form: MultiPositive) -> Tensor:
    return multi_positive(first, [second, third], temperature=0.2, form=form)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "queue": lambda a, b, c: info_nce(a, b, temperature=0.2, queue=c),
    "same_view": lambda a, b, c: info_nce(
        a, b, temperature=0.2, negatives=c, negatives_from="same_view"
    ),
    "margin": partial(bidirectional_margin, low=0.1, high=0.3),
    **{form: partial(several, form=form) for form in FORMS},
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@quick
@given(seed=seeds, size=sizes)
def test_neither_order_nor_length_matters(
    loss: Callable[..., Tensor], seed: int, size: int
) -> None:
    given_views = views(seed, size)
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(size, generator=draw)
    lengths = 0.1 + 10 * torch.rand(size, 1, generator=draw, dtype=torch.float64)
    expected = pytest.approx(loss(*given_views).item(), abs=1e-12)
    assert loss(*(view[order] for view in given_views)).item() == expected
    assert loss(*(view * lengths for view in given_views)).item() == expected


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradients(loss: Callable[..., Tensor]) -> None:
    tracked = [view.requires_grad_() for view in views(4, 3)]
    if loss is LOSSES["queue"]:  # the queue is constant
        tracked[2] = tracked[2].detach()
    assert torch.autograd.gradcheck(loss, tracked)


def test_queue_by_hand() -> None:
    # Cosines 1 with the own positive, 0 with the other, -1 and 1 with the queue.
    axes, queue = torch.eye(2), torch.tensor([[-2.0, 0.0]])
    against_first = math.log(math.e + 1 + 1 / math.e) - 1
    against_second = math.log(math.e + 1 + 1) - 1
    loss = info_nce(axes, axes, temperature=1, queue=queue)
    assert loss.item() == pytest.approx((against_first + against_second) / 2)


def test_an_empty_queue_is_none() -> None:
    first, second, _ = views(0, 4)
    empty = info_nce(first, second, temperature=0.1, queue=first[:0])
    assert empty.item() == info_nce(first, second, temperature=0.1).item()


def test_the_queue_receives_no_gradient() -> None:
    first, second, queue = (view.requires_grad_() for view in views(0, 4))
    info_nce(first, second, temperature=0.1, queue=queue).backward()
    assert first.grad is not None
    assert queue.grad is None


def test_same_view_negatives_by_hand() -> None:
    # Anchors at a right angle; each positive is its anchor's opposite, at cosine -1.
    axes = torch.eye(2)
    loss = info_nce(axes, -axes, temperature=1, negatives_from="same_view")
    assert loss.item() == pytest.approx(math.log(1 / math.e + 1) + 1)


@pytest.mark.parametrize("form", PROPER)
def test_one_positive_is_info_nce(form: MultiPositive) -> None:
    first, second, _ = views(1, 6)
    loss = multi_positive(first, [second], temperature=0.1, form=form)
    assert loss.item() == pytest.approx(info_nce(first, second, temperature=0.1).item())


def test_the_l1_form_is_a_weighted_sum_of_info_nce() -> None:
    first, *others = views(2, 6)
    loss = multi_positive(first, others, temperature=0.1, weight=0.3)
    parts = [info_nce(first, other, temperature=0.1).item() for other in others]
    assert loss.item() == pytest.approx(0.3 * sum(parts))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "l1"])
def test_the_weight_of_an_l2_form_is_a_constant(form: MultiPositive) -> None:
    first, *others = views(3, 5)
    loss = partial(multi_positive, first, others, temperature=0.1, form=form)
    assert abs(loss(weight=0.5).item() - loss().item()) == pytest.approx(math.log(2))


@quick
@given(seed=seeds, size=sizes)
def test_forms_differ_in_the_positive_they_mind(seed: int, size: int) -> None:
    # log-mean-exp of the two losses, their mean, and minus log-mean-exp of minus them.
    first, *others = views(seed, size)
    loss = partial(multi_positive, first, others, temperature=0.1)
    hard = loss(form="l2-hard-positive", weight=0.5).item()
    mean = loss(form="l1", weight=0.5).item()
    soft = loss(form="l2-soft", weight=0.5).item()
    assert soft <= mean + 1e-12
    assert mean <= hard + 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_several_positives_are_finite_where_exponentials_are_not(form: MultiPositive) -> None:
    axes = torch.eye(2, requires_grad=True)
    loss = multi_positive(axes, [-axes, axes.flip(0)], temperature=1e-3, form=form)
    loss.backward()
    assert loss.isfinite()
    assert axes.grad is not None
    assert axes.grad.isfinite().all()


def at_angles(*cosines: float) -> Tensor:
    """Unit vectors with these cosines to the first axis."""
    return torch.tensor([[c, math.sqrt(1 - c * c)] for c in cosines], dtype=torch.float64)


def test_margin_by_hand() -> None:
    # Deltas -0.05, -0.2, -0.5: too near by 0.05, inside the band, too far by 0.2.
    anchors, positives = at_angles(1, 1, 1), at_angles(0.9, 0.8, 0.7)
    loss = bidirectional_margin(anchors, positives, at_angles(0.85, 0.6, 0.2), low=0.1, high=0.3)
    assert loss.item() == pytest.approx((0.05 + 0 + 0.2) / 3)


@quick
@given(delta=st.floats(0.1001, 0.2999), near=st.floats(-0.6, 0.99))
def test_inside_the_band_nothing_moves(delta: float, near: float) -> None:
    tracked = [at_angles(1, 1), at_angles(near, 0.9), at_angles(near - delta, 0.7)]
    loss = bidirectional_margin(*(t.requires_grad_() for t in tracked), low=0.1, high=0.3)
    loss.backward()
    assert loss.item() == 0
    assert all(t.grad is not None and not t.grad.any() for t in tracked)


def test_views_that_do_not_match() -> None:
    three, four, wide = torch.ones(3, 2), torch.ones(4, 2), torch.ones(3, 5)
    with pytest.raises(ValueError, match=r"got \(3, 2\) and \(3, 5\)"):
        info_nce(three, three, temperature=1, queue=wide)
    with pytest.raises(ValueError, match=r"one shape \(B, D\), got \(2,\), \(2,\)"):
        info_nce(three[0], three[0], temperature=1)
    with pytest.raises(ValueError, match=r"got \(3, 2\), \(3, 2\), \(4, 2\)"):
        multi_positive(three, [three, four], temperature=1)
    with pytest.raises(ValueError, match="one or more views of positives, got 0"):
        multi_positive(three, [], temperature=1)
    with pytest.raises(ValueError, match=r"got \(3, 2\), \(3, 2\), \(3, 5\)"):
        bidirectional_margin(three, three, wide, low=0.1, high=0.3)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_numbers_that_must_be_above_zero(value: float) -> None:
    square = torch.ones(2, 2)
    with pytest.raises(ValueError, match=f"temperature must be above 0, got {value}"):
        multi_positive(square, [square], temperature=value)
    with pytest.raises(ValueError, match=f"weight must be above 0, got {value}"):
        multi_positive(square, [square], temperature=1, weight=value)


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.1), (-0.1, 0.3), (math.nan, 0.3)])
def test_bands_that_are_none(low: float, high: float) -> None:
    square = torch.ones(2, 2)
    with pytest.raises(ValueError, match=f"must hold, got low={low}, high={high}"):
        bidirectional_margin(square, square, square, low=low, high=high)
