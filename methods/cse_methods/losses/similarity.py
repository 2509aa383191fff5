"""Cosine similarities between all sentences of a batch, and a check that its views match."""

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
        return _unit(first) @ _unit(second).T


def check_views(*views: Tensor) -> None:
    """Raise unless all views of a batch have the same shape.

    Raises:
        ValueError: unless all have one shape (B, D), B >= 1; states every shape.
    """
    shapes = [tuple(view.shape) for view in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        given = ", ".join(map(str, shapes))
        raise ValueError(f"expected views of one shape (B, D), got {given}")
    if not len(views[0]):
        raise ValueError(f"expected views (B, D) with B >= 1, got an empty batch {shapes[0]}")


def _unit(rows: Tensor) -> Tensor:
    exact = rows if rows.dtype == torch.float64 else rows.float()
    return F.normalize(exact, dim=1, eps=1e-8)
