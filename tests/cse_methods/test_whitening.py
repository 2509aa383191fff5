"""Whitening by hand-worked value, by property, and by what it refuses instead of giving NaN."""

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


def drawn(seed: int, size: int, width: int) -> Tensor:
    """Rows with a mean and correlated coordinates, as an encoder's are; well conditioned."""
    draw = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=draw, dtype=torch.float64)
    mixing = eye(width) + 0.3 * normal(width, width) / math.sqrt(width)
    return normal(size, width) @ mixing + normal(width)


def covariance_of(rows: Tensor) -> Tensor:
    return statistics(rows)[1]


def eye(width: int) -> Tensor:
    return torch.eye(width, dtype=torch.float64)


def test_matrices_by_hand() -> None:
    # Eigenvalues 1 along (1, -1) and 9 along (1, 1).
    covariance = torch.tensor([[5.0, 4], [4, 5]], dtype=torch.float64)
    zca = torch.tensor([[2 / 3, -1 / 3], [-1 / 3, 2 / 3]], dtype=torch.float64)
    torch.testing.assert_close(whitening_matrix(covariance), zca)
    pca = torch.tensor([[1 / 3, 1], [1 / 3, -1]], dtype=torch.float64) / math.sqrt(2)
    torch.testing.assert_close(whitening_matrix(covariance, kind="pca").abs(), pca.abs())


def test_axes_by_falling_variance_and_with_settled_signs() -> None:
    covariance = covariance_of(drawn(0, 20, 5))
    axes = whitening_matrix(covariance, kind="pca")
    variances = axes.norm(dim=0).pow(-2)
    assert variances.tolist() == sorted(variances.tolist(), reverse=True)
    assert (axes.amax(dim=0) == axes.abs().amax(dim=0)).all()


@pytest.mark.parametrize("kind", ["zca", "pca"])
@quick
@given(seed=seeds, groups=st.sampled_from([1, 2, 3, 6]))
def test_each_group_has_unit_covariance(kind: Rotation, seed: int, groups: int) -> None:
    permutation = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    white = whiten(drawn(seed, 20, 6), groups=groups, permutation=permutation, kind=kind)
    torch.testing.assert_close(white.mean(dim=0), torch.zeros(6, dtype=torch.float64))
    for group in white[:, permutation].chunk(groups, dim=1):
        torch.testing.assert_close(covariance_of(group), eye(6 // groups), atol=1e-7, rtol=0)


def test_full_gradients() -> None:
    rows, permutation = drawn(0, 7, 4).requires_grad_(), torch.tensor([2, 0, 3, 1])
    for groups in (1, 2, 4):
        white = partial(whiten, groups=groups, permutation=permutation, detach=False)
        assert torch.autograd.gradcheck(white, rows)


def test_full_gradients_where_eigenvalues_meet() -> None:
    # Already white: all eigenvalues are 1, where the derivative of eigenvectors has its poles.
    rows = whiten(drawn(1, 8, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: whiten(x, detach=False), rows)


def test_detached_gradients_differ_by_the_matrix_alone() -> None:
    rows = drawn(2, 8, 3).requires_grad_()
    matrix = whitening_matrix(covariance_of(rows))
    upstream = drawn(3, 8, 3)
    (found,) = torch.autograd.grad(whiten(rows), rows, upstream)
    centred = upstream - upstream.mean(dim=0)
    torch.testing.assert_close(found, centred @ matrix.T)


def test_single_and_mixed_precision() -> None:
    rows = drawn(4, 16, 8).float()
    exact = whiten(rows.double(), groups=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = whiten(rows, groups=2)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed.double(), exact, atol=1e-6, rtol=1e-6)
    assert whiten(rows.bfloat16(), groups=2).dtype == torch.bfloat16


@quick
@given(seed=seeds, momentum=st.floats(0, 1))
def test_running_statistics(seed: int, momentum: float) -> None:
    old, new = drawn(seed, 9, 3), drawn(seed + 1, 7, 3)
    mean, covariance = moving_statistics(*statistics(old), new, momentum=momentum)
    kept, added = momentum, 1 - momentum
    torch.testing.assert_close(mean, kept * old.mean(dim=0) + added * new.mean(dim=0))
    expected = kept * covariance_of(old) + added * covariance_of(new)
    torch.testing.assert_close(covariance, expected)


def test_statistics_by_hand() -> None:
    mean, covariance = statistics(torch.tensor([[0.0, 0], [2, 4]], requires_grad=True))
    assert mean.tolist() == [1, 2]
    assert covariance.tolist() == [[1, 2], [2, 4]]
    assert not covariance.requires_grad


def test_stored_statistics_whiten_as_the_batch_does() -> None:
    for groups in (1, 2, 6):
        for kind in ("zca", "pca"):
            rows = drawn(5, 30, 6)
            weight, bias = affine_whitening(*statistics(rows), groups=groups, kind=kind)
            torch.testing.assert_close(rows @ weight + bias, whiten(rows, groups=groups, kind=kind))


def test_axes_without_variance_are_left_out() -> None:
    for most in (None, 1, 3):
        # As behind a LayerNorm: the coordinates sum to 0, so that one axis has no variance.
        rows = drawn(6, 40, 5)
        rows = rows - rows.mean(dim=1, keepdim=True)
        axes = principal_axes(covariance_of(rows.float()), most=most)
        assert axes.shape == (5, most or 4)
        torch.testing.assert_close(covariance_of(rows @ axes), eye(most or 4), atol=1e-5, rtol=0)


def test_full_rank_axes_are_those_of_pca() -> None:
    covariance = covariance_of(drawn(7, 40, 5))
    torch.testing.assert_close(principal_axes(covariance), whitening_matrix(covariance, kind="pca"))
    with pytest.raises(ValueError, match="covariance is zero: all rows are the same"):
        principal_axes(torch.zeros(5, 5))


def test_groups_that_do_not_divide() -> None:
    table: list[int] = [0, -2, 4, 12]
    for groups in table:
        message = f"groups must divide the embeddings' width 6, got {groups}"
        with pytest.raises(ValueError, match=message):
            whiten(drawn(0, 20, 6), groups=groups)
        with pytest.raises(ValueError, match=message):
            affine_whitening(torch.zeros(6), torch.eye(6), groups=groups)


def test_batches_too_small_for_a_group() -> None:
    table: list[tuple[int, int]] = [(1, 6), (3, 2), (2, 3), (6, 1)]
    for size, groups in table:
        width = 6 // groups
        with pytest.raises(
            ValueError, match=f"batch of {size} .* width {width}: .* {width + 1} rows"
        ):
            whiten(drawn(0, size, 6), groups=groups)
        assert whiten(drawn(0, width + 1, 6), groups=groups).isfinite().all()


def test_batches_that_do_not_span_their_group() -> None:
    for width in (1, 3):
        same = torch.ones(8, width)
        with pytest.raises(ValueError, match="singular: smallest eigenvalue 0 beside largest 0"):
            whiten(same)
        twice = drawn(0, 3, 3)[[0, 1, 2, 0, 1, 2]]
        with pytest.raises(ValueError, match=r"singular: .* take more groups or more varied rows"):
            whiten(twice)


def test_what_rounding_alone_spans_is_singular() -> None:
    table_of_kind: list[torch.dtype] = [torch.float32, torch.bfloat16]
    for kind in table_of_kind:
        for offset in (0, 10, 100):
            # Exactly dependent, then rounded: the smallest eigenvalue is that of the rounding.
            rows = drawn(8, 64, 4) + offset
            rows[:, 3] = rows[:, :3].sum(dim=1)
            with pytest.raises(
                ValueError, match=r"singular: .* take more groups or more varied rows"
            ):
                whiten(rows.to(kind))


def test_a_narrow_axis_is_whitened_where_float32_shows_it() -> None:
    for offset in (0, 10):
        # Of deviation 1e-3 about 10: a thousand times what float32 rounds there.
        rows = drawn(9, 64, 3) * torch.tensor([1, 1, 1e-3]) + offset
        covariance = covariance_of(whiten(rows.float()))
        torch.testing.assert_close(covariance, eye(3), atol=1e-3, rtol=0)


def test_rows_that_are_not_numbers() -> None:
    table: list[float] = [math.nan, math.inf]
    for value in table:
        rows = drawn(0, 8, 4)
        rows[3, 1] = value
        with pytest.raises(ValueError, match="NaN or infinite"):
            whiten(rows)


def test_orders_that_are_no_permutation() -> None:
    table: list[list[int]] = [[0, 1, 2], [0, 1, 2, 2], [1, 2, 3, 4]]
    for permutation in table:
        message = rf"permutation of the 4 coordinates, got \({len(permutation)},\)"
        with pytest.raises(ValueError, match=message):
            whiten(drawn(0, 8, 4), permutation=torch.tensor(permutation))


def test_pca_has_no_full_gradient() -> None:
    with pytest.raises(ValueError, match=r"pca has no gradient .* detach the covariance"):
        whiten(drawn(0, 8, 4).requires_grad_(), kind="pca", detach=False)


def test_statistics_that_cannot_move() -> None:
    mean, covariance = torch.zeros(4), torch.eye(4)
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\], got 1.5"):
        moving_statistics(mean, covariance, drawn(0, 8, 4), momentum=1.5)
    with pytest.raises(ValueError, match=r"expected rows \(N, 4\), got \(8, 5\)"):
        moving_statistics(mean, covariance, drawn(0, 8, 5), momentum=0.9)
    with pytest.raises(ValueError, match=r"expected embeddings \(N, D\), got \(4,\)"):
        whiten(mean)


def test_gradients_of_pairs() -> None:
    table: list[list[list[float]]] = [[[2.0, 0], [0, 2]], [[5.0, 4], [4, 5]], [[3.0, 1], [1, 1]]]
    for covariance in table:
        start = torch.tensor(covariance, dtype=torch.float64).repeat(2, 1, 1).requires_grad_()
        assert torch.autograd.gradcheck(lambda c: whitening_matrix((c + c.mT) / 2), start)
