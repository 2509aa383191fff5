"""Importance of each hyperparameter for being among the best trials."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.picture import Drawn, Picture, colour, make_figure
from cse_dashboards.figures.search.study import StudiedSearch


def hyperparameter_importances(search: StudiedSearch) -> Picture:
    """Show how much each hyperparameter matters, as the findings of the search say it."""
    name, title = "search_importances", "Importance of hyperparameters"
    caption = (
        "How much each hyperparameter decides whether a trial is among the best tenth, or the best "
        "five of few, by Optuna's PED-ANOVA: it compares the best trials with all, and fits no "
        "model. The lines go from the 5 to the 95 percentile over resamples of the trials."
    )
    if (findings := search.findings) is None:
        return Picture(name, title, caption, missing=search.too_short)
    if not findings.importances:
        why = f"sweep {findings.sweep} searches fewer than two, or its trials have the same score"
        return Picture(name, title, caption, missing=why)
    columns = ["hyperparameter", "importance", "low", "high"]
    records = [(row.name, row.value, row.low, row.high) for row in findings.importances]
    data = pd.DataFrame(records, columns=columns)
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
        hovertemplate="%{y}: %{x:.2f}<extra></extra>",
    )
    share = "importance, all together 1"
    figure = make_figure(bars, title=f"{title} ({findings.evaluator})", x=share, y="hyperparameter")
    return Picture(name, title, caption, *Drawn(figure, data))
