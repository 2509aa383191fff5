"""Score against each hyperparameter, with a panel each, drawn by Optuna."""

from collections.abc import Sequence

from optuna import visualization

from cse_dashboards.figures.labels import HOVER
from cse_dashboards.figures.picture import LIGHT, Drawn, Picture, colour
from cse_dashboards.figures.search.study import (
    KEY_COLUMN,
    TRIAL_COLUMN,
    ReplayedSearch,
    search_picture,
)
from cse_dashboards.figures.search.values import log_axis
from cse_platform.search.findings import compute_importances
from cse_platform.search.replay import list_trial_numbers

MOST_PANELS = 6
_TITLE = "Score by hyperparameter"


def slices(study: ReplayedSearch) -> Picture:
    caption = (
        "Each complete trial of the search, by one hyperparameter at a time; the later, the "
        "stronger its colour."
    )
    space = study.history.space
    many = len(space) > MOST_PANELS
    if many:
        caption += f" Of {len(space)} hyperparameters the {MOST_PANELS} most important ones."

    def draw() -> Drawn:
        data = study.data
        names = [*compute_importances(study.optuna)][:MOST_PANELS] if many else space
        tried = [name for name in names if name in data]
        return _draw_slices(study, tried)

    return search_picture(Picture("search_slices", _TITLE, caption), study, draw, hyperparameters=1)


def _draw_slices(study: ReplayedSearch, names: Sequence[str]) -> Drawn:
    score = study.quantity.title
    figure = visualization.plot_slice(study.optuna, params=list(names), target_name=score)
    bar = {"title": {"text": "trial", "side": "right"}, "x": 1.0, "xpad": 12}
    numbers, line = list_trial_numbers(study.optuna), {"color": colour(6)}
    for trace in figure.data:
        places = [numbers[place] for place in trace.marker.color]
        # None: use the template's scale, which contrasts with the background.
        marker = {"color": places, "colorscale": None, "colorbar": bar, "line": line}
        trace.update(name="trial", marker=marker, ids=list(map(str, places)), hovertemplate=HOVER)
    for axis in figure.select_xaxes(selector={"type": "log"}):
        axis.update(log_axis(study.history.space[axis.title.text]))
    figure.update_layout(template=LIGHT, title={"text": _TITLE})
    return Drawn(figure, study.data[[TRIAL_COLUMN, KEY_COLUMN, score, *names]])
