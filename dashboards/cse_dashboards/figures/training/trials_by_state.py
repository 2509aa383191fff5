"""Progress of a sweep: its trials by state, and those still to come."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.picture import Drawn, Picture, colour, fade_colour, make_figure
from cse_platform.leaderboard.sweeps import SweepOverview

COLOURS = {
    "COMPLETE": colour(2),
    "PRUNED": colour(1),
    "FAIL": colour(5),
    "RUNNING": colour(0),
    "PLANNED": fade_colour(6, 0.35),
}
"""Colours by state, in the order of the bar's segments."""


def state_picture(overview: SweepOverview) -> Picture:
    name, title = "progress_states", "Trials by state"
    caption = "How many trials are complete, pruned, failed, running, and still to come."
    if not overview.planned:
        why = f"sweep {overview.name} has no trial yet"
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, *_draw_states(overview))


def _draw_states(overview: SweepOverview) -> Drawn:
    left = max(0, overview.planned - sum(overview.counts.values()))
    counts = {**overview.counts, "PLANNED": left}
    data = pd.DataFrame(
        [{"state": state, "trials": counts[state]} for state in COLOURS if counts.get(state)]
    )
    parts = [
        go.Bar(
            name=state.lower(),
            x=[trials],
            y=["trials"],
            orientation="h",
            text=[trials],
            textposition="inside",
            textangle=0,
            marker={"color": COLOURS[state]},
            hovertemplate=f"{state.lower()}: %{{x}}<extra></extra>",
        )
        for state, trials in data.itertuples(index=False)
    ]
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.3, "traceorder": "normal"}
    figure = make_figure(
        *parts,
        title="Trials by state",
        x="trials",
        y="",
        barmode="stack",
        height=220,
        showlegend=True,
        legend=legend,
    )
    return Drawn(figure.update_yaxes(showticklabels=False), data)
