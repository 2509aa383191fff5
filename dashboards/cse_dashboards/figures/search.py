"""A search as Optuna draws it: its own visualisations, in our words and our template."""

from collections.abc import Sequence

import plotly.graph_objects as go
from optuna import Study, visualization
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState

from cse_dashboards.figures.look import LIGHT, SCALE, colour, faded
from cse_dashboards.figures.naming import Quantity
from cse_dashboards.figures.setting import log_axis
from cse_platform.search.replay import trial_numbers

TOP, LEAST, HALF = 0.1, 5, 0.5
"""Importance is for being among the best tenth of the complete trials, or the best 5 where these
are more, but never more than half of them."""

FEW_LINES, LIGHTEST = 50, 0.4
"""More lines than these hide each other and the numbers between them, and so are see-through."""


def history(study: Study, quantity: Quantity) -> go.Figure:
    """The score of each complete trial, and the best so far, in the order of their numbers.

    Args:
        study: of a search, with scores as they are drawn.
        quantity: of the scores.
    """
    figure = visualization.plot_optimization_history(study, target_name=quantity.title)
    told = trial_numbers(study)
    figure.for_each_trace(lambda trace: trace.update(x=[told[place] for place in trace.x]))
    figure.data[0].update(name="trial", marker={"color": faded(0, 0.6), "size": 7})
    figure.data[1].update(name="best so far", line={"color": colour(5), "shape": "hv"})
    figure.update_layout(legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.08})
    return _dressed(figure, title="Search history", x="trial", y=quantity.title)


def parallel(study: Study, quantity: Quantity) -> go.Figure:
    """A line a complete trial, through its score and its settings; the darker, the better.

    Args:
        study: of a search, with scores as they are drawn; Optuna draws a trace a trial.
        quantity: of the scores.
    """
    figure = visualization.plot_parallel_coordinate(study, target_name="score")
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    heights, clear = [trace.y[0] for trace in lines], max(LIGHTEST, min(1, FEW_LINES / len(lines)))
    for trace, height in zip(lines, heights, strict=True):
        trace.update(
            name="trial",
            meta=("axis", "value"),
            opacity=1,
            line={"color": faded(0, clear * (0.2 + 0.8 * height)), "width": 1 + height},
        )
    figure.data = lines
    figure.update_layout(plot_bgcolor=None, margin={"t": 72})
    names = {"score": quantity.title}
    figure.update_xaxes(
        ticktext=[names.get(name, name) for name in figure.layout.xaxis.ticktext], showline=False
    )
    figure.update_annotations(font={"color": None, "size": 11})
    return _dressed(figure, title="Settings and scores", x="", y="")


def importances(study: Study) -> go.Figure:
    """How much each setting decides whether a trial is among the best, by PED-ANOVA.

    Watanabe, Bansal and Hutter, IJCAI 2023. Of 1000 trials it takes 0.1 s, where fANOVA takes
    minutes.

    Args:
        study: of a search with at least two complete trials of different scores.
    """
    best = share_of_best(study)
    figure = visualization.plot_param_importances(study, evaluator=_evaluator(best))
    hover = "%{y}: %{x:.2f}<extra></extra>"
    figure.data[0].update(name="importance", marker={"color": colour(0)}, hovertemplate=hover)
    title = f"Importance of settings for the best {best:.0%} (PED-ANOVA)"
    return _dressed(figure, title=title, x="importance, all together 1", y="setting")


def most_important(study: Study) -> list[str]:
    """The settings, the most important ones first, as `importances` has them."""
    return list(get_param_importances(study, evaluator=_evaluator(share_of_best(study))))


def share_of_best(study: Study) -> float:
    """Of the complete trials, how many importance holds for the best: in (0, 0.5]."""
    complete = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    return max(TOP, min(HALF, LEAST / complete))


def _evaluator(best: float) -> PedAnovaImportanceEvaluator:
    return PedAnovaImportanceEvaluator(target_quantile=best)


def slices(study: Study, names: Sequence[str], quantity: Quantity) -> go.Figure:
    """Score against each setting, a panel each; the later a trial, the darker.

    Args:
        study: of a search, with scores as they are drawn.
        names: of the settings.
        quantity: of the scores.
    """
    figure = visualization.plot_slice(study, params=list(names), target_name=quantity.title)
    bar = {"title": {"text": "trial", "side": "right"}, "x": 1.0, "xpad": 12}
    told, line = trial_numbers(study), {"color": colour(6)}
    for trace in figure.data:
        places = [told[place] for place in trace.marker.color]
        trace.update(
            name="trial",
            marker={"color": places, "colorscale": SCALE, "colorbar": bar, "line": line},
        )
    lows = {name: one.low for name, one in _ranges(study).items()}
    for axis in figure.select_xaxes(selector={"type": "log"}):
        axis.update(log_axis(lows[axis.title.text]))
    y = figure.layout.yaxis.title.text
    return _dressed(figure, title="Score by setting", x=None, y=y)


def contour(study: Study, x: str, y: str, quantity: Quantity) -> go.Figure:
    """Score over two settings, interpolated between the complete trials, which are its points.

    Args:
        study: of a search, with scores as they are drawn.
        x: name of one setting.
        y: name of another.
        quantity: of the scores.
    """
    figure = visualization.plot_contour(study, params=[x, y], target_name=quantity.title)
    figure.update_traces(
        selector={"type": "contour"},
        name="between trials",
        colorscale=SCALE,
        colorbar={"title": {"text": quantity.title, "side": "right"}},
    )
    marks = {"color": colour(1), "size": 8, "line": {"color": colour(6), "width": 1}}
    figure.update_traces(selector={"name": "Feasible Trial"}, name="trial", marker=marks)
    if x > y:  # Optuna puts the name that sorts first across, whatever the order of `params`
        _swap_axes(figure)
    return _dressed(figure, title=f"Contour of {x} and {y}", x=x, y=y)


def _swap_axes(figure: go.Figure) -> None:
    for trace in figure.data:
        trace.x, trace.y = trace.y, trace.x
        if trace.type == "contour":
            trace.z = list(zip(*trace.z, strict=True))
    x, y = (axis.to_plotly_json() for axis in (figure.layout.xaxis, figure.layout.yaxis))
    figure.update_layout(xaxis=y, yaxis=x, overwrite=True)


def _ranges(study: Study) -> dict[str, FloatDistribution | IntDistribution]:
    """The settings of a search that are numbers in a range."""
    trials = study.get_trials(deepcopy=False)
    every = {name: one for trial in trials for name, one in trial.distributions.items()}
    kinds = (FloatDistribution, IntDistribution)
    return {name: one for name, one in every.items() if isinstance(one, kinds)}


def _dressed(figure: go.Figure, *, title: str, x: str | None, y: str) -> go.Figure:
    """In our template, and without the marks of constraints, which no search of ours has."""
    figure.data = [trace for trace in figure.data if trace.name != "Infeasible Trial"]
    figure.layout.title = {"text": title}
    if x is not None:
        figure.update_layout(xaxis_title_text=x)
    return figure.update_layout(template=LIGHT, yaxis_title_text=y)
