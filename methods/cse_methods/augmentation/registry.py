"""Augmentations by name: what each changes, how much of it, and whose it is.

They draw with torch's own generator what the pure functions of this folder take as arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from cse_methods.augmentation.cutoff import draw_places, zero_elements, zero_features, zero_tokens
from cse_methods.augmentation.noise import add_noise
from cse_methods.augmentation.pieces import (
    changed_pieces,
    delete_pieces,
    insert_copies,
    reverse_pieces,
    shuffle_pieces,
)
from cse_methods.augmentation.spans import mask_span, span_length
from cse_methods.errors import TrainingError
from cse_methods.settings import setting

AugmentationName = Literal[
    "shuffle",
    "reverse",
    "delete",
    "repeat",
    "span",
    "permuted_positions",
    "token_cutoff",
    "feature_cutoff",
    "element_cutoff",
    "gaussian_noise",
]


@dataclass(frozen=True)
class Row:
    """The row of word pieces that a sentence is read as."""

    longest: int
    """Word pieces that a sentence grows to at most, special ones not counted."""
    mask: int | None
    """The piece that hides another; None of a tokenizer without one."""


PieceChange = Callable[[Sequence[int], float, Row], list[int]]
"""From a sentence's word pieces without special ones, n >= 0, and the rate."""
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
    most: float | None
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


View = Sequence[tuple[AugmentationName, float]]
"""The augmentations of a view in order, each with its rate, which some do not read."""


def draw_place(places: Sequence[int]) -> int:
    """Draw one of the places with torch's own generator."""
    return places[int(torch.randint(len(places), ()))]


def _shuffle(content: Sequence[int], rate: float, row: Row) -> list[int]:
    return shuffle_pieces(content, torch.randperm(len(content)).tolist())


def _reverse(content: Sequence[int], rate: float, row: Row) -> list[int]:
    return reverse_pieces(content)


def _delete(content: Sequence[int], rate: float, row: Row) -> list[int]:
    count = len(content)
    gone = range(changed_pieces(count, rate))
    return delete_pieces(content, [draw_place(range(count - k)) for k in gone])


def _repeat(content: Sequence[int], rate: float, row: Row) -> list[int]:
    count = len(content)
    copies = range(max(0, min(changed_pieces(count, rate), row.longest - count)))
    choices = [draw_place(range(count + k)) for k in copies]
    return insert_copies(content, choices, [draw_place(range(count + k + 1)) for k in copies])


def _mask_span(content: Sequence[int], rate: float, row: Row) -> list[int]:
    if row.mask is None:
        raise TrainingError("span hides word pieces by a mask, which this backbone does not have")
    length = span_length(len(content), rate)
    start = draw_place(range(len(content) - length + 1))
    return mask_span(content, start, length, mask=row.mask)


def _permute(count: int) -> list[int]:
    order: list[int] = torch.randperm(count).tolist()
    return order


def _cut_tokens(vectors: Tensor, mask: Tensor, rate: float) -> Tensor:
    return zero_tokens(vectors, draw_places(mask.bool(), rate=rate))


def _cut_features(vectors: Tensor, mask: Tensor, rate: float) -> Tensor:
    every = torch.ones_like(vectors[:, 0], dtype=torch.bool)
    return zero_features(vectors, draw_places(every, rate=rate))


def _cut_elements(vectors: Tensor, mask: Tensor, rate: float) -> Tensor:
    real = mask.bool().unsqueeze(-1).expand_as(vectors).flatten(1)
    return zero_elements(vectors, draw_places(real, rate=rate))


def _add_noise(vectors: Tensor, mask: Tensor, rate: float) -> Tensor:
    return add_noise(vectors, torch.randn_like(vectors), spread=rate)


def _share(name: str, description: str, *, most: float = 1.0) -> Rate:
    return Rate(f"{name}_rate", 0.2, f"share of {description}", most)


_PCL, _CONSERT = "Wu et al. 2022 (PCL)", "Yan et al. 2021 (ConSERT)"
AUGMENTATIONS: dict[AugmentationName, Augmentation] = {
    "shuffle": Augmentation(pieces=_shuffle, source=_PCL),
    "reverse": Augmentation(pieces=_reverse, source=_PCL),
    "delete": Augmentation(
        pieces=_delete,
        # Up to a half no sentence loses all of its pieces.
        rate=_share("delete", "the word pieces that `delete` takes away", most=0.5),
        source=_PCL,
    ),
    "repeat": Augmentation(
        pieces=_repeat,
        rate=_share("repeat", "the word pieces of which `repeat` puts a copy anywhere"),
        source=_PCL,
    ),
    "span": Augmentation(
        pieces=_mask_span,
        rate=_share("span", "the word pieces, one at least, that are the span of masks"),
        source="Zhang et al. 2022 (ArcCSE), the light span",
    ),
    "permuted_positions": Augmentation(positions=_permute, source=_CONSERT),
    "token_cutoff": Augmentation(
        embeddings=_cut_tokens,
        rate=_share("token_cutoff", "the tokens that become zeros"),
        source=_CONSERT,
    ),
    "feature_cutoff": Augmentation(
        embeddings=_cut_features,
        rate=_share("feature_cutoff", "the features that become zeros, in all tokens"),
        source=_CONSERT,
    ),
    "element_cutoff": Augmentation(
        embeddings=_cut_elements,
        rate=_share("element_cutoff", "the elements of tokens that become zeros"),
        source=_CONSERT,
    ),
    "gaussian_noise": Augmentation(
        embeddings=_add_noise,
        rate=Rate("gaussian_noise_std", 0.1, "standard deviation of the noise", None),
        source="ours",
    ),
}


def rate_setting(name: AugmentationName) -> Any:
    """A pydantic field for the rate of an augmentation, with its bounds and its source."""
    augmentation = AUGMENTATIONS[name]
    rate = augmentation.rate
    if rate is None:
        raise ValueError(f"{name} has no rate")
    return setting(
        rate.default, gt=0, lt=rate.most, description=rate.description, source=augmentation.source
    )


def change_pieces(content: Sequence[int], view: View, row: Row) -> list[int]:
    """A sentence's word pieces, changed by the augmentations of a view that change these.

    Args:
        content: n >= 0 word pieces, without special ones; without any it stays so.
        view: what is done, in order.
        row: what the sentence is read as.
    """
    changed = list(content)
    for name, rate in view:
        if changed and (change := AUGMENTATIONS[name].pieces):
            changed = change(changed, rate, row)
    return changed


def change_embeddings(vectors: Tensor, mask: Tensor, *, view: View) -> Tensor:
    """The output of an embedding layer, changed by the augmentations of a view that change that.

    Args:
        vectors: shape (B, L, D).
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        view: what is done, in order.
    """
    for name, rate in view:
        if change := AUGMENTATIONS[name].embeddings:
            vectors = change(vectors, mask, rate)
    return vectors
