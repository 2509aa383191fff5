"""Losses over views of a batch: queue, same-view negatives, several positives, margin."""

import math
from functools import partial
from typing import get_args

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.multi_positive import MultiPositive, multi_positive

seeds, sizes = st.integers(0, 2**16), st.integers(2, 8)
FORMS = get_args(MultiPositive)


def views(seed: int, size: int, *, count: int = 3, width: int = 5) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, width, generator=draw, dtype=torch.float64))


def test_an_empty_queue_is_none() -> None:
    first, second, _ = views(0, 4)
    empty = info_nce(first, second, temperature=0.1, queue=first[:0])
    assert empty.item() == info_nce(first, second, temperature=0.1).item()


def test_the_queue_receives_no_gradient() -> None:
    first, second, queue = (view.requires_grad_() for view in views(0, 4))
    info_nce(first, second, temperature=0.1, queue=queue).backward()
    assert first.grad is not None
    assert queue.grad is None


def test_the_weight_of_an_l2_form_is_a_constant() -> None:
    for form in [form for form in FORMS if form != "l1"]:
        first, *others = views(3, 5)
        loss = partial(multi_positive, first, others, temperature=0.1, form=form)
        assert abs(loss(weight=0.5).item() - loss().item()) == pytest.approx(math.log(2))


def test_several_positives_are_finite_where_exponentials_are_not() -> None:
    for form in FORMS:
        axes = torch.eye(2, requires_grad=True)
        loss = multi_positive(axes, [-axes, axes.flip(0)], temperature=1e-3, form=form)
        loss.backward()
        assert loss.isfinite()
        assert axes.grad is not None
        assert axes.grad.isfinite().all()


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


def test_numbers_that_must_be_above_zero() -> None:
    table: list[float] = [0.0, -1.0, math.nan]
    for value in table:
        square = torch.ones(2, 2)
        with pytest.raises(ValueError, match=f"temperature must be above 0, got {value}"):
            multi_positive(square, [square], temperature=value)
        with pytest.raises(ValueError, match=f"weight must be above 0, got {value}"):
            multi_positive(square, [square], temperature=1, weight=value)


def test_bands_that_are_none() -> None:
    table: list[tuple[float, float]] = [(0.3, 0.1), (-0.1, 0.3), (math.nan, 0.3)]
    for low, high in table:
        square = torch.ones(2, 2)
        with pytest.raises(ValueError, match=f"must hold, got low={low}, high={high}"):
            bidirectional_margin(square, square, square, low=low, high=high)
