"""Dev curves of several methods (CompCSE, figure 3)."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import Quantity, curve_notes, metric_quantity
from cse_dashboards.figures.picture import Drawn, Picture, file_name, make_figure
from cse_dashboards.figures.rows import (
    Rows,
    Style,
    first_rows,
    left_out,
    picture_per_dev_data,
    row_styles,
)
from cse_dashboards.figures.training.seeds import SeedCurves, at_kept, curves_of, over_seeds
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.render.formats import HASH_DIGITS

MEAN, KEPT = "mean over seeds", "kept checkpoint"


def dev_curve_pictures(reader: Leaderboard, rows: Rows, metric: str) -> list[Picture]:
    """Plot a metric, e.g. `dev/stsb_spearman`, against the step, with a band over the seeds.

    Metrics on dev sets have a picture for each source of dev data. Rows beyond the number of
    colours are left out.
    """
    if not metric.startswith("dev/"):
        return [_make_picture(reader, rows, metric)]
    return picture_per_dev_data(rows, lambda shown: _make_picture(reader, shown, metric))


def _make_picture(reader: Leaderboard, rows: Rows, metric: str) -> Picture:
    labelled, left = first_rows(rows)
    curves, seeds = curves_of(reader, labelled, metric)
    name = "dev_curves_" + file_name(metric)
    title = f"{metric_quantity(metric).name} by step"
    caption = (
        "Mean over the seeds at each step that all of them have; band: from the lowest to the "
        "highest seed; star: the checkpoint of each seed that was kept. After CompCSE, figure 3."
        + left_out(labelled, curves, metric)
        + seeds
        + left
    )
    if not curves:
        why = (
            f"no dev curve of these rows has {metric}; `dev:` in a sweep file says what is measured"
        )
        return Picture(name, title, caption, missing=why)
    keys = {label: row.keys for label, row in labelled.items()}
    return Picture(
        name,
        title,
        caption,
        *draw_dev_curves(curves, metric, row_styles(labelled), keys),
        trials=curve_notes(keys),
    )


def draw_dev_curves(
    curves: Mapping[str, SeedCurves],
    metric: str,
    styles: Mapping[str, Style],
    keys: Mapping[str, Mapping[int, str]],
) -> Drawn:
    """Draw the mean over seeds, a band from the lowest to the highest seed, and stars.

    A star marks each seed's kept checkpoint. A single seed has no band; seeds without the metric
    are left out. `keys` are the trials' keys, by label and seed.
    """
    quantity = metric_quantity(metric)
    records = [
        {"method": label, **record}
        for label, seeds in curves.items()
        for record in _list_records(seeds, metric, quantity, keys[label])
    ]
    columns = ["method", "point", "step", quantity.title]
    columns += ["lowest seed", "highest seed", "seeds", "key"]
    data = pd.DataFrame(records, columns=columns)
    traces = [
        trace
        for label in curves
        for trace in _make_traces(
            label,
            data[data["method"] == label],
            quantity,
            styles[label],
            list(keys[label].values()),
        )
    ]
    title = f"{quantity.name} by step"
    figure = make_figure(*traces, title=title, x="step", y=quantity.title, hovermode="x unified")
    return Drawn(figure, data)


def _list_records(
    seeds: SeedCurves, metric: str, quantity: Quantity, keys: Mapping[int, str]
) -> Iterator[dict[str, object]]:
    factor = quantity.factor
    for step, values in over_seeds(seeds, metric).items():
        yield {
            "point": MEAN,
            "step": step,
            quantity.title: factor * fmean(values),
            "lowest seed": factor * min(values),
            "highest seed": factor * max(values),
            "seeds": len(values),
        }
    for seed, points in seeds.items():
        for step, value in at_kept({seed: points}, metric):
            star = {"step": step, quantity.title: factor * value, "seeds": 1}
            yield {"point": KEPT, **star, "key": keys.get(seed, "")}


def _make_traces(
    label: str, data: pd.DataFrame, quantity: Quantity, style: Style, keys: Sequence[str]
) -> Iterator[go.Scatter]:
    means, kept = data[data["point"] == MEAN], data[data["point"] == KEPT]
    if (means["seeds"] > 1).any():
        yield from _make_band(label, means, style)
    yield go.Scatter(
        name=label,
        x=means["step"].tolist(),
        y=means[quantity.title].tolist(),
        mode="lines+markers",
        line={"color": style.colour, "width": 2, "dash": style.dash},
        marker={"size": 5, "symbol": style.symbol},
        meta={"trial": keys[0][:HASH_DIGITS]} if len(keys) == 1 else None,
        legendgroup=label,
    )
    yield go.Scatter(
        name=f"{label}, kept checkpoint",
        x=kept["step"].tolist(),
        y=kept[quantity.title].tolist(),
        mode="markers",
        marker={"symbol": "star", "size": 12, "color": style.colour},
        ids=[key[:HASH_DIGITS] for key in kept["key"]],
        legendgroup=label,
        showlegend=False,
    )


def _make_band(label: str, means: pd.DataFrame, style: Style) -> Iterator[go.Scatter]:
    for end, fill in (("lowest seed", None), ("highest seed", "tonexty")):
        yield go.Scatter(
            name=f"{label}, {end}",
            x=means["step"].tolist(),
            y=means[end].tolist(),
            mode="lines",
            line={"width": 0, "color": style.colour},
            fill=fill,
            fillcolor=style.faded(),
            hoverinfo="skip",
            legendgroup=label,
            showlegend=False,
        )
