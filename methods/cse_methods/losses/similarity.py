"""What the losses share: cosines of a batch, checks of their arguments, lists and reductions."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine_matrix(first: Tensor, second: Tensor) -> Tensor:
    r"""Compute the cosines of every row of one batch with every row of another.

    .. math:: S_{ij} = \frac{a_i \cdot b_j}{\max(|a_i|, 10^{-8}) \max(|b_j|, 10^{-8})}

    Args:
        first: embeddings, shape (A, D).
        second: embeddings, shape (B, D).

    Returns:
        Shape (A, B), in [-1, 1]; float64 for float64 input, otherwise float32.

    Raises:
        ValueError: if the widths differ or an argument is not a matrix.
    """
    if first.dim() != 2 or second.dim() != 2 or first.shape[1] != second.shape[1]:
        raise ValueError(
            "expected two matrices (A, D) and (B, D), "
            f"got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    # Half precision keeps three digits; divided by 0.05, the error of a logit would be 0.02.
    with torch.autocast(first.device.type, enabled=False):
        return _scale_to_unit(first) @ _scale_to_unit(second).T


def check_views(*views: Tensor) -> None:
    """Raise unless all views of a batch have the same shape.

    ValueError unless all have one shape (B, D), B >= 1; states every shape.
    """
    shapes = [tuple(view.shape) for view in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        given = ", ".join(map(str, shapes))
        raise ValueError(f"expected views of one shape (B, D), got {given}")
    if not len(views[0]):
        raise ValueError(f"expected views (B, D) with B >= 1, got an empty batch {shapes[0]}")


def _scale_to_unit(rows: Tensor) -> Tensor:
    exact = rows if rows.dtype == torch.float64 else rows.float()
    return F.normalize(exact, dim=1, eps=1e-8)


Reduction = Literal["mean", "sum"]
"""Over anchors. Papers often write a sum; released code takes the mean."""

_LEAST_TEMPERATURE = torch.finfo(torch.float32).tiny
"""A cosine divided by less than this overflows float32."""


def check_temperature(name: str, temperature: float | Tensor) -> None:
    """Raise unless cosines can be divided by this temperature.

    ValueError if it is not above 0, or so small that cosines divided by it overflow; states its
    name and value.
    """
    if not temperature > 0:
        raise ValueError(f"{name} must be above 0, got {temperature}")
    if temperature < _LEAST_TEMPERATURE:
        raise ValueError(
            f"{name} must be at least {_LEAST_TEMPERATURE:.3g}, because cosines divided by less "
            f"overflow, got {temperature}"
        )


def check_lists(**lists: Tensor) -> None:
    """Raise unless every argument is a (B, B) matrix of the same size, B >= 2.

    Raises:
        ValueError: states the shape of every matrix.
    """
    shapes = [tuple(matrix.shape) for matrix in lists.values()]
    size = shapes[0][0] if shapes[0] else 0
    if size < 2 or any(shape != (size, size) for shape in shapes):
        given = ", ".join(f"{name} {shape}" for name, shape in zip(lists, shapes, strict=True))
        raise ValueError(f"expected (B, B) similarities of one batch, B >= 2, got {given}")


def without_positive(similarities: Tensor) -> Tensor:
    """Drop the diagonal of a matrix, (B, B) -> (B, B - 1), and keep the order in each row."""
    size = len(similarities)
    # Without the first entry, every row of B + 1 entries ends with an entry of the diagonal.
    rows = similarities.flatten()[1:].view(size - 1, size + 1)
    return rows[:, :-1].reshape(size, size - 1)


def find_positive(logits: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the cross-entropy of finding each anchor's positive among its candidates.

    The positive of row i of the logits, shape (B, K >= B), is column i.
    """
    target = torch.arange(len(logits), device=logits.device)
    return F.cross_entropy(logits, target, reduction=reduction)


def reduce(per_anchor: Tensor, reduction: Reduction) -> Tensor:
    """Reduce the losses of anchors, shape (B,), to their mean or their sum."""
    return per_anchor.mean() if reduction == "mean" else per_anchor.sum()
