"""Cutoff: tokens, features or elements of a batch of embeddings become zeros, without rescaling.

Places that are cut have the shape (B, K): K of each sentence, of which -1 stands for none.
"""

import torch
from torch import Tensor


def zero_tokens(embeddings: Tensor, places: Tensor) -> Tensor:
    """Embeddings without some of their tokens.

    Args:
        embeddings: shape (B, L, D).
        places: of tokens, from 0 to L - 1, shape (B, K).

    Source:
        Yan et al. 2021 (ConSERT), token cutoff.
    """
    return embeddings.masked_fill(_mark(places, embeddings.shape[1]).unsqueeze(-1), 0)


def zero_features(embeddings: Tensor, features: Tensor) -> Tensor:
    """Embeddings without some of their features, in all tokens of a sentence.

    Args:
        embeddings: shape (B, L, D).
        features: from 0 to D - 1, shape (B, K).

    Source:
        Yan et al. 2021 (ConSERT), feature cutoff.
    """
    return embeddings.masked_fill(_mark(features, embeddings.shape[2]).unsqueeze(1), 0)


def zero_elements(embeddings: Tensor, elements: Tensor) -> Tensor:
    """Embeddings without some of their elements.

    Args:
        embeddings: shape (B, L, D).
        elements: token times D, plus feature; from 0 to L D - 1, shape (B, K).

    Source:
        Yan et al. 2021 (ConSERT), where it is called dropout.
    """
    marked = _mark(elements, embeddings[0].numel())
    return embeddings.masked_fill(marked.view_as(embeddings), 0)


def draw_places(available: Tensor, *, rate: float) -> Tensor:
    """Draw a share of the places of each row, rounded down, with torch's own generator.

    Args:
        available: which places can be drawn, shape (B, M), bool.
        rate: share of them, in [0, 1].

    Returns:
        Distinct places in a random order, then -1, shape (B, K).
    """
    # In float64, as Python rounds: 0.29 * 100 is below 29 in both.
    counts = (available.sum(dim=1).double() * rate).long().unsqueeze(1)
    scores = torch.rand(available.shape, device=available.device).masked_fill(~available, 2)
    most = int(available.shape[1] * rate)
    drawn = scores.argsort(dim=1)[:, :most]
    return drawn.where(torch.arange(most, device=drawn.device) < counts, -1)


def _mark(places: Tensor, count: int) -> Tensor:
    """Which of `count` places are among those of each row, shape (B, count)."""
    marked = torch.zeros(len(places), count + 1, dtype=torch.bool, device=places.device)
    return marked.scatter(1, places.where(places >= 0, count), value=True)[:, :count]
