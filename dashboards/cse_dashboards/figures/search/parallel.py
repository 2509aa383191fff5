"""Parallel coordinates: a line per trial through its score and its hyperparameters."""

import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, number, search_notes, value_text
from cse_dashboards.figures.picture import Drawn, Picture, colour, fade, make_figure
from cse_dashboards.figures.search.study import StudiedSearch, nothing_searched, on_axis, scores_of
from cse_methods.names import hyperparameter_name
from cse_platform.search.findings import pick_evenly, sort_by_value
from cse_platform.sweep.space.dimensions import Choices

MOST_LINES = 200
"""Most trials, evenly picked by score; each is a trace, and browsers get slow."""
FEWEST_LINES = 3


def parallel_coordinates(search: StudiedSearch) -> Picture:
    name, title, space = "search_parallel", "Hyperparameters and scores", search.history.space
    caption = f"Each line is a trial, at most {MOST_LINES}; the higher its score, the stronger."
    trials = sort_by_value(search.scored)
    if len(trials) < FEWEST_LINES or not len(space):
        why = f"it takes {FEWEST_LINES} complete trials of the search, and there are {len(trials)}"
        return Picture(
            name, title, caption, missing=why if len(space) else nothing_searched(search.history)
        )
    shown = pick_evenly(trials, min(len(trials), MOST_LINES))
    data = scores_of(shown, search.quantity, *space)
    scores = data[search.quantity.title]
    low, high = scores.min(), scores.max()
    axes = [(search.quantity.title.replace(", ", ",<br>"), {number(low): 0.0, number(high): 1.0})]
    heights = [((scores - low) / ((high - low) or 1)).tolist()]
    for key, dimension in space.items():
        if isinstance(dimension, Choices):
            last = max(1, len(dimension.choices) - 1)
            shares = {on_axis(value): n / last for n, value in enumerate(dimension.choices)}
            heights.append(list(map(shares.get, data[key])))
            ticks = {value_text(value): n / last for n, value in enumerate(dimension.choices)}
        else:
            ticks = {number(dimension.low): 0.0, number(dimension.high): 1.0}
            heights.append([None if v is None else dimension.position_of(v) for v in data[key]])
        axes.append((hyperparameter_name(key), ticks))
    lines = [
        go.Scatter(
            x=list(range(len(axes))),
            y=line,
            mode="lines",
            line={"color": fade(colour(4), round(0.2 + 0.7 * line[0] ** 2, 3)), "width": 1.5},
            meta={"trial": str(trial)},
            hovertemplate=HOVER,
        )
        for trial, *line in zip(data["trial"], *heights, strict=True)
    ]
    style = {"xanchor": "right", "xshift": -4, "showarrow": False, "font": {"size": 11}}
    figure = make_figure(*lines, title=title, x="", y="", showlegend=False, hovermode="closest")
    for index, (_, ticks) in enumerate(axes):
        figure.add_vline(x=index, line={"width": 1, "color": fade(colour(6), 0.8)})
        for text, height in ticks.items():
            figure.add_annotation({"x": index, "y": height, "text": text, **style})
    titles, ends = [title for title, _ in axes], [-0.25, len(axes) - 0.75]
    figure.update_xaxes(tickvals=list(range(len(axes))), ticktext=titles, range=ends)
    figure.update_xaxes(showgrid=False, zeroline=False, tickfont_size=11)
    figure.update_xaxes(autotickangles=[0, 90])  # a slanted name of the last axis has no room
    figure.update_yaxes(range=[-0.06, 1.06], visible=False)
    notes = search_notes(trials, search.quantity.factor)
    return Picture(name, title, caption, *Drawn(figure, data), trials=notes)
