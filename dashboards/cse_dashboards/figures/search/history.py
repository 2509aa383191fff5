"""The score of each trial of a search, and the best so far."""

import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, search_notes
from cse_dashboards.figures.picture import Picture, colour, fade_colour, make_figure
from cse_dashboards.figures.search.study import TRIAL_COLUMN, StudiedSearch, sample_note, scores_of

BEST = "best so far"
FEW = 10


def search_history_picture(search: StudiedSearch) -> Picture:
    name, title = "search_history", "Search history"
    caption = "The dev score of each complete trial of the search, and the highest until then."
    if not (scored := search.scored):
        why = f"no trial of the search of sweep {search.history.sweep} is complete yet"
        return Picture(name, title, caption, missing=why)
    score = search.quantity.title
    data = scores_of(scored, search.quantity)
    data[BEST] = data[score].cummax()
    # The line has the ids of the best trial: where it meets a marker, both show the same note.
    holder = data[TRIAL_COLUMN].where(~data[BEST].duplicated()).ffill().astype(int)
    marks = go.Scatter(
        name="trial",
        x=data[TRIAL_COLUMN].tolist(),
        y=data[score].tolist(),
        ids=data[TRIAL_COLUMN].astype(str).tolist(),
        mode="markers",
        marker={"color": fade_colour(0, 0.6), "size": 7},
        hovertemplate=HOVER,
    )
    best = go.Scatter(
        name=BEST,
        x=data[TRIAL_COLUMN].tolist(),
        y=data[BEST].tolist(),
        ids=holder.astype(str).tolist(),
        mode="lines",
        line={"color": colour(5), "shape": "hv"},
        hovertemplate=HOVER,
    )
    figure = make_figure(marks, best, title=title, x=TRIAL_COLUMN, y=score)
    if len(scored) < FEW:  # Plotly would mark parts of a trial
        figure.update_xaxes(tickvals=data[TRIAL_COLUMN].tolist())
    notes = search_notes(scored, search.quantity.factor)
    return Picture(name, title, caption + sample_note(search.history), figure, data, trials=notes)
