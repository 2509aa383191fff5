"""CompCSE: aggregate the embeddings of a sentence's parts."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Aggregation = Literal["sum", "average", "concat-halves", "concat-project", "concat-absdiff-project"]


def aggregate(
    parts: Sequence[Tensor], *, aggregation: Aggregation, projection: Tensor | None = None
) -> Tensor:
    r"""Aggregate the embeddings of each sentence's parts to one embedding.

    For parts :math:`p_1, \dots, p_k`: their sum; their average; "concat-halves" divides each into
    :math:`k` consecutive slices and takes the first of :math:`p_1`, the second of :math:`p_2`
    and so on; "concat-project" is :math:`P [p_1; \dots; p_k]` and "concat-absdiff-project"
    :math:`P [p_1; p_2; |p_1 - p_2|]`.

    Args:
        parts: k >= 2 matrices of shape (B, D): embeddings of the first parts, the second, ...
        aggregation: how they are combined.
        projection: :math:`P`, shape (D, wD) with w the number of embeddings that it reads; None
            for the others.

    Returns:
        Shape (B, D).

    Source:
        Chanchani and Huang 2023 (CompCSE), table 3; the paper does not say that `P` has no bias.
    """
    if projection is not None:
        seen = list(parts)
        if aggregation == "concat-absdiff-project":
            seen.append((parts[0] - parts[1]).abs())
        return F.linear(torch.cat(seen, dim=1), projection)
    if aggregation == "concat-halves":
        cuts = [part.tensor_split(len(parts), dim=1)[i] for i, part in enumerate(parts)]
        return torch.cat(cuts, dim=1)
    total = torch.stack(list(parts)).sum(dim=0)
    return total / len(parts) if aggregation == "average" else total
