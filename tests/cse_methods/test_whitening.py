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


@quick
@given(seed=seeds)
def test_as_many_groups_as_coordinates_standardise_them(seed: int) -> None:
    rows = drawn(seed, 9, 4)
    expected = (rows - rows.mean(dim=0)) / rows.std(dim=0, correction=0)
    torch.testing.assert_close(whiten(rows, groups=4), expected)


@quick
@given(seed=seeds)
def test_order_shift_and_common_scale_do_not_matter(seed: int) -> None:
    rows = drawn(seed, 12, 4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    white = whiten(rows, groups=2)
    torch.testing.assert_close(whiten(3 * rows[order] + 5, groups=2), white[order])


@quick
@given(seed=seeds)
def test_white_rows_stay_as_they_are(seed: int) -> None:
    white = whiten(drawn(seed, 12, 4))
    torch.testing.assert_close(whiten(white), white)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_full_gradients(groups: int) -> None:
    rows, permutation = drawn(0, 7, 4).requires_grad_(), torch.tensor([2, 0, 3, 1])
    assert torch.autograd.gradcheck(
        lambda x: whiten(x, groups=groups, permutation=permutation, detach=False), rows
    )


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


def test_from_the_identity_small_batches_never_make_it_singular() -> None:
    mean, covariance = torch.zeros(16), torch.eye(16)
    for step in range(5):
        mean, covariance = moving_statistics(mean, covariance, drawn(step, 3, 16), momentum=0.9)
    assert whitening_matrix(covariance).isfinite().all()


@pytest.mark.parametrize("kind", ["zca", "pca"])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_stored_statistics_whiten_as_the_batch_does(kind: Rotation, groups: int) -> None:
    rows = drawn(5, 30, 6)
    weight, bias = affine_whitening(*statistics(rows), groups=groups, kind=kind)
    torch.testing.assert_close(rows @ weight + bias, whiten(rows, groups=groups, kind=kind))


@pytest.mark.parametrize("most", [None, 1, 3])
def test_axes_without_variance_are_left_out(most: int | None) -> None:
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


@pytest.mark.parametrize("groups", [0, -2, 4, 12])
def test_groups_that_do_not_divide(groups: int) -> None:
    message = f"groups must divide the embeddings' width 6, got {groups}"
    with pytest.raises(ValueError, match=message):
        whiten(drawn(0, 20, 6), groups=groups)
    with pytest.raises(ValueError, match=message):
        affine_whitening(torch.zeros(6), torch.eye(6), groups=groups)


@pytest.mark.parametrize(("size", "groups"), [(1, 6), (3, 2), (2, 3), (6, 1)])
def test_batches_too_small_for_a_group(size: int, groups: int) -> None:
    width = 6 // groups
    with pytest.raises(ValueError, match=f"batch of {size} .* width {width}: .* {width + 1} rows"):
        whiten(drawn(0, size, 6), groups=groups)
    assert whiten(drawn(0, width + 1, 6), groups=groups).isfinite().all()


@pytest.mark.parametrize("width", [1, 3])
def test_batches_that_do_not_span_their_group(width: int) -> None:
    same = torch.ones(8, width)
    with pytest.raises(ValueError, match="singular: smallest eigenvalue 0 beside largest 0"):
        whiten(same)
    twice = drawn(0, 3, 3)[[0, 1, 2, 0, 1, 2]]
    with pytest.raises(ValueError, match=r"singular: .* take more groups or more varied rows"):
        whiten(twice)


@pytest.mark.parametrize("offset", [0, 10, 100])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_what_rounding_alone_spans_is_singular(offset: float, kind: torch.dtype) -> None:
    # Exactly dependent, then rounded: the smallest eigenvalue is that of the rounding.
    rows = drawn(8, 64, 4) + offset
    rows[:, 3] = rows[:, :3].sum(dim=1)
    with pytest.raises(ValueError, match=r"singular: .* take more groups or more varied rows"):
        whiten(rows.to(kind))


@pytest.mark.parametrize("offset", [0, 10])
def test_a_narrow_axis_is_whitened_where_float32_shows_it(offset: float) -> None:
    # Of deviation 1e-3 about 10: a thousand times what float32 rounds there.
    rows = drawn(9, 64, 3) * torch.tensor([1, 1, 1e-3]) + offset
    covariance = covariance_of(whiten(rows.float()))
    torch.testing.assert_close(covariance, eye(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_rows_that_are_not_numbers(value: float) -> None:
    rows = drawn(0, 8, 4)
    rows[3, 1] = value
    with pytest.raises(ValueError, match="NaN or infinite"):
        whiten(rows)


@pytest.mark.parametrize("permutation", [[0, 1, 2], [0, 1, 2, 2], [1, 2, 3, 4]])
def test_orders_that_are_no_permutation(permutation: list[int]) -> None:
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


@quick
@given(seed=seeds, scale=st.floats(1e-6, 1e6), tilt=st.floats(-0.999, 0.999))
def test_pairs_are_whitened_as_by_eigenvectors(seed: int, scale: float, tilt: float) -> None:
    rows = drawn(seed, 12, 2) * scale
    rows[:, 1] = tilt * rows[:, 0] + (1 - abs(tilt)) * rows[:, 1]
    covariance = covariance_of(rows).expand(3, 2, 2)
    values, vectors = torch.linalg.eigh(covariance)
    root = (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT
    largest = float(root.abs().max())
    found = whitening_matrix(covariance)
    # Both lose what the covariance's condition takes.
    condition = float(values[0, 1] / values[0, 0])
    torch.testing.assert_close(found, root, rtol=0, atol=3e-15 * condition * largest)


@pytest.mark.parametrize("covariance", [[[2.0, 0], [0, 2]], [[5.0, 4], [4, 5]], [[3.0, 1], [1, 1]]])
def test_gradients_of_pairs(covariance: list[list[float]]) -> None:
    start = torch.tensor(covariance, dtype=torch.float64).repeat(2, 1, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: whitening_matrix((c + c.mT) / 2), start)
