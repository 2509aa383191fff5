"""Changes of a sentence's word pieces: PCL's deletions and repetitions, and spans of masks.

Lists of ids without special pieces go in and come out; every draw is an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass


def changed_pieces(count: int, rate: float) -> int:
    """How many of `count` pieces are deleted or repeated: their share, halves to the even."""
    return round(rate * count)


def delete_pieces(content: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The content without some pieces, drawn one after another.

    Args:
        content: n pieces.
        choices: at most n places; the k-th is one of the n - k that are then left. The piece that
            goes is the first that is the same as the one at that place, as in the released code.
    """
    left = list(content)
    for place in choices:
        left.remove(left[place])
    return left


def insert_copies(
    content: Sequence[int], choices: Sequence[int], places: Sequence[int]
) -> list[int]:
    """The content with copies of some pieces, drawn one after another.

    Args:
        content: n pieces.
        choices: places of the pieces that are copied; the k-th is one of the n + k that there
            are then.
        places: the k-th copy stands before the piece at the k-th of these, from 0 to n + k.
    """
    longer = list(content)
    for choice, place in zip(choices, places, strict=True):
        longer.insert(place, longer[choice])
    return longer


@dataclass(frozen=True)
class NestedSpans:
    """The lengths of two spans of one sentence, of which the heavy one contains the light one.

    Where the paper leaves open how spans are drawn, this is our convention.
    """

    pieces: int
    """The sentence's word pieces, without special ones."""
    light: int
    heavy: int

    @classmethod
    def of(cls, pieces: int, *, light_rate: float, heavy_rate: float) -> "NestedSpans":
        """Measure the spans: a share of the sentence each, rounded down, the heavy one longer.

        Args:
            pieces: n >= 1 word pieces, without special ones.
            light_rate: share of the light span, in (0, 1); it has at least one piece.
            heavy_rate: share of the heavy span, in (light_rate, 1]; at least one piece more, and
                at most n.
        """
        light = span_length(pieces, light_rate)
        return cls(pieces, light, min(pieces, max(light + 1, int(heavy_rate * pieces))))

    def heavy_starts(self, light_start: int) -> range:
        """The places where the heavy span can start so that it contains the light one."""
        lowest = max(0, light_start + self.light - self.heavy)
        return range(lowest, min(light_start, self.pieces - self.heavy) + 1)


def span_length(pieces: int, rate: float) -> int:
    """The length of a span: a share of n >= 1 word pieces, rounded down, and at least one."""
    return max(1, int(rate * pieces))


def mask_span(content: Sequence[int], start: int, length: int, *, mask: int) -> list[int]:
    """Replace each piece of a span within the content by the mask."""
    return [*content[:start], *[mask] * length, *content[start + length :]]
