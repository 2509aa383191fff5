"""DCLR's losses beside their stored values: float32, corners, and what is refused."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cse_methods.losses.debiased import debiased_loss, false_negative_weights, noise_ascent


def test_the_loss_stays_finite_where_a_probability_rounds_to_one() -> None:
    for own, other in [(20.0, -2.0), (-40.0, 40.0), (300.0, -300.0), (-300.0, 300.0)]:
        logits = torch.full((2, 3), other)
        logits.fill_diagonal_(own).requires_grad_()
        loss = debiased_loss(logits, torch.ones(2, 3), form="bce")
        loss.backward()
        assert loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


def test_a_false_negative_has_the_logit_zero_or_is_left_out() -> None:
    weights = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    logits = torch.randn(2, 3)
    zero, gone = logits.clone(), logits.clone()
    zero[0, 1], gone[0, 1] = 0.0, -torch.inf
    ones = torch.ones(2, 3)
    assert_close(debiased_loss(logits, weights, form="bce"), debiased_loss(zero, ones, form="bce"))
    assert_close(
        debiased_loss(logits, weights, form="infonce"), F.cross_entropy(gone, torch.arange(2))
    )


def test_weights_of_sentences_that_are_alike() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = false_negative_weights(rows, rows, phi=0.9, noise=1)
    assert found.tolist() == [[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    assert false_negative_weights(rows, rows, phi=1.0).all()


def test_noise_without_gradient_stays() -> None:
    first = torch.eye(2, 4)
    # A temperature at which the noise's probability, and so its gradient, rounds to 0.
    noise = torch.eye(4)[2:]
    moved = noise_ascent(first, first, noise, temperature=1e-3, steps=2, step_size=0.5)
    assert torch.equal(moved, noise)


def test_noise_becomes_harder_by_steps_of_one_length() -> None:
    torch.manual_seed(0)
    first, noise = torch.randn(4, 8), torch.randn(3, 8)
    one = noise_ascent(first, first, noise, temperature=0.5, steps=1, step_size=0.1)
    assert_close((one - noise).norm(dim=1), torch.full((3,), 0.1))
    far = noise_ascent(first, first, noise, temperature=0.5, steps=9, step_size=0.5)
    similar = [F.cosine_similarity(first[:, None], n, dim=2).mean() for n in (noise, far)]
    assert similar[0] < similar[1]
    assert noise_ascent(first, first, noise[:0], temperature=1, steps=3, step_size=1).shape == (
        0,
        8,
    )


def test_shapes_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(2, 2\)"):
        debiased_loss(torch.ones(2, 3), torch.ones(2, 2), form="bce")
