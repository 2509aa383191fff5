"""Importance of each hyperparameter for being among the best trials."""

from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.picture import Drawn, Picture, colour, make_figure
from cse_dashboards.figures.search.study import LEAST_MARKS, ReplayedSearch, search_picture
from cse_platform.search.findings import (
    EVALUATOR,
    SearchFindings,
    bootstrap_importances,
    share_of_best,
)


def hyperparameter_importances(study: ReplayedSearch) -> Picture:
    """Show how much each hyperparameter matters; the title names the evaluator."""
    caption = (
        "How much each hyperparameter decides whether a trial is among the best, by Optuna's "
        "PED-ANOVA: it compares the best trials with all, and fits no model. The lines go from the "
        "5 to the 95 percentile over resamples of the trials."
    )
    shown, findings = study.even_sample, study.findings
    if len(shown.history.trials) < study.history.total:
        caption += f" From an even sample of {len(shown.history.trials)} trials."
    blank = Picture("search_importances", "Importance of hyperparameters", caption)
    if shown.complete and len({trial.value for trial in shown.complete}) < 2:
        why = f"sweep {study.history.sweep} has no two complete trials of different scores"
        return replace(blank, missing=why)
    return search_picture(
        blank,
        shown,
        lambda: _draw_importances(shown, findings),
        hyperparameters=2,
        trials=LEAST_MARKS,
    )


def _draw_importances(study: ReplayedSearch, findings: SearchFindings | None) -> Drawn:
    """Draw the importances of the findings; without findings, compute them."""
    importances = (findings and findings.importances) or bootstrap_importances(study.optuna)
    data = pd.DataFrame(
        {
            "hyperparameter": [importance.name for importance in importances],
            "importance": [importance.value for importance in importances],
            "low": [importance.low for importance in importances],
            "high": [importance.high for importance in importances],
        }
    )
    upwards = data[::-1]  # the most important one on top
    bars = go.Bar(
        name="importance",
        x=upwards["importance"].tolist(),
        y=upwards["hyperparameter"].tolist(),
        orientation="h",
        marker={"color": colour(0)},
        error_x={
            "array": (upwards["high"] - upwards["importance"]).clip(lower=0).tolist(),
            "arrayminus": (upwards["importance"] - upwards["low"]).clip(lower=0).tolist(),
        },
        texttemplate="%{x:.2f}",
        hovertemplate="%{y}: %{x:.2f}<extra></extra>",
    )
    best = f"{share_of_best(study.optuna):.0%}"
    figure = make_figure(
        bars,
        title=f"Importance of hyperparameters for the best {best} ({EVALUATOR})",
        x="importance, all together 1",
        y="hyperparameter",
    )
    return Drawn(figure, data)
