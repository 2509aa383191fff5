"""Rows of the leaderboard in one figure: styles, data sources and labels."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from cse_dashboards.figures.labels import labelled_rows
from cse_dashboards.figures.picture import PALETTE, Picture, file_name, see_through
from cse_platform.leaderboard.columns import OWN_FILE, shown_dev_set
from cse_platform.leaderboard.published.matching import PAPERS
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
    # Not from the palette, which methods of other packages get their colours from.
    **{"dclr": "#7b4fb5", "pcl": "#8c564b", "diffcse": "#17a2a2"},
    **{"arccse": "#b5892f", "mixcse": "#5a7d2a", "mocose": "#a23b72"},
    **{"promptbert": "#3f6fb0", "l2pcsr": "#6b6b6b", "infocse": "#9a8b1f"},
    **{"isbert": "#4e6e8e", "consert": "#c2672f", "ct": "#3f8f6b", "bertflow": "#8a6fb0"},
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")


@dataclass(frozen=True)
class Style:
    """The colour, dash and symbol of a line, bar or marker."""

    colour: str
    further: int = 0
    """Index among lines of the same colour; above 0 it selects another dash and symbol."""

    @property
    def dash(self) -> str:
        return _DASHES[self.further % len(_DASHES)]

    @property
    def symbol(self) -> str:
        return _SYMBOLS[self.further % len(_SYMBOLS)]

    def faded(self, alpha: float = 0.2) -> str:
        """Return the colour with transparency, for bands around a line."""
        return see_through(self.colour, alpha)


def method_style(method: str) -> Style:
    """Return the style of a method.

    A method of another package gets a palette colour by its name, and is dashed, because its colour
    is shared with a method of ours.
    """
    if method in _SHIPPED:
        return Style(_SHIPPED[method])
    place = int.from_bytes(sha256(method.encode()).digest()[:4])
    dashed = 1 + place // len(PALETTE) % (len(_DASHES) - 1)
    return Style(PALETTE[place % len(PALETTE)], dashed)


def row_styles(labelled: Mapping[str, LeaderboardRow]) -> dict[str, Style]:
    """Style rows by label: the method's colour, with another dash for each further row of the
    method.

    If all rows are of one method, each gets its own colour instead.
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
    """Assign colours in order to labels that are not methods: seeds, tasks, configurations."""
    return {
        label: Style(PALETTE[place % len(PALETTE)], place // len(PALETTE))
        for place, label in enumerate(labels)
    }


Rows = Sequence[LeaderboardRow]
MOST_COLOURS = len(PALETTE)
PANELS = 4
"""Most rows in a figure with a panel per row."""
SENTEVAL = "SentEval data"
TO_EVALUATE = "in a sweep file, or cse-evaluate TRIAL --tasks"


def first_rows(rows: Rows) -> tuple[Mapping[str, LeaderboardRow], str]:
    """Label the first rows, as many as there are colours. Also returns a caption note."""
    cut = len(rows) > MOST_COLOURS
    left = f" The first {MOST_COLOURS} of {len(rows)} rows are shown." if cut else ""
    return labelled_rows(rows[:MOST_COLOURS]), left


def left_out(asked: Iterable[str], found: Mapping[str, object], what: str) -> str:
    """Format a caption note that lists the requested labels without data."""
    absent = [label for label in asked if label not in found]
    return f" Without {what}, and left out: {', '.join(absent)}." if absent and found else ""


def data_of(source: str) -> str:
    """Name the data of a score by its source. Scores on different data are in separate figures."""
    return SENTEVAL if source in PAPERS else f"{source or 'unknown'} data"


def dev_data(row: LeaderboardRow) -> str:
    """Name the data of a dev score; each of a lab's own dev sets counts as different data."""
    return shown_dev_set(row) if row.dev.source == OWN_FILE else data_of(row.dev.source)


def best_scored_trial(row: LeaderboardRow, task: str) -> str | None:
    """Return the key of a row's best seed on dev among those that are scored on a task."""
    scored = row.scores[task].values if task in row.scores else {}
    best = max(scored, key=lambda seed: row.dev_score.values[seed], default=None)
    return None if best is None else row.keys[best]


def picture_per_data(data: Iterable[str], draw: Callable[[str], Picture]) -> list[Picture]:
    """Make a picture for each data source; if there are several, their titles name the sources.

    `data` has the name of each row's data, from `data_of`; `draw` makes the picture for one name.
    """
    several = list(dict.fromkeys(data)) or [SENTEVAL]
    if len(several) == 1:
        return [draw(several[0])]
    return [_label_with_data(draw(source), source) for source in several]


def picture_per_dev_data(rows: Rows, draw: Callable[[Rows], Picture]) -> list[Picture]:
    """Make a picture for each source of dev data, like `picture_per_data`."""
    return picture_per_data(
        map(dev_data, rows), lambda data: draw([row for row in rows if dev_data(row) == data])
    )


def _label_with_data(picture: Picture, data: str) -> Picture:
    return replace(
        picture,
        name=f"{picture.name}_{file_name(data)}",
        title=f"{picture.title}, {data}",
        caption=f"Rows on {data} only: scores on other data are in a figure of their own. "
        + picture.caption,
    )
