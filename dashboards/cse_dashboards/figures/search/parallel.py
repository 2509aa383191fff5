"""Parallel coordinates: a line per trial through its hyperparameters and score, with brushing."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, number, value_text
from cse_dashboards.figures.picture import Drawn, Picture, colour, fade_colour, make_figure
from cse_dashboards.figures.search.study import LEAST_MARKS, ReplayedSearch, search_picture
from cse_methods.names import hyperparameter_name
from cse_platform.leaderboard.records import Trial
from cse_platform.sweep.conditions import Condition, write_value
from cse_platform.sweep.space.dimensions import Choices, Dimension

FEW_LINES, LIGHTEST = 50, 0.4
"""With more lines than `FEW_LINES`, lines are transparent, down to the opacity `LIGHTEST`."""
SCORE = "score"
TICKS = 5
_AROUND = 0.03
"""Half the length of a choice's brush on its axis, in [0, 1]."""
BRUSH = {"color": colour(1), "width": 8}
_OTHERS = {"color": fade_colour(6, 0.15), "width": 1}
"""Style of trials that do not match the filter."""
_TITLE = "Hyperparameters and scores"


@dataclass(frozen=True)
class ParallelAxis:
    """A vertical axis, from 0 at the bottom to 1 at the top."""

    name: str
    """The name in filters of trials."""
    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[Any, ...] = ()
    """Choices, if it has no range."""

    def place(self, value: Any) -> float:
        """Return the position of a value or choice on the axis, in [0, 1] for the range."""
        if self.choices:
            return self.choices.index(value) / max(1, len(self.choices) - 1)
        low, high, own = map(self._scale_value, (self.low, self.high, value))
        return (own - low) / ((high - low) or 1)

    def _scale_value(self, value: float) -> float:
        return math.log(value) if self.log else value

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """Positions and labels of the ticks."""
        if self.choices:
            yield from ((self.place(choice), value_text(choice)) for choice in self.choices)
            return
        low, high = self._scale_value(self.low), self._scale_value(self.high)
        for place in (n / (TICKS - 1) for n in range(TICKS)):
            value = low + place * (high - low)
            yield place, number(math.exp(value) if self.log else value)

    def kept(self, conditions: Sequence[Condition]) -> Iterator[tuple[float, float]]:
        """Yield the intervals that conditions on this axis keep; none if they keep nothing."""
        if self.choices:
            for choice in self.choices:
                if all(condition.allows(choice) for condition in conditions):
                    yield self.place(choice) - _AROUND, self.place(choice) + _AROUND
            return
        low, high = self.low, self.high
        for condition in conditions:
            if condition.sign.startswith(">"):
                low = max(low, condition.values[0])
            elif condition.sign.startswith("<"):
                high = min(high, condition.values[0])
            else:
                return
        if low <= high:
            yield self.place(low), self.place(high)

    @property
    def brush_data(self) -> dict[str, Any]:
        """The data from which the browser builds a filter out of a brush."""
        if self.choices:
            return {
                "name": write_value(self.name),
                "choices": [write_value(choice) for choice in self.choices],
            }
        return {
            "name": write_value(self.name),
            "low": self.low,
            "high": self.high,
            "log": self.log,
        }


def parallel_coordinates(
    study: ReplayedSearch, among: ReplayedSearch | None = None, where: Sequence[Condition] = ()
) -> Picture:
    """Show the trials that match the filter, and faintly the others of `among`."""
    caption = (
        "Each line is a trial; the higher its dev score, the stronger its colour. Drag along an "
        "axis to keep the trials that pass there, on several axes one after another. Click twice "
        "to have all again."
    )
    blank = Picture("search_parallel", _TITLE, caption)
    shown, unfiltered = study.shown_trials, (among or study).shown_trials
    return search_picture(
        blank,
        unfiltered,
        lambda: _draw_axes(shown, unfiltered, where),
        hyperparameters=1,
        trials=LEAST_MARKS,
    )


def _draw_axes(study: ReplayedSearch, every: ReplayedSearch, where: Sequence[Condition]) -> Drawn:
    """Draw the lines of a study over those of all trials, and the brushed ranges."""
    passing = [trial for trial in study.complete if trial.value is not None]
    kept = {trial.number for trial in passing}
    others = [o for o in every.complete if o.value is not None and o.number not in kept]
    space = every.history.space
    axes = [
        _make_score_axis(every, [*passing, *others]),
        *(_make_axis(n, d) for n, d in space.items()),
    ]
    clear = max(LIGHTEST, min(1, FEW_LINES / max(1, len(passing))))
    factor = study.quantity.factor
    figure = make_figure(
        *(_make_line(trial, axes, factor, lambda _: _OTHERS) for trial in others),
        *(_make_line(trial, axes, factor, partial(_shade_line, clear)) for trial in passing),
        title=_TITLE,
        x="",
        y="",
        showlegend=False,
        hovermode="closest",
        margin={"t": 40, "b": 56, "l": 64, "r": 40},
        meta={"axes": [axis.brush_data for axis in axes]},
        annotations=[note for at, axis in enumerate(axes) for note in _label_ticks(at, axis)],
        shapes=[*map(_draw_axis_line, range(len(axes))), *_draw_brushes(axes, where)],
    )
    figure.update_xaxes(
        tickvals=list(range(len(axes))),
        ticktext=[axis.title for axis in axes],
        range=[-0.25, len(axes) - 0.75],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(range=[-0.06, 1.06], visible=False, fixedrange=True)
    return Drawn(figure, study.data)


def _make_score_axis(study: ReplayedSearch, trials: Sequence[Trial]) -> ParallelAxis:
    values = [study.quantity.factor * (trial.value or 0.0) for trial in trials]
    title = study.quantity.title.replace(", ", ",<br>")
    return ParallelAxis(SCORE, title, min(values), max(values))


def _make_axis(name: str, dimension: Dimension) -> ParallelAxis:
    title = hyperparameter_name(name)
    if isinstance(dimension, Choices):
        return ParallelAxis(name, title, choices=tuple(dimension.choices))
    return ParallelAxis(name, title, dimension.low, dimension.high, dimension.log)


def _shade_line(clear: float, height: float) -> dict[str, Any]:
    """Style a trial's line by the position of its score, in [0, 1]."""
    return {"color": fade_colour(0, round(clear * (0.2 + 0.8 * height), 3)), "width": 1 + height}


def _make_line(
    trial: Trial,
    axes: Sequence[ParallelAxis],
    factor: float,
    shade: Callable[[float], dict[str, Any]],
) -> go.Scatter:
    score, *others = axes
    height = score.place(factor * (trial.value or 0.0))
    places = [
        axis.place(trial.values[axis.name]) if axis.name in trial.values else None
        for axis in others
    ]
    return go.Scatter(
        name="trial",
        x=list(range(len(axes))),
        y=[height, *places],
        mode="lines",
        line=shade(height),
        meta={"trial": str(trial.number)},
        hovertemplate=HOVER,
    )


def _label_ticks(at: int, axis: ParallelAxis) -> Iterator[dict[str, Any]]:
    beside = {"xanchor": "right", "xshift": -4, "showarrow": False, "font": {"size": 11}}
    for place, text in axis.ticks:
        yield {"x": at, "y": place, "text": text, **beside}


def _draw_brushes(
    axes: Sequence[ParallelAxis], where: Sequence[Condition]
) -> Iterator[dict[str, Any]]:
    """Draw the ranges that the conditions keep, on their axes."""
    for at, axis in enumerate(axes):
        own = [condition for condition in where if condition.name == axis.name]
        for low, high in axis.kept(own) if own else ():
            line = {"x0": at, "x1": at, "y0": low, "y1": high, "opacity": 0.6}
            yield {"type": "line", **line, "line": BRUSH, "layer": "above"}


def _draw_axis_line(at: int) -> dict[str, Any]:
    ends = {"x0": at, "x1": at, "y0": 0, "y1": 1}
    return {"type": "line", **ends, "line": {"color": colour(6), "width": 1}, "layer": "above"}
