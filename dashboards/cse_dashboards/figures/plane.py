"""Alignment against uniformity (CompCSE figure 2, RankCSE figure 4, WhitenedCSE figure 3)."""

from collections.abc import Iterator, Mapping
from statistics import fmean

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn
from cse_dashboards.figures.seeds import Seeds, at_best, having, over_seeds

ALIGNMENT, UNIFORMITY = "dev/alignment", "dev/uniformity"


def plane(curves: Mapping[str, Seeds]) -> go.Figure:
    """Where training moves the embeddings of the dev set: down and to the left is better.

    A line a method goes through the means over seeds at each step, from a hollow marker before
    training on; its star is the mean over the checkpoints that were kept, one a seed. Seeds without
    both measures are left out.

    Args:
        curves: by label, dev curves by seed.
    """
    traces = [
        trace
        for place, (label, seeds) in enumerate(curves.items())
        for trace in _method(label, seeds, place)
    ]
    return drawn(
        *traces,
        title="Alignment and uniformity on STS-B dev",
        x="uniformity (lower is better)",
        y="alignment (lower is better)",
        hovermode="closest",
    )


def _method(label: str, seeds: Seeds, place: int) -> Iterator[go.Scatter]:
    seeds = having(seeds, ALIGNMENT, UNIFORMITY)
    aligned, uniform = (over_seeds(seeds, metric) for metric in (ALIGNMENT, UNIFORMITY))
    steps = [step for step in aligned if step in uniform]
    symbols = ["circle-open" if step == 0 else "circle" for step in steps]
    yield go.Scatter(
        name=label,
        x=[fmean(uniform[step]) for step in steps],
        y=[fmean(aligned[step]) for step in steps],
        customdata=[[step] for step in steps],
        meta=("step",),
        mode="lines+markers",
        line={"color": colour(place), "width": 1.5},
        marker={"size": 7, "symbol": symbols},
        legendgroup=label,
        hovertemplate="step %{customdata[0]}: uniformity %{x:.3f}, alignment %{y:.3f}",
    )
    best = [at_best(seeds, metric) for metric in (UNIFORMITY, ALIGNMENT)]
    if all(best):
        yield _star(label, *(fmean(value for _, value in ends) for ends in best), place=place)


def _star(label: str, uniform: float, aligned: float, *, place: int) -> go.Scatter:
    return go.Scatter(
        name=f"{label}, kept checkpoints",
        x=[uniform],
        y=[aligned],
        mode="markers",
        marker={"symbol": "star", "size": 15, "color": colour(place)},
        legendgroup=label,
        showlegend=False,
        hovertemplate="kept checkpoints: uniformity %{x:.3f}, alignment %{y:.3f}",
    )
