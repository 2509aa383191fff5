"""Spans of word pieces that become masks: a light one within a heavy one."""

from collections.abc import Sequence
from dataclasses import dataclass


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

        Raises:
            ValueError: if there is no piece, or not 0 < light_rate < heavy_rate <= 1.
        """
        if pieces < 1:
            raise ValueError(f"expected at least one word piece, got {pieces}")
        if not 0 < light_rate < heavy_rate <= 1:
            raise ValueError(
                f"0 < light_rate < heavy_rate <= 1 must hold, got {light_rate} and {heavy_rate}"
            )
        light = span_length(pieces, light_rate)
        return cls(pieces, light, min(pieces, max(light + 1, int(heavy_rate * pieces))))

    @property
    def light_starts(self) -> range:
        """The places where the light span can start."""
        return range(self.pieces - self.light + 1)

    def heavy_starts(self, light_start: int) -> range:
        """The places where the heavy span can start so that it contains the light one."""
        lowest = max(0, light_start + self.light - self.heavy)
        return range(lowest, min(light_start, self.pieces - self.heavy) + 1)


def span_length(pieces: int, rate: float) -> int:
    """The length of a span: a share of n >= 1 word pieces, rounded down, and at least one."""
    return max(1, int(rate * pieces))


def mask_span(content: Sequence[int], start: int, length: int, *, mask: int) -> list[int]:
    """Replace each piece of a span by the mask.

    Raises:
        ValueError: if the span reaches beyond the content.
    """
    if not 0 <= start <= start + length <= len(content):
        raise ValueError(f"no span of {length} pieces at {start} in {len(content)} pieces")
    return [*content[:start], *[mask] * length, *content[start + length :]]
