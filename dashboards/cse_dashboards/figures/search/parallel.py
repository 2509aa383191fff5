"""Each trial as a line through its hyperparameters and its score, as Optuna draws it."""

from optuna import visualization

from cse_dashboards.figures.look import LIGHT, faded
from cse_dashboards.figures.picture import Drawn, Picture
from cse_dashboards.figures.search.study import ReplayedSearch, search_picture

FEW_LINES, LIGHTEST = 50, 0.4
"""More lines than these hide each other and the numbers between them, and so are see-through."""
_TITLE = "Hyperparameters and scores"


def parallel_coordinates(study: ReplayedSearch) -> Picture:
    caption = "Each line is a trial; the higher its dev score, the darker."
    blank = Picture("search_parallel", _TITLE, caption)
    shown = study.fewer
    return search_picture(blank, shown, lambda: _draw(shown), hyperparameters=1)


def _draw(study: ReplayedSearch) -> Drawn:
    figure = visualization.plot_parallel_coordinate(study.optuna, target_name="score")
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    clear = max(LIGHTEST, min(1, FEW_LINES / len(lines)))
    for trace in lines:
        height = trace.y[0]  # of the score, in [0, 1]
        shade = {"color": faded(0, clear * (0.2 + 0.8 * height)), "width": 1 + height}
        trace.update(name="trial", opacity=1, line=shade)
    figure.data = lines
    names = [
        study.quantity.title if name == "score" else name for name in figure.layout.xaxis.ticktext
    ]
    figure.update_xaxes(ticktext=names, showline=False, title_text="")
    figure.update_annotations(font={"color": None, "size": 11})
    figure.update_layout(
        template=LIGHT, title={"text": _TITLE}, plot_bgcolor=None, margin={"t": 72}
    )
    return Drawn(figure.update_yaxes(title_text=""), study.data)
