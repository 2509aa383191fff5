"""Word pieces of sentences: repeated, cut into segments or parts, and sorted into batches.

Lists of ids without special tokens go in and come out.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

RepetitionBounds = Literal["released", "paper"]
"""Whose largest number of repetitions: that of ESimCSE's code or that of its text."""

_RELEASED_LIMIT = 10


def repeat_pieces(content: Sequence[int], positions: Collection[int]) -> list[int]:
    """Return the pieces with those at `positions` doubled where they stand.

    Raises:
        ValueError: if a position is not one of the content's.
    """
    outside = [position for position in positions if not 0 <= position < len(content)]
    if outside:
        raise ValueError(f"no piece {outside[0]} among {len(content)}")
    chosen = set(positions)
    return [piece for i, piece in enumerate(content) for piece in [piece] * (1 + (i in chosen))]


def most_repeats(length: int, *, rate: float, bounds: RepetitionBounds) -> int:
    """Compute the most pieces that may be repeated; how many are is drawn from 0 to this.

    Args:
        length: word pieces of the sentence with its two special tokens.
        rate: share of them that may be repeated, in [0, 1].
        bounds: "released" stops one short of the share, and at 9; "paper" allows 2 in any
            sentence.

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

    An empty content is one empty segment, so that every sentence has one.

    Raises:
        ValueError: if the length is not 1 or more.

    Source:
        Wu et al. 2023 (HiCL), section 3.1.
    """
    if length < 1:
        raise ValueError(f"a segment's length must be 1 or more, got {length}")
    return [list(content[i : i + length]) for i in range(0, max(len(content), 1), length)]


def cut_parts(content: Sequence[int], count: int) -> list[list[int]]:
    """Cut a sentence's pieces into `count` consecutive parts whose sizes differ by one at most.

    The longer parts come first. If there are fewer pieces than parts, every part has all pieces.

    Raises:
        ValueError: if the count is not 1 or more.

    Source:
        Chanchani and Huang 2023 (CompCSE), section 3; that the longer part comes first, and what
        becomes of short sentences, is not in the paper.
    """
    if count < 1:
        raise ValueError(f"the number of parts must be 1 or more, got {count}")
    if len(content) < count:
        return [list(content) for _ in range(count)]
    size, longer = divmod(len(content), count)
    ends = [(i + 1) * size + min(i + 1, longer) for i in range(count)]
    return [list(content[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def batched_by_length(lengths: Sequence[int], *, at_once: int) -> Iterator[list[int]]:
    """Places of rows in batches of near-equal length, shortest first.

    A batch's longest row times its rows is `at_once` at most; a single row may be more.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > at_once:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
