"""Several small figures side by side, which share a title and a legend."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cse_dashboards.figures.look import make_figure

ROW, BETWEEN = 420, 120
"""Pixels of a row with its axes, and of the axes and names between two rows."""


def panelled(
    panels: Mapping[str, Sequence[Any]],
    *,
    title: str,
    x: str,
    y: str,
    shared_yaxes: bool | str = False,
    horizontal_spacing: float = 0.1,
    row_height: int = ROW,
    **layout: Any,
) -> go.Figure:
    """A figure of panels, three in a row at most, each under its name."""
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[short(name, 40) for name in panels],
        figure=make_figure(
            title=title, x=x, y=y, height=rows * row_height + 60, margin_t=88, **layout
        ),
        shared_yaxes=shared_yaxes,
        horizontal_spacing=horizontal_spacing,
        vertical_spacing=BETWEEN / (rows * row_height),
    )
    for place, traces in enumerate(panels.values()):
        row, column = place // columns + 1, place % columns + 1
        figure.add_traces(list(traces), rows=row, cols=column)
    figure.update_annotations(font_size=14)
    return figure.update_xaxes(title_text=x).update_yaxes(title_text=y)


def short(text: str, most: int) -> str:
    """The text, or as many of its characters with a mark that there is more."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
