"""The score of each trial of a search, the best so far, and the expected best of as many."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, search_notes
from cse_dashboards.figures.picture import Drawn, Picture, colour, fade, make_band, make_figure
from cse_dashboards.figures.search.study import (
    TRIAL_COLUMN,
    StudiedSearch,
    mark_trials,
    sample_note,
    scores_of,
)

BEST, TRIALS = "best so far", "trials"
HOVER_TRIALS = "%{x} trials: %{y:.2f}<extra></extra>"


def search_history_picture(search: StudiedSearch) -> Picture:
    name, title = "search_history", "Search history"
    caption = "The dev score of each complete trial of the search, and the highest until then."
    if not (scored := search.scored):
        why = f"there is no complete trial of the search of sweep {search.history.sweep}"
        return Picture(name, title, caption, missing=why)
    score = search.quantity.title
    data = scores_of(scored, search.quantity)
    data[BEST] = data[score].cummax()
    # The line has the ids of the best trial: where it meets a marker, both show the same note.
    holder = data[TRIAL_COLUMN].where(~data[BEST].duplicated()).ffill().astype(int)
    best = go.Scatter(
        name=BEST,
        x=data[TRIAL_COLUMN].tolist(),
        y=data[BEST].tolist(),
        ids=holder.astype(str).tolist(),
        mode="lines",
        line={"color": colour(5), "shape": "hv"},
        hovertemplate=HOVER,
    )
    figure = make_figure(
        mark_trials(data, TRIAL_COLUMN, score), best, title=title, x=TRIAL_COLUMN, y=score
    )
    figure.update_xaxes(nticks=min(len(scored), 10))  # more would be parts of a trial
    notes = search_notes(scored, search.quantity.factor)
    return Picture(name, title, caption + sample_note(search.history), figure, data, trials=notes)


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
        BEST: (trials, values, {"color": colour(0), "shape": "hv"}),
    }
    traces = [
        go.Scatter(name=line, x=x, y=y, mode="lines", line=style, hovertemplate=HOVER_TRIALS)
        for line, (x, y, style) in lines.items()
    ]
    band = make_band(sizes, low, high, fill=fade(colour(5)))
    figure = make_figure(*band, *traces, title=title, x=TRIALS, y=score)
    return Picture(name, title, caption, *Drawn(figure, data))
