"""A dev curve as a few lines of text, drawn in braille characters."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

ROWS = 8
COLUMNS = 60
LABEL = 7
"""Columns of the numbers on the left; with axis and curve a line has 69 at most."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a braille character, by row and column: which bit sets the dot."""
_BLANK = 0x2800
_HIGH, _WIDE = 4 * ROWS - 1, 2 * COLUMNS - 1
"""The last dot from the bottom, and from the left."""

Point = tuple[int, float | None]
Dot = tuple[int, int]
"""From the left and from the bottom, in dots."""


def chart(points: Sequence[Point], *, best: int | None) -> str:
    """The curve with its axes.

    Args:
        points: (step, fraction) in order of steps; None is a gap in the line.
        best: step to mark on the axis with a triangle.

    Returns:
        Lines of at most 72 columns: values x 100 upwards, steps to the right. Empty where no
        point has a value.
    """
    values = [value for _, value in points if value is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    first, last = points[0][0], points[-1][0]
    dots = [
        (_place(step, first, last, _WIDE), None if v is None else _place(v, low, high, _HIGH))
        for step, v in points
    ]
    rows = _braille(set(_drawn(dots)))
    labels = _labels(low, high)
    body = [f"{label:>{LABEL}} ┤{row}".rstrip() for label, row in zip(labels, rows, strict=True)]
    mark = None if best is None else _place(best, first, last, _WIDE) // 2
    return "\n".join([*body, _axis(mark), _steps(first, last)])


def _place(value: float, low: float, high: float, size: int) -> int:
    """Where a value lies on an axis of that size; in its middle where all values are equal."""
    return round((value - low) / (high - low) * size) if high > low else size // 2


def _labels(low: float, high: float) -> list[str]:
    values = {ROWS // 2: high} if low == high else {0: high, ROWS - 1: low}
    return [f"{100 * values[row]:.2f}" if row in values else "" for row in range(ROWS)]


def _drawn(points: Sequence[tuple[int, int | None]]) -> Iterator[Dot]:
    """The points and the straight lines between neighbours."""
    yield from ((x, y) for x, y in points if y is not None)
    for (x, y), (to_x, to_y) in pairwise(points):
        if y is not None and to_y is not None:
            length = max(abs(to_x - x), abs(to_y - y))
            for at in range(1, length):
                yield x + round((to_x - x) * at / length), y + round((to_y - y) * at / length)


def _braille(dots: set[Dot]) -> list[str]:
    """Rows of characters, the highest first."""
    cells = [[_BLANK] * COLUMNS for _ in range(ROWS)]
    for x, y in dots:
        row, down = divmod(_HIGH - y, 4)
        cells[row][x // 2] |= _DOTS[down][x % 2]
    return ["".join(" " if cell == _BLANK else chr(cell) for cell in row) for row in cells]


def _axis(mark: int | None) -> str:
    line = "─" * COLUMNS if mark is None else "─" * mark + "▲" + "─" * (COLUMNS - mark - 1)
    return f"{'':>{LABEL}} └{line}"


def _steps(first: int, last: int) -> str:
    left = f"{'':>{LABEL}}  "
    if first == last:
        return left + str(first).center(COLUMNS).rstrip()
    return left + str(first) + str(last).rjust(COLUMNS - len(str(first)))
