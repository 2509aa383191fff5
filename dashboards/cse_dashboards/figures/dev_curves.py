"""Dev curves of several methods (CompCSE, figure 3)."""

from collections.abc import Iterator, Mapping
from statistics import fmean

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn, faded
from cse_dashboards.figures.naming import Quantity, metric_quantity
from cse_dashboards.figures.seeds import Seeds, at_best, over_seeds


def dev_curves(curves: Mapping[str, Seeds], metric: str) -> go.Figure:
    """A metric against the step: the mean over seeds, a band from the lowest to the highest seed.

    A star marks the checkpoint of each seed that was kept. A single seed has no band; seeds without
    the metric are left out.

    Args:
        curves: by label, dev curves by seed.
        metric: of the points, e.g. `dev/stsb_spearman`, `train/loss`.
    """
    quantity = metric_quantity(metric)
    traces = [
        trace
        for place, (label, seeds) in enumerate(curves.items())
        for trace in _method(label, seeds, metric, quantity, place)
    ]
    title = f"{quantity.name} by step"
    return drawn(*traces, title=title, x="step", y=quantity.title, hovermode="x unified")


def _method(
    label: str, seeds: Seeds, metric: str, quantity: Quantity, place: int
) -> Iterator[go.Scatter]:
    by_step = over_seeds(seeds, metric)
    steps = list(by_step)
    scaled = [[quantity.factor * value for value in values] for values in by_step.values()]
    if any(len(values) > 1 for values in scaled):
        yield from _band(label, steps, scaled, place)
    yield go.Scatter(
        name=label,
        x=steps,
        y=[fmean(values) for values in scaled],
        mode="lines+markers",
        line={"color": colour(place), "width": 2},
        marker={"size": 5},
        legendgroup=label,
    )
    best = at_best(seeds, metric)
    yield go.Scatter(
        name=f"{label}, kept checkpoint",
        x=[step for step, _ in best],
        y=[quantity.factor * value for _, value in best],
        mode="markers",
        marker={"symbol": "star", "size": 12, "color": colour(place)},
        legendgroup=label,
        showlegend=False,
    )


def _band(
    label: str, steps: list[int], values: list[list[float]], place: int
) -> Iterator[go.Scatter]:
    ends = (("lowest seed", min, None), ("highest seed", max, "tonexty"))
    for end, choose, fill in ends:
        yield go.Scatter(
            name=f"{label}, {end}",
            x=steps,
            y=[choose(at) for at in values],
            mode="lines",
            line={"width": 0, "color": colour(place)},
            fill=fill,
            fillcolor=faded(place),
            hoverinfo="skip",
            legendgroup=label,
            showlegend=False,
        )
