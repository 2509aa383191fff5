"""Score against one hyperparameter (HiCL figure 2, and the papers' ablations)."""

from collections.abc import Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.labels import Quantity, dev_quantity, search_notes
from cse_dashboards.figures.picture import Drawn, Picture, colour, file_name, make_figure
from cse_dashboards.figures.search.study import (
    axis_of,
    by_value,
    do_recur,
    is_number,
    mark_trials,
    nothing_searched,
    scored_with,
    scores_of,
    weighted_note,
)
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SearchHistory
from cse_platform.sweep.space.dimensions import Dimension

MEAN, STD, CONFIGURATIONS = "mean over configurations", "std over seeds", "configurations"
_AFTER = "Other hyperparameters vary along. After HiCL, figure 2."
_MEANS = (
    " The mean is over the configurations of each value, each the mean of its seeds; bars: ± one "
    "standard deviation over seeds, pooled within configurations."
)


def hyperparameter_effects(history: SearchHistory) -> list[Picture]:
    """Show the score over each hyperparameter of a search."""
    if not len(history.space):
        why = nothing_searched(history)
        return [Picture("settings", "Hyperparameters", _AFTER, missing=why)]
    pictures, quantity = [], dev_quantity(history.dev)
    for name, dimension in history.space.items():
        file, title = f"setting_{file_name(name)}", f"Effect of {name}"
        if scored_with(history.trials, name):
            drawn = draw_effect(history.trials, name, dimension, quantity)
            means = _MEANS if MEAN in drawn.data else ""
            caption = f"Each marker is a trial.{means} {_AFTER}{weighted_note(history)}"
            notes = search_notes(history.trials, quantity.factor)
            pictures.append(Picture(file, title, caption, *drawn, trials=notes))
        else:
            why = f"no complete trial of sweep {history.sweep} has {name}"
            pictures.append(Picture(file, title, _AFTER, missing=why))
    return pictures


def draw_effect(
    trials: Sequence[Trial], name: str, dimension: Dimension, quantity: Quantity
) -> Drawn:
    """Draw a marker per trial, and the mean over the configurations of each value.

    Bars are one standard deviation over seeds, pooled over the configurations of a value that have
    several. There is no mean if nearly every configuration has a value of its own. Non-numeric
    values are categories. Incomplete trials, and those without the hyperparameter, are left out.
    """
    results = {value: at for (value,), at in by_value(trials, name).items()}
    numeric = all(map(is_number, results))
    shown, factor = scored_with(trials, name), quantity.factor
    data = scores_of(shown, quantity, name)
    traces = [mark_trials(data, name, quantity.title)]
    if do_recur(results.values(), dimension):
        of_trials = [results[value] for value in data[name]]
        data[MEAN] = [factor * at.mean for at in of_trials]
        data[STD] = [None if at.std is None else factor * at.std for at in of_trials]
        data[CONFIGURATIONS] = [at.configurations for at in of_trials]
        in_order = dict(sorted(results.items())) if numeric else results
        spreads = [None if at.std is None else factor * at.std for at in in_order.values()]
        traces.append(
            go.Scatter(
                name=MEAN,
                x=list(in_order),
                y=[factor * at.mean for at in in_order.values()],
                error_y={"array": spreads, "width": 8} if any(spreads) else None,
                customdata=[[at.configurations] for at in in_order.values()],
                mode="lines+markers" if numeric else "markers",
                line={"color": colour(5), "width": 2},
                marker={"size": 7} if numeric else {"symbol": "line-ew-open", "size": 28},
                hovertemplate="%{x}: mean %{y:.2f} of %{customdata[0]}<extra></extra>",
            )
        )
    figure = make_figure(*traces, title=f"Effect of {name}", x=name, y=quantity.title)
    return Drawn(figure.update_xaxes(axis_of(dimension, results)), data)
