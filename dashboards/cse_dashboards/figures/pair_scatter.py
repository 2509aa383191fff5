"""The same pairs under two methods."""

import plotly.graph_objects as go

from cse_dashboards.figures.look import SCALE, colour, drawn
from cse_dashboards.figures.naming import TASKS
from cse_methods.evaluation.results import Similarities


def pair_scatter(a: str, first: Similarities, b: str, second: Similarities) -> go.Figure:
    """The cosine of every pair under A against that under B, coloured by its gold score.

    Where both are alike a pair lies on the diagonal.

    Args:
        a: what the first is called.
        first: of the pairs of a task.
        b: what the second is called.
        second: of the same pairs, in the same order.
    """
    points = go.Scatter(
        name="pairs",
        x=first.cosines.round(4),
        y=second.cosines.round(4),
        mode="markers",
        marker={
            "size": 5,
            "opacity": 0.75,
            "color": first.gold,
            "colorscale": SCALE,
            "colorbar": {"title": {"text": "gold score"}},
            "line": {"width": 0.7, "color": colour(6)},
        },
        hovertemplate="%{x:.3f}, %{y:.3f}, gold %{marker.color:.2f}<extra></extra>",
    )
    name = TASKS.get(first.task, first.task)
    figure = drawn(
        points,
        title=f"Pairs of {name} {first.split}",
        x=f"cosine, {a}",
        y=f"cosine, {b}",
        height=600,
    )
    low = float(min(first.cosines.min(), second.cosines.min()))
    figure.add_shape(
        {"type": "line", "x0": low, "y0": low, "x1": 1, "y1": 1, "layer": "below"},
        line={"color": colour(6), "dash": "dot", "width": 1},
    )
    return figure
