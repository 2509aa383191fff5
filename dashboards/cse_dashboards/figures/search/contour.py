"""Score over two hyperparameters, interpolated by Optuna between the trials."""

from dataclasses import replace

import plotly.graph_objects as go
from optuna import visualization

from cse_dashboards.figures.labels import HOVER
from cse_dashboards.figures.picture import LIGHT, Drawn, Picture, colour
from cse_dashboards.figures.search.study import (
    KEY_COLUMN,
    TRIAL_COLUMN,
    ReplayedSearch,
    no_pair,
    pair_of,
    search_picture,
)
from cse_dashboards.figures.search.values import log_axis
from cse_platform.stores.optuna.trials import NUMBER


def contour(study: ReplayedSearch, x: str | None = None, y: str | None = None) -> Picture:
    """Show the score over two hyperparameters, by default those of `pair_of`."""
    caption = (
        "The dev score between the complete trials of the search, as Optuna interpolates it; where "
        "several trials share a point, the best of them counts."
    )
    blank = Picture("search_contour", "Contour of two hyperparameters", caption)
    history = study.history
    names = pair_of(history, x, y)
    if why := no_pair(history, names):
        return replace(blank, missing=why)
    shown = study.shown_trials
    both = [trial.values for trial in shown.complete if trial.values.keys() >= {*names}]
    if shown.complete and any(len({repr(values[name]) for values in both}) < 2 for name in names):
        why = f"sweep {history.sweep} has no complete trials with two values each of"
        return replace(blank, missing=f"{why} {' and '.join(names)}")
    x, y = names
    blank = replace(blank, title=f"Contour of {x} and {y}")
    return search_picture(blank, shown, lambda: _draw_contour(shown, x, y), hyperparameters=2)


def _draw_contour(study: ReplayedSearch, x: str, y: str) -> Drawn:
    score, space = study.quantity.title, study.history.space
    figure = visualization.plot_contour(study.optuna, params=[x, y], target_name=score)
    figure.data = [trace for trace in figure.data if trace.name != "Infeasible Trial"]
    figure.update_traces(
        selector={"type": "contour"},
        name="between trials",
        colorscale=None,
        colorbar={"title": {"text": score, "side": "right"}},
    )
    marks = {"color": colour(1), "size": 8, "line": {"color": colour(6), "width": 1}}
    figure.update_traces(selector={"name": "Feasible Trial"}, name="trial", marker=marks)
    _name_points(study, figure, x, y)
    if x > y:  # Optuna puts the name that sorts first across, whatever the order of `params`
        _swap_axes(figure)
    for axis, name in ((figure.layout.xaxis, x), (figure.layout.yaxis, y)):
        axis.update(title_text=name, **(log_axis(space[name]) if axis.type == "log" else {}))
    figure.update_layout(template=LIGHT, title={"text": f"Contour of {x} and {y}"})
    return Drawn(figure, study.data[[TRIAL_COLUMN, KEY_COLUMN, x, y, score]].dropna())


def _name_points(study: ReplayedSearch, figure: go.Figure, x: str, y: str) -> None:
    """Link points to their trials. Optuna draws trials with both values, in the study's order."""
    [points] = figure.select_traces(selector={"name": "trial"})
    both = [trial for trial in study.replayed if trial.params.keys() >= {x, y}]
    if len(both) == len(points.x):
        points.update(ids=[str(trial.user_attrs[NUMBER]) for trial in both], hovertemplate=HOVER)


def _swap_axes(figure: go.Figure) -> None:
    for trace in figure.data:
        trace.x, trace.y = trace.y, trace.x
        if trace.type == "contour":
            trace.z = list(zip(*trace.z, strict=True))
    x, y = (axis.to_plotly_json() for axis in (figure.layout.xaxis, figure.layout.yaxis))
    figure.update_layout(xaxis=y, yaxis=x, overwrite=True)
