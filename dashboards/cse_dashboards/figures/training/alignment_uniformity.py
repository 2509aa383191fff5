"""Alignment against uniformity (CompCSE figure 2, RankCSE figure 4, WhitenedCSE figure 3)."""

from collections.abc import Iterator, Mapping
from statistics import fmean

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.picture import Drawn, Picture, make_figure
from cse_dashboards.figures.rows import (
    Rows,
    Style,
    first_rows,
    left_out,
    picture_per_dev_data,
    row_styles,
)
from cse_dashboards.figures.training.dev_curves import KEPT, MEAN
from cse_dashboards.figures.training.seeds import (
    SeedCurves,
    at_kept,
    curves_of,
    over_seeds,
    seeds_having,
)
from cse_platform.leaderboard.api import Leaderboard

PLANE_METRICS = {"uniformity": "dev/uniformity", "alignment": "dev/alignment"}


def alignment_uniformity(reader: Leaderboard, rows: Rows) -> list[Picture]:
    """Show how training moves the embeddings, with one picture per source of dev data."""
    return picture_per_dev_data(rows, lambda shown: _make_picture(reader, shown))


def _make_picture(reader: Leaderboard, rows: Rows) -> Picture:
    labelled, left = first_rows(rows)
    curves, seeds = curves_of(reader, labelled, *PLANE_METRICS.values())
    name, title = "alignment_uniformity", "Alignment and uniformity"
    caption = (
        "On STS-B dev, or without it on the dev set that picks the checkpoint. Mean over the seeds "
        "at each step, from a hollow marker before training to a star at the mean of the "
        "checkpoints that were kept; lower is better on both axes. After CompCSE figure 2, RankCSE "
        "figure 4 and WhitenedCSE figure 3."
        + left_out(labelled, curves, "both measures")
        + seeds
        + left
    )
    if not curves:
        why = (
            "no dev curve of these rows has alignment and uniformity; trials that cse-sweep runs "
            "report both, imported ones may not"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, *draw_alignment_uniformity(curves, row_styles(labelled)))


def draw_alignment_uniformity(
    curves: Mapping[str, SeedCurves], styles: Mapping[str, Style]
) -> Drawn:
    """Draw a line per method through the means over seeds at each step; lower is better on both
    axes.

    It starts at a hollow marker before training; a star marks the mean over the kept checkpoints,
    one per seed. Seeds without both measures are left out.
    """
    records = [
        {"method": label, **record}
        for label, seeds in curves.items()
        for record in _list_records(seeds)
    ]
    data = pd.DataFrame(records, columns=["method", "point", "step", *PLANE_METRICS])
    traces = [
        trace
        for label in curves
        for trace in _make_traces(label, data[data["method"] == label], styles[label])
    ]
    figure = make_figure(
        *traces,
        title="Alignment and uniformity on dev",
        x="uniformity (lower is better)",
        y="alignment (lower is better)",
        hovermode="closest",
    )
    return Drawn(figure, data.astype({"step": "Int64"}))


def _list_records(seeds: SeedCurves) -> Iterator[dict[str, object]]:
    seeds = seeds_having(seeds, *PLANE_METRICS.values())
    curves = {name: over_seeds(seeds, metric) for name, metric in PLANE_METRICS.items()}
    for step in (step for step in curves["alignment"] if step in curves["uniformity"]):
        means = {name: fmean(curve[step]) for name, curve in curves.items()}
        yield {"point": MEAN, "step": step, **means}
    kept = {name: [v for _, v in at_kept(seeds, metric)] for name, metric in PLANE_METRICS.items()}
    if all(kept.values()):
        yield {"point": KEPT} | {name: fmean(values) for name, values in kept.items()}


def _make_traces(label: str, data: pd.DataFrame, style: Style) -> Iterator[go.Scatter]:
    means, kept = data[data["point"] == MEAN], data[data["point"] == KEPT]
    yield go.Scatter(
        name=label,
        x=means["uniformity"].tolist(),
        y=means["alignment"].tolist(),
        customdata=[[int(step)] for step in means["step"]],
        mode="lines+markers",
        line={"color": style.colour, "width": 1.5, "dash": style.dash},
        marker={
            "size": 7,
            "symbol": [
                f"{style.symbol}-open" if step == 0 else style.symbol for step in means["step"]
            ],
        },
        legendgroup=label,
        hovertemplate="step %{customdata[0]}: uniformity %{x:.3f}, alignment %{y:.3f}",
    )
    if not kept.empty:
        yield go.Scatter(
            name=f"{label}, kept checkpoints",
            x=kept["uniformity"].tolist(),
            y=kept["alignment"].tolist(),
            mode="markers",
            marker={"symbol": "star", "size": 15, "color": style.colour},
            legendgroup=label,
            showlegend=False,
            hovertemplate="kept checkpoints: uniformity %{x:.3f}, alignment %{y:.3f}",
        )
