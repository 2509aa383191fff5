"""Word pieces that a generator replaces: masks for it to fill, and what it puts in their place."""

from typing import Any, Literal

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor

Replaced = Literal["all", "masked"]
"""Where a generator's guess takes the place of a word piece: everywhere, or at its masks."""
MASK_SHARE, RANDOM_SHARE = 0.8, 0.5
"""Of the chosen pieces so many become masks, and of the others so many a random piece."""


def mask_for_generator(
    ids: Tensor,
    special: Tensor,
    chosen: Tensor,
    masked: Tensor,
    random: Tensor,
    words: Tensor,
    *,
    rate: float,
    mask: int,
) -> Tensor:
    """Hide a share of the word pieces of whole rows, as for masked language modelling.

    Of the chosen ones 80 % become masks, 10 % a random piece, and 10 % stay as they are. Every
    tensor has the shape (B, L), as the result has.

    Args:
        ids: the word pieces.
        special: true where a piece is never chosen.
        chosen: uniform in [0, 1); a piece is chosen where it is below the rate.
        masked: uniform in [0, 1).
        random: uniform in [0, 1).
        words: the random pieces.
        rate: share of the pieces that are chosen.
        mask: the piece that hides another.

    Source:
        Chuang et al. 2022 (DiffCSE), as its released code draws them.
    """
    picked = (chosen < rate) & ~special.bool()
    hidden = picked & (masked < MASK_SHARE)
    other = picked & ~hidden & (random < RANDOM_SHARE)
    return torch.where(hidden, mask, torch.where(other, words, ids))


def hide_pieces(ids: Tensor, tokenizer: Any, *, rate: float) -> tuple[Tensor, Tensor]:
    """Hide a share of the word pieces of whole rows (B, L), drawn by torch's generator on the CPU.

    Returns:
        The rows with hidden pieces, and a mask of the pieces that were chosen; on the rows' device.
    """
    chosen, masked, random = send_tensor(torch.rand(3, *ids.shape), ids.device)
    special = torch.isin(ids, send_tensor(torch.tensor(tokenizer.all_special_ids), ids.device))
    words = send_tensor(torch.randint(len(tokenizer), ids.shape), ids.device)
    mask = int(tokenizer.mask_token_id)
    hidden = mask_for_generator(ids, special, chosen, masked, random, words, rate=rate, mask=mask)
    return hidden, (chosen < rate) & ~special


def replace_pieces(
    ids: Tensor, mask: Tensor, guesses: Tensor, *, where: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Put a generator's guesses in the place of word pieces; the first of each row stays.

    Args:
        ids: whole rows, shape (B, L).
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        guesses: a piece for each place, shape (B, L).
        where: true where a guess takes a piece's place, shape (B, L); None is everywhere.

    Returns:
        The rows with the guesses, 0 at padding, and labels: 1 where a piece is another one than
        before, 0 elsewhere and at padding. Each has the shape (B, L).

    Source:
        Chuang et al. 2022 (DiffCSE), as its released code has it.
    """
    replaced = torch.ones_like(mask, dtype=torch.bool) if where is None else where.bool()
    first = torch.arange(ids.shape[1], device=ids.device) == 0
    edited = torch.where(replaced & ~first, guesses, ids) * mask
    return edited, (edited != ids).long() * mask
