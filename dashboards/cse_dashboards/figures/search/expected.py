"""The best so far by number of trials, and the expected best of that many."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.picture import (
    Drawn,
    Picture,
    colour,
    fade_colour,
    make_band,
    make_figure,
)
from cse_dashboards.figures.search.study import StudiedSearch

TRIALS = "trials"
HOVER_TRIALS = "%{x} trials: %{y:.2f}<extra></extra>"


def expected_best_picture(search: StudiedSearch) -> Picture:
    """Show what more trials would bring (after Dodge et al. 2019, figure 1)."""
    name, title = "search_expected", "Expected best of n trials"
    caption = (
        "The best dev score that n trials of the search are expected to reach, with the 95 % "
        "interval of a bootstrap over the trials, and the best so far in the order in which they "
        "were begun. After Dodge et al. 2019, figure 1."
    )
    if (findings := search.findings) is None:
        return Picture(name, title, caption, missing=search.too_short)
    if not findings.independent:
        caption += (
            f" Trials of {findings.sampler or 'most samplers'} depend on the ones before them: "
            "this is for n of these trials, taken in any order."
        )
    factor, score = search.quantity.factor, search.quantity.title
    records = [
        (o.trials, factor * o.mean, factor * o.low, factor * o.high) for o in findings.expected
    ]
    data = pd.DataFrame(records, columns=[TRIALS, score, "low", "high"])
    sizes, mean, low, high = (data[column].tolist() for column in data)
    reached = [(point.trials, factor * point.value) for point in findings.best_so_far]
    reached.append((max(findings.trials, reached[-1][0]), reached[-1][1]))
    trials, values = zip(*reached, strict=True)
    lines = {
        "expected best": (sizes, mean, {"color": colour(5), "width": 2}),
        "best so far": (trials, values, {"color": colour(0), "shape": "hv"}),
    }
    traces = [
        go.Scatter(name=line, x=x, y=y, mode="lines", line=style, hovertemplate=HOVER_TRIALS)
        for line, (x, y, style) in lines.items()
    ]
    band = make_band(sizes, low, high, fill=fade_colour(5))
    figure = make_figure(*band, *traces, title=title, x=TRIALS, y=score)
    return Picture(name, title, caption, *Drawn(figure, data))
