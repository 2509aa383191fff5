"""The dev score of each trial and the best so far, against time or trial numbers."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, dev_quantity, search_notes
from cse_dashboards.figures.picture import Drawn, Picture, colour, fade_colour, make_figure
from cse_dashboards.figures.search.study import sample_note, trial_record
from cse_platform.leaderboard.searches import SearchHistory

END, BEST = "end of trial (UTC)", "best so far"


def best_so_far(history: SearchHistory) -> Picture:
    name, title = "progress_best", "Best so far"
    caption = (
        "The dev score of each complete trial, further seeds included, when it ended, and the "
        "highest until then." + sample_note(history)
    )
    quantity = dev_quantity(history.dev)
    ended = [
        {END: trial.finished, **trial_record(trial, quantity)}
        for trial in history.trials
        if trial.state == "COMPLETE" and trial.value is not None and trial.finished is not None
    ]
    if not ended:
        why = f"no trial of sweep {history.sweep} is complete yet"
        return Picture(name, title, caption, missing=why)
    data = pd.DataFrame(ended).sort_values([END, "trial"], ignore_index=True)
    drawn = draw_best(data, title=title, x=END, y=quantity.title)
    notes = search_notes(history.trials, quantity.factor)
    return Picture(name, title, caption, *drawn, trials=notes)


def draw_best(data: pd.DataFrame, *, title: str, x: str, y: str) -> Drawn:
    """Draw a marker per trial, and a line at the best value so far.

    The line has the ids of the best trial, so that where it meets a marker, both show the same
    note. Trials are in order of `x`; `x` and `y` are column names and axis titles.
    """
    data = data.assign(**{BEST: data[y].cummax()})
    holder = data["trial"].where(~data[BEST].duplicated()).ffill().astype(int)
    places = [time.to_pydatetime() for time in data[x]] if x == END else data[x].tolist()
    marks = go.Scatter(
        name="trial",
        x=places,
        y=data[y].tolist(),
        ids=data["trial"].astype(str).tolist(),
        mode="markers",
        marker={"color": fade_colour(0, 0.6), "size": 7},
        hovertemplate=HOVER,
    )
    best = go.Scatter(
        name=BEST,
        x=places,
        y=data[BEST].tolist(),
        ids=holder.astype(str).tolist(),
        mode="lines",
        line={"color": colour(5), "shape": "hv"},
        hovertemplate=HOVER,
    )
    return Drawn(make_figure(marks, best, title=title, x=x, y=y), data)
