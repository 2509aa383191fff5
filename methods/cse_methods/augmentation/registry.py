"""Augmentations by name: what each changes, how much of it, and whose it is.

They draw with torch's own generator what pure functions take as arguments. In ConSERT's cutoff,
tokens, features or elements of a batch of embeddings become zeros, without rescaling; the indices
that are cut have the shape (B, K): K of each sentence, of which -1 stands for none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from cse_methods.augmentation.pieces import (
    changed_pieces,
    delete_pieces,
    insert_copies,
    mask_span,
    span_length,
)
from cse_methods.errors import TrainingError
from cse_methods.settings import setting


def zero_tokens(embeddings: Tensor, indices: Tensor) -> Tensor:
    """Zero some tokens of embeddings (B, L, D); indices (B, K) are from 0 to L - 1.

    Source:
        Yan et al. 2021 (ConSERT), token cutoff.
    """
    return embeddings.masked_fill(_mark_indices(indices, embeddings.shape[1]).unsqueeze(-1), 0)


def zero_features(embeddings: Tensor, features: Tensor) -> Tensor:
    """Zero some features of embeddings (B, L, D), from 0 to D - 1, in all tokens.

    Source:
        Yan et al. 2021 (ConSERT), feature cutoff.
    """
    return embeddings.masked_fill(_mark_indices(features, embeddings.shape[2]).unsqueeze(1), 0)


def zero_elements(embeddings: Tensor, elements: Tensor) -> Tensor:
    """Zero some elements of embeddings (B, L, D): token times D, plus feature.

    Source:
        Yan et al. 2021 (ConSERT), where it is called dropout.
    """
    marked = _mark_indices(elements, embeddings[0].numel())
    return embeddings.masked_fill(marked.view_as(embeddings), 0)


def draw_indices(available: Tensor, *, rate: float) -> Tensor:
    """Draw a share of the indices of each row, rounded down, with torch's own generator.

    `available` says which indices can be drawn, shape (B, M), bool; the rate is in [0, 1].

    Returns:
        Distinct indices in a random order, then -1, shape (B, K).
    """
    # In float64, as Python rounds: 0.29 * 100 is below 29 in both.
    counts = (available.sum(dim=1).double() * rate).long().unsqueeze(1)
    scores = torch.rand(available.shape, device=available.device).masked_fill(~available, 2)
    most = int(available.shape[1] * rate)
    drawn = scores.argsort(dim=1)[:, :most]
    return drawn.where(torch.arange(most, device=drawn.device) < counts, -1)


def _mark_indices(indices: Tensor, count: int) -> Tensor:
    """Mark which of `count` indices are among those of each row, shape (B, count)."""
    marked = torch.zeros(len(indices), count + 1, dtype=torch.bool, device=indices.device)
    return marked.scatter(1, indices.where(indices >= 0, count), value=True)[:, :count]


PieceChange = Callable[[Sequence[int], float, int, int | None], list[int]]
"""From a sentence's word pieces without special ones, n >= 0, the rate, the number of pieces that a
sentence grows to at most, and the piece that hides another (None of a tokenizer without one).
"""
PositionChange = Callable[[int], list[int]]
"""From the number of a row's pieces, special ones included, to the position of each, from 0."""
EmbeddingChange = Callable[[Tensor, Tensor, float], Tensor]
"""From embeddings (B, L, D), their mask (B, L) with 1 for word pieces, and the rate."""


@dataclass(frozen=True)
class Rate:
    """How much an augmentation changes, as a setting."""

    setting: str
    default: float
    description: str
    most: float | None = 1.0
    """The bound that it stays below, above 0; None for no bound."""


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """One way to change a sentence, at one of three levels; the other two are None.

    Special word pieces take part in changes of positions and embeddings, not in those of pieces.
    """

    source: str
    rate: Rate | None = None
    """None where there is nothing to turn."""
    pieces: PieceChange | None = None
    positions: PositionChange | None = None
    embeddings: EmbeddingChange | None = None
    """Of the output of the embedding layer."""


View = Sequence[tuple[str, float]]
"""The augmentations of a view in order, each with its rate, which some do not read."""


def draw_index(indices: Sequence[int]) -> int:
    """Draw one of the indices with torch's own generator."""
    return indices[int(torch.randint(len(indices), ()))]


def _delete_pieces(content: Sequence[int], rate: float, *_: int | None) -> list[int]:
    count = len(content)
    gone = range(changed_pieces(count, rate))
    return delete_pieces(content, [draw_index(range(count - k)) for k in gone])


def _repeat_pieces(content: Sequence[int], rate: float, longest: int, _: int | None) -> list[int]:
    count = len(content)
    copies = range(max(0, min(changed_pieces(count, rate), longest - count)))
    choices = [draw_index(range(count + k)) for k in copies]
    return insert_copies(content, choices, [draw_index(range(count + k + 1)) for k in copies])


def _mask_span(content: Sequence[int], rate: float, _: int, mask: int | None) -> list[int]:
    if mask is None:
        raise TrainingError("span hides word pieces by a mask, which this backbone does not have")
    length = span_length(len(content), rate)
    start = draw_index(range(len(content) - length + 1))
    return mask_span(content, start, length, mask=mask)


_PCL, _CONSERT = "Wu et al. 2022 (PCL)", "Yan et al. 2021 (ConSERT)"
AUGMENTATIONS: dict[str, Augmentation] = {
    "shuffle": Augmentation(
        pieces=lambda content, *_: [
            content[index] for index in torch.randperm(len(content)).tolist()
        ],
        source=_PCL,
    ),
    "reverse": Augmentation(pieces=lambda content, *_: list(content[::-1]), source=_PCL),
    "delete": Augmentation(
        pieces=_delete_pieces,
        # Up to a half no sentence loses all of its pieces.
        rate=Rate("delete_rate", 0.2, "share of the word pieces that `delete` takes away", 0.5),
        source=_PCL,
    ),
    "repeat": Augmentation(
        pieces=_repeat_pieces,
        rate=Rate(
            "repeat_rate", 0.2, "share of the word pieces of which `repeat` puts a copy anywhere"
        ),
        source=_PCL,
    ),
    "span": Augmentation(
        pieces=_mask_span,
        rate=Rate(
            "span_rate", 0.2, "share of the word pieces, one at least, that are the span of masks"
        ),
        source="Zhang et al. 2022 (ArcCSE), the light span",
    ),
    "permuted_positions": Augmentation(
        positions=lambda count: list(torch.randperm(count).tolist()), source=_CONSERT
    ),
    "token_cutoff": Augmentation(
        embeddings=lambda vectors, mask, rate: zero_tokens(
            vectors, draw_indices(mask.bool(), rate=rate)
        ),
        rate=Rate("token_cutoff_rate", 0.2, "share of the tokens that become zeros"),
        source=_CONSERT,
    ),
    "feature_cutoff": Augmentation(
        embeddings=lambda vectors, mask, rate: zero_features(
            vectors, draw_indices(torch.ones_like(vectors[:, 0], dtype=torch.bool), rate=rate)
        ),
        rate=Rate(
            "feature_cutoff_rate", 0.2, "share of the features that become zeros, in all tokens"
        ),
        source=_CONSERT,
    ),
    "element_cutoff": Augmentation(
        embeddings=lambda vectors, mask, rate: zero_elements(
            vectors,
            draw_indices(mask.bool().unsqueeze(-1).expand_as(vectors).flatten(1), rate=rate),
        ),
        rate=Rate("element_cutoff_rate", 0.2, "share of the elements of tokens that become zeros"),
        source=_CONSERT,
    ),
    "gaussian_noise": Augmentation(
        embeddings=lambda vectors, mask, rate: vectors + rate * torch.randn_like(vectors),
        rate=Rate("gaussian_noise_std", 0.1, "standard deviation of the noise", None),
        source="ours",
    ),
}


if TYPE_CHECKING:
    AugmentationName = str
else:
    AugmentationName = Literal[tuple(AUGMENTATIONS)]


def rate_setting(name: str) -> Any:
    """Make a pydantic field for the rate of an augmentation, with its bounds and its source."""
    augmentation = AUGMENTATIONS[name]
    rate = augmentation.rate
    assert rate is not None
    return setting(
        rate.default, gt=0, lt=rate.most, description=rate.description, source=augmentation.source
    )


def change_pieces(
    content: Sequence[int], view: View, *, longest: int, mask: int | None = None
) -> list[int]:
    """Change a sentence's word pieces by the augmentations of a view that change these, in order.

    The content is n >= 0 word pieces, without special ones; without any it stays so. It grows to at
    most `longest` pieces; `mask` is the piece that hides another.
    """
    changed = list(content)
    for name, rate in view:
        if changed and (change := AUGMENTATIONS[name].pieces):
            changed = change(changed, rate, longest, mask)
    return changed


def change_embeddings(vectors: Tensor, mask: Tensor, *, view: View) -> Tensor:
    """Change the output of an embedding layer by those augmentations of a view that change it.

    Args:
        vectors: shape (B, L, D).
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        view: what is done, in order.
    """
    for name, rate in view:
        if change := AUGMENTATIONS[name].embeddings:
            vectors = change(vectors, mask, rate)
    return vectors
