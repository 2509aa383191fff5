"""Score against one hyperparameter (HiCL figure 2, and the papers' ablations)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, Quantity, dev_quantity, search_notes
from cse_dashboards.figures.picture import (
    Drawn,
    Picture,
    colour,
    fade_colour,
    file_name,
    make_figure,
    replace_missing,
)
from cse_dashboards.figures.search.study import (
    TRIAL_COLUMN,
    nothing_searched,
    sample_note,
    trial_record,
)
from cse_dashboards.figures.search.values import (
    AtValue,
    axis_of,
    by_value,
    do_recur,
    is_number,
    on_axis,
    scored_with,
    spread_kind,
)
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.sweep.space.dimensions import Dimension

MEAN, STD, CONFIGURATIONS = "mean over configurations", "std over seeds", "configurations"
_AFTER = "Other hyperparameters vary along. After HiCL, figure 2."
_WEIGHTED = " In the means each counts for as many trials as it stands for."


def hyperparameter_effects(history: SearchHistory) -> list[Picture]:
    if not len(history.space):
        why = nothing_searched(history)
        return [Picture("settings", "Hyperparameters", _AFTER, missing=why)]
    return [_make_picture(history, name) for name in history.space]


def weighted_note(history: SearchHistory) -> str:
    """Describe for captions of means how a sample of trials is weighted, if it is one."""
    return sample_note(history) + (_WEIGHTED if history.is_sample else "")


def _make_picture(history: SearchHistory, name: str) -> Picture:
    file, title = f"setting_{file_name(name)}", f"Effect of {name}"
    if not scored_with(history.trials, name):
        why = f"no complete trial of sweep {history.sweep} has {name}"
        return Picture(file, title, _AFTER, missing=why)
    means, dimension = _describe_means(history, name), history.space[name]
    caption = f"Each marker is a trial.{means} {_AFTER}{weighted_note(history)}"
    quantity = dev_quantity(history.dev)
    drawn = draw_effect(history.trials, name, dimension, quantity)
    notes = search_notes(history.trials, quantity.factor)
    return Picture(file, title, caption, *drawn, trials=notes)


def _describe_means(history: SearchHistory, name: str) -> str:
    """Describe the means that are drawn besides the trials."""
    results = by_value(history.trials, name)
    if not do_recur(results.values(), history.space[name]):
        return ""
    text = " The mean is over the configurations of each value, each the mean of its seeds"
    spread = spread_kind(results.values(), numeric=all(is_number(value) for (value,) in results))
    if spread is not None:
        text += f"; {spread}: ± one standard deviation over seeds, pooled within configurations"
    return f"{text}."


def draw_effect(
    trials: Sequence[Trial], name: str, dimension: Dimension, quantity: Quantity
) -> Drawn:
    """Draw a marker per trial, and the mean over the configurations of each value.

    The mean is drawn with one standard deviation over seeds, pooled over the configurations of that
    value that have several: as a band if all values are numbers and have one, else as bars. There
    is no mean if nearly every configuration has a value of its own. Non-numeric values are
    categories. Incomplete trials, and those without the hyperparameter, are left out.
    """
    results = {place: at for (place,), at in by_value(trials, name).items()}
    numeric = all(map(is_number, results))
    data = _build_trials_data(trials, name, quantity)
    traces = [_make_trial_markers(data, name, quantity)]
    if do_recur(results.values(), dimension):
        in_order = dict(sorted(results.items())) if numeric else results
        means = _build_means_data(in_order, name, quantity)
        spread = spread_kind(results.values(), numeric=numeric)
        traces += _make_mean_traces(means, name, spread, numeric=numeric)
        data = data.merge(means, on=name, how="left")
    figure = make_figure(*traces, title=f"Effect of {name}", x=name, y=quantity.title)
    return Drawn(figure.update_xaxes(axis_of(dimension, numeric=numeric)), data)


def _build_trials_data(trials: Sequence[Trial], name: str, quantity: Quantity) -> pd.DataFrame:
    shown = scored_with(trials, name)
    data = pd.DataFrame([trial_record(trial, quantity) for trial in shown])
    data.insert(4, name, pd.Series([on_axis(trial.values[name]) for trial in shown], dtype=object))
    return data


def _build_means_data(
    results: Mapping[Any, AtValue], name: str, quantity: Quantity
) -> pd.DataFrame:
    records = [
        {
            name: value,
            MEAN: quantity.factor * at.mean,
            STD: None if at.std is None else quantity.factor * at.std,
            CONFIGURATIONS: at.configurations,
        }
        for value, at in results.items()
    ]
    return pd.DataFrame(records).astype({name: object, STD: float})


def _make_trial_markers(data: pd.DataFrame, name: str, quantity: Quantity) -> go.Scatter:
    return go.Scatter(
        name="trial",
        x=data[name].tolist(),
        y=data[quantity.title].tolist(),
        ids=data[TRIAL_COLUMN].astype(str).tolist(),
        mode="markers",
        marker={"color": fade_colour(0, 0.55), "size": 8},
        hovertemplate=HOVER,
    )


def _make_mean_traces(
    means: pd.DataFrame, name: str, spread: str | None, *, numeric: bool
) -> Iterator[go.Scatter]:
    if spread == "band":
        yield from _make_band(means, name)
    yield go.Scatter(
        name=MEAN,
        x=means[name].tolist(),
        y=means[MEAN].tolist(),
        error_y={"array": replace_missing(means[STD]), "width": 8} if spread == "bars" else None,
        customdata=means[[CONFIGURATIONS]].to_numpy().tolist(),
        mode="lines+markers" if numeric else "markers",
        line={"color": colour(5), "width": 2},
        marker={"symbol": "circle" if numeric else "line-ew-open", "size": 7 if numeric else 28},
        hovertemplate="%{x}: mean %{y:.2f} of %{customdata[0]} configurations<extra></extra>",
    )


def _make_band(means: pd.DataFrame, name: str) -> Iterator[go.Scatter]:
    ends = {"mean - std": means[MEAN] - means[STD], "mean + std": means[MEAN] + means[STD]}
    for place, (end, values) in enumerate(ends.items()):
        yield go.Scatter(
            name=end,
            x=means[name].tolist(),
            y=values.tolist(),
            mode="lines",
            line={"width": 0, "color": colour(5)},
            fill="tonexty" if place else None,
            fillcolor=fade_colour(5),
            hoverinfo="skip",
            showlegend=False,
        )
