"""Helpers of the list-wise losses: checks, lists without the anchor itself, and reductions."""

from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["mean", "sum"]
"""Over anchors. Papers often write a sum; released code takes the mean."""

_LEAST_TEMPERATURE = torch.finfo(torch.float32).tiny
"""A cosine divided by less than this overflows float32."""


def check_temperature(name: str, temperature: float | Tensor) -> None:
    """Raise unless cosines can be divided by this temperature.

    Raises:
        ValueError: if it is not above 0, or so small that cosines divided by it overflow;
            states its name and value.
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


def reduce(per_anchor: Tensor, reduction: Reduction) -> Tensor:
    """Reduce the losses of anchors, shape (B,), to their mean or their sum."""
    return per_anchor.mean() if reduction == "mean" else per_anchor.sum()
