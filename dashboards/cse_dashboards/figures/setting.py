"""Score against one searched setting (HiCL figure 2, and the papers' ablations)."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any, Literal

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn, faded
from cse_dashboards.figures.naming import Quantity
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.sweep.space.dimensions import Choices, Dimension, canonical_json

TINY = 1e-3
LOG_TICKS = 4
"""For which Plotly marks 1, 2 and 5 of each power of ten, unless the axis is short or very long."""


@dataclass(frozen=True)
class AtValue:
    """What a search found with one value of a setting. Fractions."""

    mean: float
    """Over configurations, each the mean of its seeds, weighted by what a sample stands for."""
    std: float | None
    """Over seeds, with n - 1 within each configuration; None where none has two."""
    configurations: int


def is_number(value: Any) -> bool:
    """Whether a value has a place on an axis of numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def on_axis(value: Any) -> Any:
    """A number as it is, anything else by its name."""
    return value if is_number(value) or isinstance(value, str) else canonical_json(value)


def scored_with(trials: Sequence[TrialSummary], *names: str) -> list[TrialSummary]:
    """The complete trials in which these settings took part."""
    return [
        trial
        for trial in trials
        if trial.state == "COMPLETE"
        and trial.value is not None
        and all(name in trial.values for name in names)
    ]


def by_value(trials: Sequence[TrialSummary], *names: str) -> dict[tuple[Any, ...], AtValue]:
    """What complete trials found, by their values of these settings as axes have them."""
    groups: dict[Any, dict[str, list[TrialSummary]]] = defaultdict(lambda: defaultdict(list))
    for trial in scored_with(trials, *names):
        place = tuple(on_axis(trial.values[name]) for name in names)
        groups[place][trial.configuration].append(trial)
    return {place: _together(list(seeds.values())) for place, seeds in groups.items()}


def _together(configurations: Sequence[Sequence[TrialSummary]]) -> AtValue:
    values = [[trial.value or 0.0 for trial in seeds] for seeds in configurations]
    weights = [[trial.weight for trial in seeds] for seeds in configurations]
    several = [seeds for seeds in values if len(seeds) > 1]
    freedom = sum(len(seeds) - 1 for seeds in several)
    squares = sum(variance(seeds) * (len(seeds) - 1) for seeds in several)
    return AtValue(
        mean=fmean(map(fmean, values, weights), map(fmean, weights)),
        std=math.sqrt(squares / freedom) if freedom else None,
        configurations=len(configurations),
    )


def recur(found: Collection[AtValue], dimension: Dimension) -> bool:
    """Whether values of a setting stand for several configurations: those of a list, or of a range
    whose values are tried twice each on average."""
    tried = sum(at.configurations for at in found)
    return isinstance(dimension, Choices) or 2 * len(found) <= tried


def spread(found: Collection[AtValue], *, numeric: bool) -> Literal["band", "bars"] | None:
    """How the spread over seeds is drawn: a band takes numbers that all have one."""
    known = [at.std is not None for at in found]
    if not any(known):
        return None
    return "band" if numeric and len(known) > 1 and all(known) else "bars"


def setting(
    trials: Sequence[TrialSummary], name: str, dimension: Dimension, quantity: Quantity
) -> go.Figure:
    """A marker a trial, and the mean over the configurations of each value.

    Around the mean lies one standard deviation over seeds, pooled over the configurations of that
    value that have several: a band where all values of a number have it, else bars. Where nearly
    every configuration has a value of its own there is no mean. Of settings that are no numbers,
    values stand side by side.

    Args:
        trials: of a search; incomplete ones, and those without the setting, are left out.
        name: of the setting.
        dimension: that was searched.
        quantity: of the trials' values.
    """
    shown = scored_with(trials, name)
    found = {place: at for (place,), at in by_value(trials, name).items()}
    numeric = all(map(is_number, found))
    traces = [_trials(shown, name, quantity)]
    if recur(found.values(), dimension):
        in_order = dict(sorted(found.items())) if numeric else found
        traces += _means(in_order, quantity, numeric=numeric)
    figure = drawn(*traces, title=f"Effect of {name}", x=name, y=quantity.title)
    return figure.update_xaxes(axis_of(dimension, numeric=numeric))


def axis_of(dimension: Dimension, *, numeric: bool) -> Mapping[str, Any]:
    """How an axis of the settings of a plot is laid out."""
    if not numeric:
        order = (
            [on_axis(one) for one in dimension.choices] if isinstance(dimension, Choices) else []
        )
        return {"type": "category", "categoryorder": "array", "categoryarray": order}
    if isinstance(dimension, Choices):
        return {"tickvals": sorted(filter(is_number, dimension.choices))}
    return log_axis(dimension.low) if dimension.log else {"type": "linear", "exponentformat": "e"}


def log_axis(low: float) -> dict[str, Any]:
    """With whole numbers at its ticks: left alone, Plotly writes `2` for 0.2 and for 20.

    Args:
        low: its lower end; below a thousandth, ticks are powers such as `2e-5`.
    """
    return {"type": "log", "tickformat": "~e" if low < TINY else "~r", "nticks": LOG_TICKS}


def _trials(trials: Sequence[TrialSummary], name: str, quantity: Quantity) -> go.Scatter:
    return go.Scatter(
        name="trial",
        x=[on_axis(trial.values[name]) for trial in trials],
        y=[quantity.factor * (trial.value or 0.0) for trial in trials],
        customdata=[[trial.number, trial.configuration[:8], trial.seed] for trial in trials],
        meta=("number", "configuration", "seed"),
        mode="markers",
        marker={"color": faded(0, 0.55), "size": 8},
        hovertemplate=(
            "%{x}: %{y:.2f}<br>trial %{customdata[0]}, configuration %{customdata[1]}, "
            "seed %{customdata[2]}<extra></extra>"
        ),
    )


def _means(
    found: Mapping[Any, AtValue], quantity: Quantity, *, numeric: bool
) -> Iterator[go.Scatter]:
    means = [quantity.factor * at.mean for at in found.values()]
    around = [None if at.std is None else quantity.factor * at.std for at in found.values()]
    drawn_as = spread(found.values(), numeric=numeric)
    if drawn_as == "band":
        yield from _band(found, means, around)
    yield go.Scatter(
        name="mean over configurations",
        x=list(found),
        y=means,
        error_y={"array": around, "width": 8} if drawn_as == "bars" else None,
        customdata=[[at.configurations] for at in found.values()],
        meta=("configurations",),
        mode="lines+markers" if numeric else "markers",
        line={"color": colour(5), "width": 2},
        marker={"symbol": "circle" if numeric else "line-ew-open", "size": 7 if numeric else 28},
        hovertemplate="%{x}: mean %{y:.2f} of %{customdata[0]} configurations<extra></extra>",
    )


def _band(
    found: Mapping[Any, AtValue], means: Sequence[float], around: Sequence[float | None]
) -> Iterator[go.Scatter]:
    for name, sign, fill in (("mean - std", -1, None), ("mean + std", 1, "tonexty")):
        yield go.Scatter(
            name=name,
            x=list(found),
            y=[mean + sign * (std or 0.0) for mean, std in zip(means, around, strict=True)],
            mode="lines",
            line={"width": 0, "color": colour(5)},
            fill=fill,
            fillcolor=faded(5),
            hoverinfo="skip",
            showlegend=False,
        )
