"""The style of each method in every figure, whichever rows are beside it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from cse_dashboards.figures.picture import PALETTE, see_through
from cse_platform.leaderboard.records import LeaderboardRow

_SHIPPED = {
    "simcse": PALETTE[0],
    "whitenedcse": PALETTE[1],
    "compcse": PALETTE[2],
    "sncse": PALETTE[3],
    "esimcse": PALETTE[4],
    "rankcse": PALETTE[5],
    "untrained": PALETTE[6],
    "hicl": PALETTE[7],
    # Beyond the palette, which every method from outside takes its colour from.
    **{"dclr": "#7b4fb5", "pcl": "#8c564b", "diffcse": "#17a2a2"},
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")


@dataclass(frozen=True)
class Style:
    """The style of one line, bar or marker."""

    colour: str
    further: int = 0
    """Above 0 for further lines of the same colour: each has its own dash and marker."""

    @property
    def dash(self) -> str:
        return _DASHES[self.further % len(_DASHES)]

    @property
    def symbol(self) -> str:
        return _SYMBOLS[self.further % len(_SYMBOLS)]

    def faded(self, alpha: float = 0.2) -> str:
        """Return the colour, transparent: for bands around a line."""
        return see_through(self.colour, alpha)


def method_style(method: str) -> Style:
    """Return the method's own style.

    A method from outside has a colour by its name, and is dashed: each colour is a shipped one's.
    """
    if method in _SHIPPED:
        return Style(_SHIPPED[method])
    place = int.from_bytes(sha256(method.encode()).digest()[:4])
    dashed = 1 + place // len(PALETTE) % (len(_DASHES) - 1)
    return Style(PALETTE[place % len(PALETTE)], dashed)


def row_styles(labelled: Mapping[str, LeaderboardRow]) -> dict[str, Style]:
    """Style rows by label: the method's colour, and another dash for each further row of it.

    Where all rows are of one method, which a colour would not tell apart, each has its own.
    """
    methods = {row.method for row in labelled.values()}
    if len(methods) == 1 and len(labelled) > 1:
        return styles_in_order(labelled)
    before: Counter[str] = Counter()
    styles = {}
    for label, row in labelled.items():
        own = method_style(row.method)
        styles[label] = Style(own.colour, own.further + before[row.method])
        before[row.method] += 1
    return styles


def styles_in_order(labels: Iterable[str]) -> dict[str, Style]:
    """Give a colour to each label that is no method: seeds, tasks, configurations."""
    return {
        label: Style(PALETTE[place % len(PALETTE)], place // len(PALETTE))
        for place, label in enumerate(labels)
    }
