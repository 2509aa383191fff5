"""The Pareto front of a search with several objectives, among all its configurations."""

from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, objective_quantity, values_line
from cse_dashboards.figures.picture import (
    Drawn,
    Picture,
    TrialNote,
    colour,
    fade_colour,
    make_figure,
)
from cse_dashboards.figures.search.study import KEY_COLUMN, TRIAL_COLUMN
from cse_platform.leaderboard.searches import ParetoFront
from cse_platform.render.formats import HASH_DIGITS

FRONT, DOMINATED, INFEASIBLE = "on the front", "dominated", "infeasible"
STANDING = "standing"
_MARKERS = {
    DOMINATED: {"color": fade_colour(0, 0.5), "size": 7},
    INFEASIBLE: {"color": colour(6), "size": 8, "symbol": "x-thin-open"},
    FRONT: {"color": colour(5), "size": 11, "symbol": "diamond"},
}
_TITLE = "Pareto front"


def pareto_front_picture(front: ParetoFront) -> Picture:
    """Show the first objective against the second; further ones are only in the data."""
    caption = (
        "A marker a configuration, by the means over its seeds. None is better than one on the "
        "front in every objective: " + ", ".join(map(str, front.objectives)) + "."
    )
    if front.constraints:
        caption += f" Infeasible ones break {' or '.join(front.constraints)}."
    if len(front.objectives) > 2:
        caption += " The axes are the first two; the front is one in all of them."
    blank = Picture("search_front", _TITLE, caption)
    if not front.rows:
        why = f"no trial of the search of sweep {front.sweep} is complete yet"
        return Picture(blank.name, blank.title, caption, missing=why)
    return Picture(blank.name, blank.title, caption, *_draw_front(front), trials=_make_notes(front))


def _make_notes(front: ParetoFront) -> dict[str, TrialNote]:
    return {
        str(row.trial): TrialNote(
            row.key[:HASH_DIGITS],
            f"#{row.trial}, {len(row.seeds)} seeds: {values_line(row.values)}",
        )
        for row in front.rows
    }


def _draw_front(front: ParetoFront) -> Drawn:
    quantities = {
        objective.name: objective_quantity(objective.name, front.dev)
        for objective in front.objectives
    }
    records = [
        {
            TRIAL_COLUMN: row.trial,
            KEY_COLUMN: row.key,
            "configuration": row.configuration[:8],
            "seeds": len(row.seeds),
            STANDING: FRONT if row.on_front else DOMINATED if row.feasible else INFEASIBLE,
            **{
                quantity.title: quantity.factor * row.measured[name]
                for name, quantity in quantities.items()
            },
        }
        for row in front.rows
    ]
    data = pd.DataFrame(records)
    upwards, across, *others = (quantity.title for quantity in quantities.values())
    if not others:
        data = data.sort_values(across, ignore_index=True)
    traces = _make_traces(data, x=across, y=upwards, joined=not others)
    figure = make_figure(*traces, title=_TITLE, x=across, y=upwards)
    return Drawn(figure, data)


def _make_traces(data: pd.DataFrame, *, x: str, y: str, joined: bool) -> Iterator[go.Scatter]:
    """Make a trace for each standing; if `joined`, a line connects the markers of the front."""
    for standing, marker in _MARKERS.items():
        shown = data[data[STANDING] == standing]
        if shown.empty:
            continue
        lines = joined and standing == FRONT
        yield go.Scatter(
            name=standing,
            x=shown[x].tolist(),
            y=shown[y].tolist(),
            ids=shown[TRIAL_COLUMN].astype(str).tolist(),
            mode="lines+markers" if lines else "markers",
            line={"color": fade_colour(5, 0.5), "width": 1.5},
            marker=marker,
            hovertemplate="%{x:.4g}, %{y:.4g}<br>" + HOVER,
        )
