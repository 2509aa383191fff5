"""Changes of a sentence's word pieces: PCL's deletions and repetitions, and spans of masks.

Lists of ids without special pieces go in and come out; every draw is an argument.
"""

from collections.abc import Sequence


def changed_pieces(count: int, rate: float) -> int:
    """Compute how many of `count` pieces are deleted or repeated: a share, halves to the even."""
    return round(rate * count)


def delete_pieces(content: Sequence[int], choices: Sequence[int]) -> list[int]:
    """Delete some pieces of the content, drawn one after another.

    Args:
        content: n pieces.
        choices: at most n indices; the k-th is one of the n - k that are then left. The first piece
            that equals the one at that index is deleted, as in the released code.
    """
    left = list(content)
    for index in choices:
        left.remove(left[index])
    return left


def insert_copies(
    content: Sequence[int], choices: Sequence[int], targets: Sequence[int]
) -> list[int]:
    """Insert copies of some pieces of the content, drawn one after another.

    Args:
        content: n pieces.
        choices: indices of the pieces that are copied; the k-th is one of the n + k that there
            are then.
        targets: the k-th copy is inserted before the piece at this index, from 0 to n + k.
    """
    longer = list(content)
    for choice, target in zip(choices, targets, strict=True):
        longer.insert(target, longer[choice])
    return longer


def measure_nested_spans(pieces: int, *, light_rate: float, heavy_rate: float) -> tuple[int, int]:
    """Compute the lengths of two spans of a sentence: a light one, and a heavy one around it.

    Each is a share of the sentence, rounded down. The paper leaves open how spans are drawn; this
    is our convention.

    Args:
        pieces: n >= 1 word pieces, without special ones.
        light_rate: share of the light span, in (0, 1); it has at least one piece.
        heavy_rate: share of the heavy span, in (light_rate, 1]; at least one piece more, and at
            most n.

    Returns:
        The length of the light span, and that of the heavy one.
    """
    light = span_length(pieces, light_rate)
    return light, min(pieces, max(light + 1, int(heavy_rate * pieces)))


def list_heavy_starts(light_start: int, pieces: int, lengths: tuple[int, int]) -> range:
    """List the indices at which the heavy span can start so that it contains the light one.

    Takes the start of the light span, the pieces of the sentence, and the lengths of both spans.
    """
    light, heavy = lengths
    return range(max(0, light_start + light - heavy), min(light_start, pieces - heavy) + 1)


def span_length(pieces: int, rate: float) -> int:
    """Compute the length of a span: a share of n >= 1 word pieces, rounded down, at least one."""
    return max(1, int(rate * pieces))


def mask_span(content: Sequence[int], start: int, length: int, *, mask: int) -> list[int]:
    """Replace each piece of a span within the content by the mask."""
    return [*content[:start], *[mask] * length, *content[start + length :]]
