"""How all figures look: colours, axes, and a template for light and one for dark surroundings."""

from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a", "#b8a800",
)  # fmt: skip
"""Colour-blind readers can distinguish these (Okabe and Ito 2008), on white as on black. The last
two replace the palette's black and yellow."""

_FAINT_TO_STRONG = {
    "light": ("#cfe1f2", "#94c4df", "#4a98c9", "#1764ab", "#08306b"),
    "dark": ("#1c3a5e", "#2f6aa3", "#56a0d8", "#9ccdf2", "#e6f4ff"),
}
"""Of what is shown by how strong its colour is: darker on white, brighter on black. Templates have
them; a figure names none."""

FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif"


def colour(place: int) -> str:
    """The colour at that place of the palette; methods have theirs by `method_style`."""
    return PALETTE[place % len(PALETTE)]


def faded(place: int, alpha: float = 0.2) -> str:
    """The same colour, see-through: for bands around a line."""
    return see_through(colour(place), alpha)


def see_through(colour: str, alpha: float) -> str:
    """A colour `#rrggbb` through which what is behind it is seen; `alpha` 1 hides all."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def template(*, ink: str, grid: str, ramp: Sequence[str]) -> go.layout.Template:
    """A template of lines and letters on whatever is behind the figure.

    `ramp` goes from colours near to what is behind to those that stand out.
    """
    scale = [[place / (len(ramp) - 1), one] for place, one in enumerate(ramp)]
    axis = {
        "gridcolor": grid,
        "linecolor": ink,
        "zerolinecolor": grid,
        "ticks": "outside",
        "tickcolor": grid,
        "automargin": True,
        "exponentformat": "e",
        "title": {"standoff": 8},
    }
    layout = {
        "font": {"family": FONT, "size": 13, "color": ink},
        "title": {"x": 0, "xanchor": "left", "xref": "paper", "font": {"size": 16}},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": list(PALETTE),
        "xaxis": axis,
        "yaxis": axis,
        "legend": {
            "bgcolor": "rgba(0,0,0,0)",
            **{"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        },
        "hoverlabel": {"font": {"family": FONT}},
        "margin": {"l": 64, "r": 24, "t": 56, "b": 56},
        "coloraxis": {"colorscale": scale},
    }
    traces = {
        "scatter": [{"marker": {"colorscale": scale}}],
        "heatmap": [{"colorscale": scale}],
        "contour": [{"colorscale": scale}],
    }
    return go.layout.Template(layout=layout, data=traces)


LIGHT = template(ink="#1b1f24", grid="#d5dbe2", ramp=_FAINT_TO_STRONG["light"])
DARK = template(ink="#e6edf3", grid="#313a45", ramp=_FAINT_TO_STRONG["dark"])


def make_figure(*traces: Any, title: str, x: str, y: str, **layout: Any) -> go.Figure:
    """A figure in the light template; axes are named with their unit."""
    figure = go.Figure(data=list(traces))
    return figure.update_layout(
        template=LIGHT, title_text=title, xaxis_title_text=x, yaxis_title_text=y, **layout
    )


def known(values: Iterable[Any]) -> list[Any]:
    """A column as Plotly takes it: None where the frame has no value."""
    return [None if value is None or value != value else value for value in values]
