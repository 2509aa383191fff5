"""Dev curves of several methods (CompCSE, figure 3), and how a configuration's seeds are joined."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import (
    PALETTE,
    Drawn,
    Picture,
    fade,
    file_name,
    make_band,
    make_figure,
)
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import DevPoint, LeaderboardRow, Trial
from cse_platform.numbers import HASH_DIGITS

MEAN, KEPT = "mean over seeds", "kept checkpoint"
MOST_RUNNING = labels.MOST_COLOURS // 2
SeedCurves = Mapping[int, Sequence[DevPoint]]
"""Dev curves by seed."""


def dev_curve_pictures(
    reader: Leaderboard, rows: labels.Rows, metric: str, running: Sequence[Trial] = ()
) -> list[Picture]:
    """Plot a metric, e.g. `dev/stsb_spearman`, against the step, with a band over the seeds.

    Metrics on dev sets have a picture for each source of dev data. Trials of `running` are dashed
    lines. Rows and trials beyond the number of colours are left out.
    """
    if not metric.startswith("dev/"):
        return [_make_picture(reader, rows, metric, running)]
    return labels.picture_per_dev_data(
        rows, lambda shown: _make_picture(reader, shown, metric, running)
    )


def _make_picture(
    reader: Leaderboard, rows: labels.Rows, metric: str, running: Sequence[Trial]
) -> Picture:
    running = running[:MOST_RUNNING]
    labelled, left = labels.first_rows(rows, labels.MOST_COLOURS - len(running))
    curves, seeds = curves_of(reader, labelled, metric)
    styles = labels.row_styles(labelled)
    keys = {label: row.keys for label, row in labelled.items()}
    for index, trial in enumerate(running, start=len(labelled)):
        settings = labels.values_line(trial.searched_values)
        does = "waits" if trial.why else "runs"
        label = f"#{trial.number} {does}" + f": {settings}" * bool(settings)
        if reported := seeds_having({trial.seed: list(trial.points)}, metric):
            styles[label] = labels.Style(PALETTE[index], further=1)
            curves[label], keys[label] = reported, {trial.seed: trial.key}
    name = "dev_curves_" + file_name(metric)
    title = f"{labels.metric_quantity(metric).name} by step"
    caption = (
        "Mean over the seeds at each step that all of them have; band: lowest to highest seed; "
        "star: kept checkpoint, the best after step 0. After CompCSE, figure 3."
        + " Dashed: the newest trials that have not ended." * bool(running)
        + labels.left_out(labelled, curves, metric)
        + seeds
        + left
    )
    if not curves:
        why = f"there is no dev curve of {metric}; `dev:` in a sweep file says what is measured"
        return Picture(name, title, caption, missing=why)
    drawn = draw_dev_curves(curves, metric, styles, keys)
    notes = {
        key[:HASH_DIGITS]: (key[:HASH_DIGITS], f"{label}, seed {seed}")
        for label, seeds_of_label in keys.items()
        for seed, key in seeds_of_label.items()
    }
    return Picture(name, title, caption, *drawn, trials=notes)


def draw_dev_curves(
    curves: Mapping[str, SeedCurves],
    metric: str,
    styles: Mapping[str, labels.Style],
    keys: Mapping[str, Mapping[int, str]],
) -> Drawn:
    """Draw the mean over seeds, a band from the lowest to the highest seed, and stars.

    A star marks each seed's kept checkpoint. A single seed has no band; seeds without the metric
    are left out. `keys` are the trials' keys, by label and seed.
    """
    quantity = labels.metric_quantity(metric)
    factor, columns = quantity.factor, [labels.STEP, quantity.title]
    traces, parts = [], []
    for label, seeds in curves.items():
        style, own = styles[label], list(keys[label].values())
        values = over_seeds(seeds, metric)
        lines = [
            (step, factor * fmean(scores), factor * min(scores), factor * max(scores), len(scores))
            for step, scores in values.items()
        ]
        means = pd.DataFrame(lines, columns=[*columns, "lowest seed", "highest seed", "seeds"])
        kept = [
            (step, factor * value, 1, keys[label].get(seed, ""))
            for seed, points in seeds.items()
            for step, value in at_kept({seed: points}, metric)
        ]
        stars = pd.DataFrame(kept, columns=[*columns, "seeds", "key"])
        parts += [part.assign(method=label, point=p) for part, p in ((means, MEAN), (stars, KEPT))]
        steps = means[labels.STEP].tolist()
        if (means["seeds"] > 1).any():
            ends = (means[end].tolist() for end in ("lowest seed", "highest seed"))
            traces += make_band(steps, *ends, fill=fade(style.colour), legendgroup=label)
        traces += [
            go.Scatter(
                name=label,
                x=steps,
                y=means[quantity.title].tolist(),
                mode="lines+markers",
                line={"color": style.colour, "width": 2, "dash": style.dash},
                marker={"size": 5, "symbol": style.symbol},
                meta={"trial": own[0][:HASH_DIGITS]} if len(own) == 1 else None,
                legendgroup=label,
            ),
            mark_kept(
                label,
                stars[labels.STEP].tolist(),
                stars[quantity.title].tolist(),
                colour=style.colour,
                ids=[key[:HASH_DIGITS] for key in stars["key"]],
            ),
        ]
    title = f"{quantity.name} by step"
    figure = make_figure(
        *traces, title=title, x=labels.STEP, y=quantity.title, hovermode="x unified"
    )
    columns = ["method", "point", *columns, "lowest seed", "highest seed", "seeds", "key"]
    return Drawn(figure, pd.concat(parts)[columns])


def mark_kept(
    label: str, x: Sequence[float], y: Sequence[float], *, colour: str, **given: object
) -> go.Scatter:
    """Mark kept checkpoints by stars that belong to the line of this label."""
    return go.Scatter(
        name=f"{label}, {KEPT}",
        x=x,
        y=y,
        mode="markers",
        marker={"symbol": "star", "size": 13, "color": colour},
        legendgroup=label,
        showlegend=False,
        **given,
    )


def curves_of(
    reader: Leaderboard, labelled: Mapping[str, LeaderboardRow], *metrics: str
) -> tuple[dict[str, SeedCurves], str]:
    """Read the dev curves of rows, for seeds with these metrics. Also returns a caption note."""
    whole = {label: reader.dev_curves(row) for label, row in labelled.items()}
    curves = {
        label: kept
        for label, seeds in whole.items()
        if (kept := seeds_having(seeds, *metrics))
        and all(over_seeds(kept, name) for name in metrics)
    }
    absent = sum(len(whole[label]) - len(seeds) for label, seeds in curves.items())
    lacking = metrics[0] if len(metrics) == 1 else "both"
    return curves, f" Seeds without {lacking}, and left out: {absent}." if absent else ""


def seeds_having(seeds: SeedCurves, *metrics: str) -> SeedCurves:
    """Return the seeds with at least one point that has all of these metrics."""
    return {
        seed: points
        for seed, points in seeds.items()
        if any(all(point.metrics.get(name) is not None for name in metrics) for point in points)
    }


def over_seeds(seeds: SeedCurves, metric: str) -> dict[int, list[float]]:
    """Return the values of a metric over the seeds, by step, in order of steps.

    Seeds that never have the metric are left out. Steps at which one of the other seeds has no
    value are left out too, because a mean over fewer seeds would jump.
    """
    curves = [
        {p.step: value for p in points if (value := p.metrics.get(metric)) is not None}
        for points in seeds_having(seeds, metric).values()
    ]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return {step: [curve[step] for curve in curves] for step in sorted(shared)}


def at_kept(seeds: SeedCurves, metric: str) -> list[tuple[int, float]]:
    """Return for each seed the step of the kept checkpoint and the metric there.

    Seeds without the metric at that step are left out.
    """
    return [
        (p.step, value)
        for points in seeds.values()
        for p in points
        if p.kept and (value := p.metrics.get(metric)) is not None
    ]
