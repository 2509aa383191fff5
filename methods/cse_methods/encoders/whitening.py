"""Whitening: transform embeddings to zero mean and unit covariance, as a whole or in groups.

No epsilon is added: a singular covariance raises ValueError, so the result is never NaN. Statistics
and eigenvectors are computed in float64, whatever the precision of the rows. For pairs of
coordinates the matrix has a closed form without eigenvectors. On a GPU, where checking a pair's
covariance would make the host wait, the matrix of a singular one is NaN instead.
"""

from typing import Literal

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor

Whitening = Literal["none", "pca", "zca", "group", "shuffled-group"]
"""WhitenedCSE's ablation: none; all coordinates as one group; fixed groups; random groups."""

Rotation = Literal["zca", "pca"]
"""Rotated back to the original axes, or along the principal axes, largest variance first."""


def whitening_matrix(
    covariance: Tensor, *, kind: Rotation = "zca", noise: Tensor | float = 0.0
) -> Tensor:
    r"""Compute the matrix :math:`W` for which centred rows times W have unit covariance.

    With :math:`C = U \Lambda U^T`, zca is :math:`U \Lambda^{-1/2} U^T`, which is differentiable
    even at equal eigenvalues, and pca is :math:`U \Lambda^{-1/2}`, which is treated as constant.

    Args:
        covariance: symmetric, positive definite, shape (..., w, w).
        kind: the rotation.
        noise: the variance along an axis that rounding of the rows can cause, shape (...).

    Returns:
        Shape (..., w, w), float64.

    ValueError if the covariance is not finite or is singular up to rounding, except for zca of
    pairs on a GPU; or if gradients through pca are requested, whose axes jump at equal eigenvalues.
    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 3 and 12.
    """
    pairs = kind == "zca" and covariance.shape[-1] == 2
    exact = covariance.detach()
    if not (pairs and covariance.is_cuda) and not exact.isfinite().all():
        raise ValueError("a covariance with NaN or infinite values cannot be whitened")
    if pairs:
        return _invert_root_of_pairs(covariance, noise)
    values: Tensor
    vectors: Tensor
    values, vectors = torch.linalg.eigh(exact.double())
    least, largest = values[..., 0], values[..., -1]
    # As for a matrix's numerical rank: less than this can be rounding.
    bound = values.shape[-1] * torch.finfo(exact.dtype).eps * largest + noise
    _refuse_singular(least <= bound, least, largest)
    if kind == "zca":
        root = (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT
        return root + _make_derivative(covariance.double(), values, vectors)
    if covariance.requires_grad:
        raise ValueError(
            "pca has no gradient where eigenvalues meet: detach the covariance, or take zca"
        )
    return (_fix_signs(vectors) * values.rsqrt().unsqueeze(-2)).flip(-1)


def whiten(
    rows: Tensor,
    *,
    groups: int = 1,
    permutation: Tensor | None = None,
    kind: Rotation = "zca",
    detach: bool = True,
) -> Tensor:
    """Whiten a batch with its own statistics, each group of coordinates separately.

    Args:
        rows: embeddings, shape (N, D), N > D / groups.
        groups: number of groups of consecutive coordinates; must divide D.
        permutation: order in which coordinates enter the groups, shape (D,); undone afterwards.
        kind: the rotation within a group.
        detach: treat the whitening matrices as constant in the backward pass, as the released
            code does; the mean is differentiated either way. False requires zca.

    Returns:
        Shape (N, D), with the rows' dtype; within each group the mean is 0 and the biased
        covariance is the identity.

    ValueError if the covariance of a group is singular, as that of too few rows is, or if pca is
    not detached.
    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 5 (groups) and 6 (shuffled).
    """
    number, width = len(rows), rows.shape[1] // groups
    order = torch.arange(rows.shape[1]) if permutation is None else permutation
    order = send_tensor(order, rows.device)
    # (N, D) -> (G, N, w): a group is one matrix of a batch of matrices.
    parts = rows.double()[:, order].view(number, groups, width).transpose(0, 1)
    centred = parts - parts.mean(dim=1, keepdim=True)
    covariance = centred.mT @ centred / number
    covariance = covariance.detach() if detach else covariance
    # Rows are rounded before they are centred, so the noise along an axis is that of their size.
    size = parts.detach().square().mean(dim=1).amax(dim=1)
    noise = width * torch.finfo(rows.dtype).eps ** 2 * size
    matrices = whitening_matrix(covariance, kind=kind, noise=noise)
    white = (centred @ matrices).transpose(0, 1).reshape(rows.shape)
    return white[:, order.argsort()].to(rows.dtype)


def statistics(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean (D,) and biased covariance (D, D) of embeddings (N, D), detached, float64."""
    exact = rows.detach().double()
    mean = exact.mean(dim=0)
    centred = exact - mean
    return mean, centred.T @ centred / len(exact)


def moving_statistics(
    mean: Tensor, covariance: Tensor, rows: Tensor, *, momentum: float
) -> tuple[Tensor, Tensor]:
    r"""Update running statistics with one more batch (N, D); constant, float64.

    .. math:: \mu \leftarrow \beta \mu + (1 - \beta) \bar x, \qquad
              \Sigma \leftarrow \beta \Sigma + (1 - \beta) \sigma

    If :math:`\Sigma` starts as the identity, it stays invertible however small the batches are.
    `momentum` is :math:`\beta` in [0, 1]; 0 uses the batch alone.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 13.
    """
    new_mean, new_covariance = statistics(rows)
    mean, covariance = mean.detach().double(), covariance.detach().double()
    return new_mean.lerp(mean, momentum), new_covariance.lerp(covariance, momentum)


def affine_whitening(
    mean: Tensor, covariance: Tensor, *, groups: int = 1, kind: Rotation = "zca"
) -> tuple[Tensor, Tensor]:
    """Express whitening by stored statistics as a map of single embeddings: `x @ weight + bias`.

    Args:
        mean: shape (D,).
        covariance: of all coordinates, shape (D, D); entries between groups are ignored.
        groups: number of groups of consecutive coordinates; must divide D.
        kind: the rotation within a group.

    Returns:
        Weight (D, D), block-diagonal, and bias (D,), float64.
    """
    width = len(mean) // groups
    blocks = covariance.reshape(groups, width, groups, width).diagonal(dim1=0, dim2=2)  # (w, w, G)
    matrices = whitening_matrix(blocks.permute(2, 0, 1), kind=kind)
    own = torch.eye(groups, dtype=matrices.dtype, device=matrices.device)
    # (G, w, 1, w) * (G, 1, G, 1): each matrix in the rows and columns of its own group.
    weight = (matrices.unsqueeze(2) * own[:, None, :, None]).reshape(covariance.shape)
    return weight, -mean.double() @ weight


def principal_axes(covariance: Tensor, *, most: int | None = None) -> Tensor:
    """Compute the axes of largest variance, each scaled to variance 1; can drop coordinates.

    Axes whose variance is mere rounding are left out. After a LayerNorm there always is one,
    because its outputs lie in a hyperplane.

    Args:
        covariance: of float32 embeddings, shape (D, D).
        most: the largest number of axes; None keeps all.

    Returns:
        Shape (D, k), k >= 1, float64; centred rows times this have unit covariance.

    ValueError if no axis has variance.
    Source:
        Su et al. 2021, section 3.
    """
    values, vectors = torch.linalg.eigh(covariance.double())  # ascending
    noise = len(covariance) * torch.finfo(torch.float32).eps ** 2 * values[-1]
    kept = int((values > noise).sum())
    if kept == 0:
        raise ValueError("the covariance is zero: all rows are the same")
    axes: Tensor = _fix_signs(vectors[:, -kept:]) * values[-kept:].rsqrt()
    return axes.flip(1)[:, :most]


def _invert_root_of_pairs(covariance: Tensor, rounding: Tensor | float) -> Tensor:
    r"""Compute C^(-1/2) of matrices (..., 2, 2) without eigenvectors, differentiable everywhere.

    By the Cayley-Hamilton theorem the root is :math:`(C + s I) / t` with
    :math:`s = \sqrt{\det C}` and :math:`t = \sqrt{\mathrm{tr}\,C + 2 s}`; its inverse is its
    adjugate divided by :math:`s`.
    """
    exact = covariance.double()
    first, second, shared = exact[..., 0, 0], exact[..., 1, 1], exact[..., 0, 1]
    determinant = first * second - shared.square()
    largest = (first + second + torch.hypot(first - second, 2 * shared)) / 2
    least = determinant / largest.clamp_min(torch.finfo(torch.float64).tiny)
    singular = least <= 2 * torch.finfo(covariance.dtype).eps * largest + rounding
    if not covariance.is_cuda:
        _refuse_singular(singular, least, largest)
    root = torch.where(singular, torch.nan, determinant).sqrt()
    rows = [second + root, -shared, -shared, first + root]
    scale = root * (first + second + 2 * root).sqrt()
    return (torch.stack(rows, dim=-1) / scale.unsqueeze(-1)).view_as(exact)


def _make_derivative(covariance: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    """Make a zero matrix that carries the derivative of C^(-1/2) at this covariance.

    In the eigenbasis this derivative multiplies by the divided differences of x^(-1/2), which are
    -1 / (sqrt(a b) (sqrt(a) + sqrt(b))): unlike the derivatives of eigenvectors, they have no
    pole at a = b.
    """
    first, second = values.sqrt().unsqueeze(-1), values.sqrt().unsqueeze(-2)
    change = vectors.mT @ (covariance - covariance.detach()) @ vectors
    return -vectors @ (change / (first * second * (first + second))) @ vectors.mT


def _fix_signs(vectors: Tensor) -> Tensor:
    """Flip eigenvectors so that the largest entry is positive, because signs vary by machine."""
    largest = vectors.gather(-2, vectors.abs().argmax(dim=-2, keepdim=True))
    return vectors * largest.sign()


def _refuse_singular(singular: Tensor, least: Tensor, largest: Tensor) -> None:
    if singular.any():
        worst = int((least / largest).masked_fill(~singular, torch.inf).argmin())
        raise ValueError(
            f"a covariance is singular: smallest eigenvalue {least.flatten()[worst]:.3g} beside "
            f"largest {largest.flatten()[worst]:.3g}; take more groups or more varied rows"
        )
