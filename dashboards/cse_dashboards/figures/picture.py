"""A figure with its data, and with what a reader needs beside it."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import TrialNotes


class Drawn(NamedTuple):
    """A figure and the data that it shows."""

    figure: go.Figure
    data: pd.DataFrame
    """In the units of the figure's axes, whose titles are the names of the columns."""


@dataclass(frozen=True, eq=False)
class Picture:
    """One figure of the page, the report or MLflow; or why there is none."""

    name: str
    """Of its file: lower case, digits and `_`."""
    title: str
    caption: str
    """What it shows, over what, and the paper's figure that it is after; one or two sentences."""
    figure: go.Figure | None = None
    data: pd.DataFrame | None = None
    trials: TrialNotes = field(default_factory=dict)
    """Of the trials that points and lines stand for, by their `ids`."""
    missing: str | None = None
    """Where there is no figure: what it lacks and the way to it, in a sentence."""

    @property
    def csv(self) -> str:
        """Its data, one line a record."""
        return "" if self.data is None else self.data.to_csv(index=False, lineterminator="\n")


def file_name(text: str) -> str:
    """A text as a part of a picture's name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower())
