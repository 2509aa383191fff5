"""How far a sweep is: its trials by state, and the best so far against time."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn, faded
from cse_dashboards.figures.naming import Quantity
from cse_platform.leaderboard.trial import TrialSummary

COLOURS = {"COMPLETE": 2, "PRUNED": 1, "FAIL": 5, "RUNNING": 0, "PLANNED": 6}
"""Places in the palette, in the order of the bar's parts."""


def states(counts: Mapping[str, int], planned: int) -> go.Figure:
    """One bar: trials by state, and those to come.

    Args:
        counts: trials by state.
        planned: how many there will be.
    """
    told = {**counts, "PLANNED": max(0, planned - sum(counts.values()))}
    parts = [
        go.Bar(
            name=state.lower(),
            x=[told[state]],
            y=["trials"],
            orientation="h",
            text=[told[state]],
            textposition="inside",
            textangle=0,
            marker={"color": faded(place, 0.35) if state == "PLANNED" else colour(place)},
            hovertemplate=f"{state.lower()}: %{{x}}<extra></extra>",
        )
        for state, place in COLOURS.items()
        if told.get(state)
    ]
    return drawn(
        *parts,
        title="Trials by state",
        x="trials",
        y="",
        barmode="stack",
        height=220,
        showlegend=True,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.3, "traceorder": "normal"},
    ).update_yaxes(showticklabels=False)


def best_so_far(trials: Sequence[TrialSummary], quantity: Quantity) -> go.Figure:
    """The score of each complete trial when it ended, and the highest until then.

    Args:
        trials: of a sweep, further seeds included; incomplete ones are left out.
        quantity: of the trials' values.
    """
    ended = sorted(
        (
            (trial.finished, quantity.factor * trial.value, trial)
            for trial in trials
            if trial.state == "COMPLETE" and trial.value is not None and trial.finished is not None
        ),
        key=lambda end: (end[0], end[2].number),
    )
    times, scores = [time for time, _, _ in ended], [score for _, score, _ in ended]
    marks = go.Scatter(
        name="trial",
        x=times,
        y=scores,
        customdata=[[one.number, one.configuration[:8], one.seed] for _, _, one in ended],
        meta=("number", "configuration", "seed"),
        mode="markers",
        marker={"color": faded(0, 0.6), "size": 7},
        hovertemplate=(
            "%{x}: %{y:.2f}<br>trial %{customdata[0]}, configuration %{customdata[1]}, "
            "seed %{customdata[2]}<extra></extra>"
        ),
    )
    best = go.Scatter(
        name="best so far",
        x=times,
        y=list(accumulate(scores, max)),
        mode="lines",
        line={"color": colour(5), "shape": "hv"},
        hovertemplate="%{x}: %{y:.2f}<extra></extra>",
    )
    top = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.08}
    return drawn(
        marks, best, title="Best so far", x="end of trial (UTC)", y=quantity.title, legend=top
    )
