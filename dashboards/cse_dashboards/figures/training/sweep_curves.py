"""The dev curves of a sweep: its best configurations and the trials that run."""

from collections.abc import Sequence

from cse_dashboards.figures.labels import (
    MOST_COLOURS,
    Rows,
    Style,
    curve_notes,
    labelled_rows,
    metric_quantity,
    styles_in_order,
    values_line,
)
from cse_dashboards.figures.picture import PALETTE, Picture
from cse_dashboards.figures.training.dev_curves import (
    SeedCurves,
    curves_of,
    draw_dev_curves,
    seeds_having,
)
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import Trial

BESIDE = {"orientation": "v", "x": 1.01, "y": 1.1, "yanchor": "top", "maxheight": 200}


def draw_sweep_curves(
    reader: Leaderboard, rows: Rows, running: Sequence[Trial], metric: str
) -> Picture:
    """Plot a metric by step: a line per configuration of `rows`, and a dashed one per trial that
    runs. There are as many as there are colours; at least half of them are for `rows`.
    """
    live = running[: max(MOST_COLOURS // 2, MOST_COLOURS - len(rows))]
    labelled = labelled_rows(rows[: MOST_COLOURS - len(live)])
    curves, left_out = curves_of(reader, labelled, metric)
    styles = styles_in_order(curves)
    keys = {label: row.keys for label, row in labelled.items()}
    for trial in live:
        label = f"#{trial.number} runs: {values_line(trial.values)}".removesuffix(": ")
        seeds: SeedCurves = seeds_having({trial.seed: list(trial.points)}, metric)
        if seeds:
            styles[label] = Style(PALETTE[len(curves)], further=1)
            curves[label], keys[label] = seeds, {trial.seed: trial.key}
    name, title = "sweep_curves", f"{metric_quantity(metric).name}: the best and the running"
    caption = "Mean over seeds; band: lowest to highest seed; star: kept checkpoint." + left_out
    if live:
        caption += f" Dashed: trials that run, {len(live)} of {len(running)}."
    if not curves:
        why = f"no trial has reported {metric_quantity(metric).name} yet"
        return Picture(name, title, caption, missing=why)
    figure, data = draw_dev_curves(curves, metric, styles, keys)
    figure.update_layout(legend=BESIDE, legend_font_size=11, legend_tracegroupgap=0)
    return Picture(name, title, caption, figure, data, trials=curve_notes(keys))
