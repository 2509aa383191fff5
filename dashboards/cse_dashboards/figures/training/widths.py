"""Dev scores by width: of how many first coordinates of each vector (Matryoshka)."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import Picture, make_panels
from cse_methods.data.dev_selection import ByWidth
from cse_platform.leaderboard.api import Leaderboard

WIDTH = "first coordinates"


def rows_by_width(reader: Leaderboard, rows: labels.Rows) -> Picture:
    """Show the dev scores of the first rows by width; those that have none are left out."""
    labelled, left = labels.first_rows(rows)
    pairs = zip(labelled, reader.by_width(list(labelled.values())), strict=True)
    curves = {label: by_width for label, by_width in pairs if by_width}
    notes = " Mean over the seeds." + labels.left_out(labelled, curves, "scores by width") + left
    return width_picture(curves, labels.row_styles(labelled), notes)


def width_picture(
    curves: Mapping[str, ByWidth], styles: Mapping[str, labels.Style], notes: str = ""
) -> Picture:
    """Show dev scores by width: a panel for each dev set, a line from the narrowest to the full
    vectors for each label. The caption ends with `notes`.
    """
    name, title = "dev_by_width", "Dev scores by width"
    caption = f"Kept checkpoints, if only the first coordinates of each vector are read.{notes}"
    if not any(curves.values()):
        return Picture(name, title, caption, missing="no trial with matryoshka has ended yet")
    panels, records = dict[str, list[go.Scatter]](), list[tuple[str, str, int, float]]()
    for label, by_width in curves.items():
        for task, scores in by_width.items():
            quantity = labels.dev_quantity(task)
            points = [(width, quantity.factor * scores[width]) for width in sorted(scores)]
            records += [(label, quantity.name, *point) for point in points]
            line = go.Scatter(
                name=label,
                x=[width for width, _ in points],
                y=[score for _, score in points],
                mode="lines+markers",
                line={"color": styles[label].colour, "width": 2, "dash": styles[label].dash},
                marker={"size": 5, "symbol": styles[label].symbol},
                legendgroup=label,
                showlegend=len(curves) > 1 and task == next(iter(by_width)),
            )
            panels.setdefault(quantity.title, []).append(line)
    figure = make_panels(panels, title=title, axes=[(WIDTH, "")] * len(panels), row_height=320)
    widths = sorted({width for _, _, width, _ in records})
    figure.update_xaxes(type="log", tickvals=widths, ticktext=list(map(str, widths)))
    columns = ["method", "dev set", WIDTH, "score × 100"]
    return Picture(name, title, caption, figure, pd.DataFrame(records, columns=columns))
