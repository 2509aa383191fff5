"""A page for people: headings, paragraphs, tables and curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cse_platform.render.formats import percent
from cse_platform.render.sparkline import sparkline
from cse_platform.render.table import Table

Point = tuple[int, float | None]


@dataclass(frozen=True)
class Heading:
    """The title of what follows, up to the next heading of its level."""

    kind: ClassVar[str] = "heading"

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """Running text, as Markdown."""

    kind: ClassVar[str] = "paragraph"

    text: str


@dataclass(frozen=True)
class Curve:
    """A dev curve; at least one of its points has a value."""

    kind: ClassVar[str] = "curve"

    points: tuple[Point, ...]
    """(step, fraction) in order of steps; None is a gap."""
    best: int | None
    """The step of the best value."""

    @property
    def text(self) -> str:
        """The curve on one line: lowest value, bars, highest value, and steps."""
        values = [value for _, value in self.points]
        known = [value for value in values if value is not None]
        best = "" if self.best is None else f", best at {self.best}"
        return (
            f"{percent(min(known))} {sparkline(values)} {percent(max(known))}, "
            f"steps {self.points[0][0]} to {self.points[-1][0]}{best}"
        )


Block = Heading | Paragraph | Table | Curve
Page = Sequence[Block]
