"""A figure with what a reader needs beside it, wherever it is shown."""

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True)
class Picture:
    """One figure of the page, the report or MLflow; or why there is none."""

    name: str
    """Of its file: lower case, digits and `_`."""
    title: str
    caption: str
    """What it shows, over what, and the paper's figure that it is after; one or two sentences."""
    figure: go.Figure | None = None
    missing: str | None = None
    """Where there is no figure: what it lacks and the way to it, in a sentence."""
