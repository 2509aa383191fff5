"""The dev curves of running trials."""

from collections.abc import Sequence

from cse_dashboards.figures.labels import (
    MOST_COLOURS,
    curve_notes,
    metric_quantity,
    styles_in_order,
    values_line,
)
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.training.dev_curves import SeedCurves, draw_dev_curves, seeds_having
from cse_platform.leaderboard.records import Trial


def running_curves(trials: Sequence[Trial], metric: str) -> Picture:
    """Plot a metric against the step, a line per trial, for the newest trials that get a colour."""
    name, title = "running_curves", "Dev curves of the trials that run"
    shown = trials[:MOST_COLOURS]
    labelled = {
        f"#{trial.number} {values_line(trial.searched_values)}".strip(): trial for trial in shown
    }
    curves: dict[str, SeedCurves] = {
        label: seeds
        for label, trial in labelled.items()
        if (seeds := seeds_having({trial.seed: list(trial.points)}, metric))
    }
    left = f" The newest {len(shown)} of {len(trials)}." if len(trials) > len(shown) else ""
    caption = f"Each line is a trial.{left}"
    if not curves:
        why = f"no running trial has reported {metric_quantity(metric).name} yet"
        return Picture(name, title, caption, missing=why)
    keys = {label: {trial.seed: trial.key} for label, trial in labelled.items()}
    drawn = draw_dev_curves(curves, metric, styles_in_order(curves), keys)
    return Picture(name, title, caption, *drawn, trials=curve_notes(keys))
