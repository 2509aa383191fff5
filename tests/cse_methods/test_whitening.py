import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.encoders.whitening import (
    Rotation,
    affine_whitening,
    moving_statistics,
    principal_axes,
    statistics,
    whiten,
    whitening_matrix,
)

seeds = st.integers(0, 2**16)
quick = settings(max_examples=25, deadline=None)


eye = partial(torch.eye, dtype=torch.float64)


def covariance_of(rows: Tensor) -> Tensor:
    return statistics(rows)[1]


def drawn(seed: int, size: int, width: int) -> Tensor:
    """Rows with a mean and correlated coordinates, as an encoder's are; well conditioned."""
    draw = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=draw, dtype=torch.float64)
    mixing = eye(width) + 0.3 * normal(width, width) / math.sqrt(width)
    return normal(size, width) @ mixing + normal(width)


def test_whitening_matrices_equal_hand_worked_ones() -> None:
    # Eigenvalues 1 along (1, -1) and 9 along (1, 1).
    covariance = torch.tensor([[5.0, 4], [4, 5]], dtype=torch.float64)
    zca = torch.tensor([[2 / 3, -1 / 3], [-1 / 3, 2 / 3]], dtype=torch.float64)
    torch.testing.assert_close(whitening_matrix(covariance), zca)
    pca = torch.tensor([[1 / 3, 1], [1 / 3, -1]], dtype=torch.float64) / math.sqrt(2)
    torch.testing.assert_close(whitening_matrix(covariance, kind="pca").abs(), pca.abs())


@pytest.mark.parametrize("kind", ["zca", "pca"])
@quick
@given(seed=seeds, groups=st.sampled_from([1, 2, 3, 6]))
def test_each_group_has_unit_covariance(kind: Rotation, seed: int, groups: int) -> None:
    permutation = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    white = whiten(drawn(seed, 20, 6), groups=groups, permutation=permutation, kind=kind)
    torch.testing.assert_close(white.mean(dim=0), torch.zeros(6, dtype=torch.float64))
    for group in white[:, permutation].chunk(groups, dim=1):
        torch.testing.assert_close(covariance_of(group), eye(6 // groups), atol=1e-7, rtol=0)


def test_gradients_are_exact_at_equal_eigenvalues_and_for_pairs() -> None:
    # Already white: all eigenvalues are 1, where the derivative of eigenvectors has its poles.
    rows = whiten(drawn(1, 8, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: whiten(x, detach=False), rows)
    for covariance in ([[2.0, 0], [0, 2]], [[5.0, 4], [4, 5]], [[3.0, 1], [1, 1]]):
        start = torch.tensor(covariance, dtype=torch.float64).repeat(2, 1, 1).requires_grad_()
        assert torch.autograd.gradcheck(lambda c: whitening_matrix((c + c.mT) / 2), start)


def test_whitening_is_exact_in_single_and_mixed_precision() -> None:
    rows = drawn(4, 16, 8).float()
    exact = whiten(rows.double(), groups=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = whiten(rows, groups=2)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed.double(), exact, atol=1e-6, rtol=1e-6)
    assert whiten(rows.bfloat16(), groups=2).dtype == torch.bfloat16


@quick
@given(seed=seeds, momentum=st.floats(0, 1))
def test_running_statistics_are_moving_averages(seed: int, momentum: float) -> None:
    old, new = drawn(seed, 9, 3), drawn(seed + 1, 7, 3)
    mean, covariance = moving_statistics(*statistics(old), new.requires_grad_(), momentum=momentum)
    kept, added = momentum, 1 - momentum
    torch.testing.assert_close(mean, kept * old.mean(dim=0) + added * new.mean(dim=0).detach())
    expected = kept * covariance_of(old) + added * covariance_of(new)
    torch.testing.assert_close(covariance, expected)
    assert not covariance.requires_grad


def test_stored_statistics_whiten_as_the_batch_does() -> None:
    for groups in (1, 2, 6):
        for kind in ("zca", "pca"):
            rows = drawn(5, 30, 6)
            weight, bias = affine_whitening(*statistics(rows), groups=groups, kind=kind)
            torch.testing.assert_close(rows @ weight + bias, whiten(rows, groups=groups, kind=kind))


def test_axes_without_variance_are_left_out() -> None:
    # As behind a LayerNorm: the coordinates sum to 0, so that one axis has no variance.
    rows = drawn(6, 40, 5)
    rows = rows - rows.mean(dim=1, keepdim=True)
    for most in (None, 1, 3):
        axes = principal_axes(covariance_of(rows.float()), most=most)
        assert axes.shape == (5, most or 4)
        torch.testing.assert_close(covariance_of(rows @ axes), eye(most or 4), atol=1e-5, rtol=0)
    whole = covariance_of(drawn(7, 40, 5))
    torch.testing.assert_close(principal_axes(whole), whitening_matrix(whole, kind="pca"))


def test_an_axis_of_mere_rounding_is_singular_and_a_narrow_one_is_not() -> None:
    for offset in (0, 10, 100):
        # Exactly dependent, then rounded: the smallest eigenvalue is that of the rounding.
        rows = drawn(8, 64, 4) + offset
        rows[:, 3] = rows[:, :3].sum(dim=1)
        for kind in (torch.float32, torch.bfloat16):
            with pytest.raises(ValueError, match=r"singular: .* or more varied rows"):
                whiten(rows.to(kind))
    for offset in (0, 10):
        # Of deviation 1e-3 about 10: a thousand times what float32 rounds there.
        rows = drawn(9, 64, 3) * torch.tensor([1, 1, 1e-3]) + offset
        covariance = covariance_of(whiten(rows.float()))
        torch.testing.assert_close(covariance, eye(3), atol=1e-3, rtol=0)
