"""A figure with its data, caption and style."""

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cse_platform.presentation.tables import csv_cell

TrialNotes = Mapping[str, tuple[str, str]]
"""By the id of a trial's point or line, how its key begins, which names its page, and hover text.
"""


class Drawn(NamedTuple):
    """A figure and the data that it shows."""

    figure: go.Figure
    data: pd.DataFrame
    """Data in the units of the axes; axis titles are the column names."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of the page, the report or MLflow, or the reason why there is none."""

    name: str
    """The name of its file: lower case, digits and `_`."""
    title: str
    caption: str
    """One or two sentences: what it shows, over what data, and which paper's figure it follows."""
    figure: go.Figure | None = None
    data: pd.DataFrame | None = None
    trials: TrialNotes = field(default_factory=dict)
    """Notes on the trials behind points and lines, by their `ids`."""
    missing: str | None = None
    """If there is no figure, a sentence about what is missing and how to get it."""

    @property
    def csv(self) -> str:
        """The data as CSV, one line per record."""
        if self.data is None:
            return ""
        safe = self.data.rename(columns=csv_cell).map(
            lambda value: csv_cell(value) if isinstance(value, str) else value
        )
        return safe.to_csv(index=False, lineterminator="\n")


def file_name(text: str) -> str:
    """Convert a text to a part of a picture's name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower())


PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a", "#b8a800",
)  # fmt: skip
"""Colours that colour-blind readers can distinguish (Okabe and Ito 2008), on white and on black.
The last two replace the palette's black and yellow.
"""

_FAINT_TO_STRONG = {
    "light": ("#cfe1f2", "#94c4df", "#4a98c9", "#1764ab", "#08306b"),
    "dark": ("#1c3a5e", "#2f6aa3", "#56a0d8", "#9ccdf2", "#e6f4ff"),
}
"""Colour scales for magnitudes: darker on white, brighter on black. They are part of the templates;
figures do not set them.
"""


def colour(index: int) -> str:
    """Return a colour of the palette by index; methods have theirs from `method_colours`."""
    return PALETTE[index % len(PALETTE)]


def fade(colour: str, alpha: float = 0.2) -> str:
    """Make a colour `#rrggbb` transparent, for bands around a line; `alpha` 1 is opaque."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def template(*, ink: str, grid: str, ramp: Sequence[str]) -> go.layout.Template:
    """Build a Plotly template from that of `template.json`, in these colours.

    `ramp` goes from colours close to the background to those that stand out.
    """
    scale = [[index / (len(ramp) - 1), shade] for index, shade in enumerate(ramp)]
    file = Path(__file__).with_name("template.json")
    layout = json.loads(Template(file.read_text("utf-8")).substitute(ink=ink, grid=grid))
    layout |= {"colorway": list(PALETTE), "coloraxis": {"colorscale": scale}}
    traces = {
        "scatter": [{"marker": {"colorscale": scale}}],
        "heatmap": [{"colorscale": scale}],
        "contour": [{"colorscale": scale}],
    }
    return go.layout.Template(layout=layout, data=traces)


LIGHT = template(ink="#1b1f24", grid="#d5dbe2", ramp=_FAINT_TO_STRONG["light"])
DARK = template(ink="#e6edf3", grid="#313a45", ramp=_FAINT_TO_STRONG["dark"])


LEGEND_LETTERS = 70
"""Most letters in a line of a legend, which fit into half of the page."""


def make_figure(*traces: Any, title: str, x: str, y: str, **layout: Any) -> go.Figure:
    """Make a figure in the light template; axes are named with their unit.

    Long names of traces have several lines, because Plotly cuts a wider entry of a legend.
    """
    figure = go.Figure(data=list(traces))
    for trace in figure.data:
        if trace.name and len(trace.name) > LEGEND_LETTERS:
            trace.name = "<br>".join(textwrap.wrap(trace.name, LEGEND_LETTERS))
    return figure.update_layout(
        template=LIGHT, title_text=title, xaxis_title_text=x, yaxis_title_text=y, **layout
    )


def replace_missing(values: Iterable[Any]) -> list[Any]:
    """Convert a column for Plotly, with None for missing values."""
    return [None if value is None or value != value else value for value in values]


def make_band(
    x: Sequence[Any], low: Sequence[float], high: Sequence[float], *, fill: str, **given: Any
) -> list[go.Scatter]:
    """Make a band between two lines, which are themselves invisible."""
    edge = {"mode": "lines", "line_width": 0, "hoverinfo": "skip", "showlegend": False, **given}
    return [
        go.Scatter(name="low", x=x, y=low, **edge),
        go.Scatter(name="high", x=x, y=high, fill="tonexty", fillcolor=fill, **edge),
    ]


ROW, BETWEEN = 420, 120
"""Height in pixels of a row with its axes, and of the axes and names between two rows."""


def make_panels(
    panels: Mapping[str, Sequence[Any]],
    *,
    title: str,
    axes: Sequence[tuple[str, str]],
    shared_yaxes: bool | str = False,
    horizontal_spacing: float = 0.1,
    row_height: int = ROW,
    **layout: Any,
) -> go.Figure:
    """Make a figure of panels with titles, at most three in a row.

    `axes` are the titles of the panels' two axes; panels beyond have none.
    """
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[cut_text(name, 40) for name in panels],
        figure=make_figure(
            title=title, x="", y="", height=rows * row_height + 60, margin_t=88, **layout
        ),
        shared_yaxes=shared_yaxes,
        horizontal_spacing=horizontal_spacing,
        vertical_spacing=BETWEEN / (rows * row_height),
        # A cell without a panel has no axes: a narrow page makes room for each pair of axes.
        specs=[
            [{} if row * columns + column < len(panels) else None for column in range(columns)]
            for row in range(rows)
        ],
    )
    for index, traces in enumerate(panels.values()):
        row, column = index // columns + 1, index % columns + 1
        figure.add_traces(list(traces), rows=row, cols=column)
    sides = zip(figure.select_xaxes(), figure.select_yaxes(), axes, strict=False)
    for across, down, (x, y) in sides:
        across.title.text, down.title.text = x, y
    return figure.update_annotations(font_size=14)


def cut_text(text: str, most: int) -> str:
    """Cut a text to `most` characters, with an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
