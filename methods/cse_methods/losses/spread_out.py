"""Terms that spread the vectors of different sentences over the sphere."""

import torch
from torch import Tensor

from cse_methods.losses.similarity import Reduction, cosine_matrix, reduce, without_positive


def spread_out(*views: Tensor, aggregation: Reduction = "mean") -> tuple[Tensor, Tensor]:
    r"""Compare the cosines in each view with those of random directions.

    With :math:`c_{ij}` the cosine of sentences :math:`i \ne j` in one view, and means over them,
    the terms are :math:`(\overline{c})^2` and :math:`\max(0, \overline{c^2} - 1 / D)`.

    Args:
        views: embeddings, shape (B, D) each; sentences of different views are not compared.
        aggregation: over the views.

    Returns:
        Both terms, scalars >= 0; 0 for B = 1.

    Source:
        Zhang et al. 2017 (global orthogonal regularization), as sentence-transformers computes it.
    """
    means, seconds = zip(*map(cosine_moments, views), strict=True)
    excess = (torch.stack(seconds) - 1 / views[0].shape[1]).relu()
    return reduce(torch.stack(means).square(), aggregation), reduce(excess, aggregation)


def cosine_moments(view: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean cosine of different rows and the mean of its square; 0 for a single row."""
    cosines = without_positive(cosine_matrix(view, view))
    count = max(1, cosines.numel())
    return cosines.sum() / count, cosines.square().sum() / count
