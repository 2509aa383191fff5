"""Numbers as one line of bars: small enough that no library is needed."""

from collections.abc import Sequence
from math import ceil

BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[float]) -> str:
    """A bar for each count, from nothing for 0 to a whole block for the highest."""
    most = max((*counts, 0)) or 1
    return "".join(BARS[ceil(count * (len(BARS) - 1) / most)] for count in counts)


def sparkline(values: Sequence[float | None], *, width: int = 60) -> str:
    """A curve from its lowest to its highest value; a value that is missing is a blank.

    Where there are more values than `width` characters, the means of neighbours are drawn.
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
