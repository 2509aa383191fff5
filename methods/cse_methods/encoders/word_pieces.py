"""Word pieces of sentences: repeat them, cut them into segments or parts, and batch rows by length.

Sentences are lists of ids without special tokens.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

RepetitionBounds = Literal["released", "paper"]
"""The upper bound on repetitions: that of ESimCSE's released code, or that of its paper."""

_RELEASED_LIMIT = 10


def repeat_pieces(content: Sequence[int], positions: Collection[int]) -> list[int]:
    """Return the pieces with those at `positions` repeated once, next to themselves."""
    chosen = set(positions)
    return [piece for i, piece in enumerate(content) for piece in [piece] * (1 + (i in chosen))]


def most_repeats(length: int, *, rate: float, bounds: RepetitionBounds) -> int:
    """Compute the largest number of pieces to repeat; the actual number is drawn from 0 to this.

    Args:
        length: word pieces of the sentence with its two special tokens.
        rate: the share of them that may be repeated, in [0, 1].
        bounds: "released" is one below that share, and at most 9; "paper" allows at least 2.

    Returns:
        From 0 to the number of pieces that are not special.

    Source:
        Wu et al. 2022 (ESimCSE), and its released code.
    """
    share = int(rate * length)
    most = max(2, share) if bounds == "paper" else min(_RELEASED_LIMIT, share) - 1
    return max(0, min(most, length - 2))


def cut_segments(content: Sequence[int], length: int) -> list[list[int]]:
    """Cut a sentence's pieces into segments of `length`, of which the last may be shorter.

    An empty sentence gives one empty segment, so that every sentence has a segment.

    Source:
        Wu et al. 2023 (HiCL), section 3.1.
    """
    return [list(content[i : i + length]) for i in range(0, max(len(content), 1), length)]


def cut_parts(content: Sequence[int], count: int) -> list[list[int]]:
    """Cut a sentence's pieces into `count` consecutive parts whose sizes differ by at most one.

    The longer parts come first. If there are fewer pieces than parts, every part has all pieces.

    Source:
        Chanchani and Huang 2023 (CompCSE), section 3; the order of longer parts and the treatment
        of short sentences are not stated there.
    """
    if len(content) < count:
        return [list(content) for _ in range(count)]
    size, longer = divmod(len(content), count)
    ends = [(i + 1) * size + min(i + 1, longer) for i in range(count)]
    return [list(content[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def batched_by_length(lengths: Sequence[int], *, at_once: int) -> Iterator[list[int]]:
    """Yield the indices of rows in batches of similar length, shortest first.

    A batch's number of rows times its longest row is at most `at_once`, except for a single row.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > at_once:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
