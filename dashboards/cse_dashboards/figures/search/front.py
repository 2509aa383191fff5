"""The Pareto front of a search with several objectives, among all its configurations."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import (
    HOVER,
    Quantity,
    dev_quantity,
    metric_quantity,
    values_line,
)
from cse_dashboards.figures.picture import (
    Drawn,
    Picture,
    colour,
    fade_colour,
    make_figure,
)
from cse_dashboards.figures.search.study import KEY_COLUMN, TRIAL_COLUMN
from cse_platform.leaderboard.sweeps import ParetoFront
from cse_platform.render.table import HASH_DIGITS
from cse_platform.sweep.objectives import DEV_VALUE, GPU_HOURS, SECONDS, is_metric, metric_of

FRONT, DOMINATED, INFEASIBLE = "on the front", "dominated", "infeasible"
STANDING = "standing"
_COSTS = {SECONDS: "seconds of training", GPU_HOURS: "GPU-hours"}
_MARKERS = {
    DOMINATED: {"color": fade_colour(0, 0.5), "size": 7},
    INFEASIBLE: {"color": colour(6), "size": 8, "symbol": "x-thin-open"},
    FRONT: {"color": colour(5), "size": 11, "symbol": "diamond"},
}


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
    name, title = "search_front", "Pareto front"
    if not front.rows:
        why = f"no trial of the search of sweep {front.sweep} is complete yet"
        return Picture(name, title, caption, missing=why)
    drawn, notes = _draw_front(front, title), {}
    for row in front.rows:
        text = f"#{row.trial}, {len(row.seeds)} seeds: {values_line(row.values)}"
        notes[str(row.trial)] = row.key[:HASH_DIGITS], text
    return Picture(name, title, caption, *drawn, trials=notes)


def _draw_front(front: ParetoFront, title: str) -> Drawn:
    """Draw a trace for each standing; of two objectives, a line connects the front."""
    quantities = {}
    for objective in front.objectives:
        if (name := objective.name) == DEV_VALUE:
            quantities[name] = dev_quantity(front.dev)
        elif is_metric(name):
            quantities[name] = metric_quantity(metric_of(name))
        else:
            quantities[name] = Quantity(_COSTS[name])
    records = [
        {
            TRIAL_COLUMN: row.trial,
            KEY_COLUMN: row.key,
            "configuration": row.configuration[:8],
            "seeds": len(row.seeds),
            STANDING: FRONT if row.on_front else DOMINATED if row.feasible else INFEASIBLE,
            **{q.title: q.factor * row.measured[name] for name, q in quantities.items()},
        }
        for row in front.rows
    ]
    data = pd.DataFrame(records)
    upwards, across, *others = (quantity.title for quantity in quantities.values())
    if not others:
        data = data.sort_values(across, ignore_index=True)
    traces = []
    for standing, marker in _MARKERS.items():
        shown = data[data[STANDING] == standing]
        if not shown.empty:
            joined = standing == FRONT and not others
            traces.append(
                go.Scatter(
                    name=standing,
                    x=shown[across].tolist(),
                    y=shown[upwards].tolist(),
                    ids=shown[TRIAL_COLUMN].astype(str).tolist(),
                    mode="lines+markers" if joined else "markers",
                    line={"color": fade_colour(5, 0.5), "width": 1.5},
                    marker=marker,
                    hovertemplate="%{x:.4g}, %{y:.4g}<br>" + HOVER,
                )
            )
    return Drawn(make_figure(*traces, title=title, x=across, y=upwards), data)
