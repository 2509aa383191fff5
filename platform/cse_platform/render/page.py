"""Pages for people, made of headings, paragraphs, tables and curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from cse_platform.render.formats import percent
from cse_platform.render.table import Table

BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[float]) -> str:
    """Draw a bar for each count, from a blank for 0 to a full block for the highest."""
    most = max((*counts, 0)) or 1
    return "".join(BARS[ceil(count * (len(BARS) - 1) / most)] for count in counts)


def sparkline(values: Sequence[float | None], *, width: int = 60) -> str:
    """Draw a curve scaled between its lowest and highest values; a missing value is a blank.

    With more values than `width` characters, neighbouring values are averaged.
    """
    size = min(len(values), width)
    parts = [values[n * len(values) // size : (n + 1) * len(values) // size] for n in range(size)]
    known = [[value for value in part if value is not None] for part in parts]
    means = [sum(part) / len(part) if part else None for part in known]
    there = [mean for mean in means if mean is not None]
    if not there:
        return ""
    low, span = min(there), (max(there) - min(there)) or 1.0
    steps = len(BARS) - 2
    return "".join(
        " " if mean is None else BARS[1 + round((mean - low) / span * steps)] for mean in means
    )


Point = tuple[int, float | None]


@dataclass(frozen=True)
class Heading:
    """The title of the following blocks, up to the next heading of its level."""

    kind: ClassVar[str] = "heading"

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of Markdown."""

    kind: ClassVar[str] = "paragraph"

    text: str


@dataclass(frozen=True)
class Curve:
    """A dev curve in which at least one point has a value."""

    kind: ClassVar[str] = "curve"

    points: tuple[Point, ...]
    """(step, fraction) in order of steps; None is a gap."""
    best: int | None
    """The step of the best value."""

    @property
    def text(self) -> str:
        """The curve on one line: first value, bars, last value, and steps."""
        values = [value for _, value in self.points]
        known = [value for value in values if value is not None]
        best = "" if self.best is None else f", best at {self.best}"
        return (
            f"{percent(known[0])} {sparkline(values)} {percent(known[-1])}, "
            f"steps {self.points[0][0]} to {self.points[-1][0]}{best}"
        )


Block = Heading | Paragraph | Table | Curve
Page = Sequence[Block]
