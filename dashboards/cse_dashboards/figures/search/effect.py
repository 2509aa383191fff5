"""Score against one hyperparameter (HiCL figure 2, and the papers' ablations)."""

import plotly.graph_objects as go

from cse_dashboards.figures.labels import dev_quantity, search_notes
from cse_dashboards.figures.picture import Picture, colour, file_name, make_figure
from cse_dashboards.figures.search import study
from cse_platform.leaderboard.past_searches import SearchHistory

MEAN, STD, CONFIGURATIONS = "mean over configurations", "std over seeds", "configurations"
_AFTER = "Other hyperparameters vary along. After HiCL, figure 2."
_MEANS = (
    " The mean is over the configurations of each value, each the mean of its seeds that count "
    "on the leaderboard; bars: ± one standard deviation over them, pooled within configurations."
)


def hyperparameter_effects(history: SearchHistory) -> list[Picture]:
    """Show the score over each hyperparameter of a search."""
    if not len(history.space):
        why = study.nothing_searched(history)
        return [Picture("settings", "Hyperparameters", _AFTER, missing=why)]
    return [effect(history, name) for name in history.space]


def effect(history: SearchHistory, name: str) -> Picture:
    """Show a marker per trial, and the mean over the configurations of each value.

    Bars are one standard deviation over seeds, pooled over the configurations of a value that have
    several. There is no mean if nearly every configuration has a value of its own. Non-numeric
    values are categories. Incomplete trials, and those without the hyperparameter, are left out.
    """
    file, title = f"setting_{file_name(name)}", f"Effect of {name}"
    if not (shown := study.scored_with(history.trials, name)):
        why = f"no complete trial of sweep {history.sweep} has {name}"
        return Picture(file, title, _AFTER, missing=why)
    quantity, dimension = dev_quantity(history.dev), history.space[name]
    results = {value: result for (value,), result in study.by_value(history.trials, name).items()}
    numeric = study.are_numbers(results)
    factor = quantity.factor
    data = study.scores_of(shown, quantity, name)
    traces = [study.mark_trials(data, name, quantity.title)]
    if study.do_recur(results.values(), dimension):
        of_trials = [results[value] for value in data[name]]
        data[MEAN] = [factor * result.mean for result in of_trials]
        data[STD] = [None if result.std is None else factor * result.std for result in of_trials]
        data[CONFIGURATIONS] = [result.configurations for result in of_trials]
        in_order = dict(sorted(results.items())) if numeric else results
        spreads = [None if of.std is None else factor * of.std for of in in_order.values()]
        traces.append(
            go.Scatter(
                name=MEAN,
                x=list(in_order),
                y=[factor * result.mean for result in in_order.values()],
                error_y={"array": spreads, "width": 8} if any(spreads) else None,
                customdata=[[result.configurations] for result in in_order.values()],
                mode="lines+markers" if numeric else "markers",
                line={"color": colour(5), "width": 2},
                marker={"size": 7} if numeric else {"symbol": "line-ew-open", "size": 28},
                hovertemplate="%{x}: mean %{y:.2f} of %{customdata[0]}<extra></extra>",
            )
        )
    figure = make_figure(*traces, title=title, x=name, y=quantity.title)
    figure.update_xaxes(study.axis_of(dimension, results))
    means = _MEANS if MEAN in data else ""
    caption = f"Each marker is a trial.{means} {_AFTER}{study.weighted_note(history)}"
    notes = search_notes(history.trials, factor)
    return Picture(file, title, caption, figure, data, trials=notes)
