"""The score of each trial of a search, and the best so far."""

import pandas as pd

from cse_dashboards.figures.picture import Drawn, Picture
from cse_dashboards.figures.search.study import (
    TRIAL_COLUMN,
    ReplayedSearch,
    search_picture,
    trial_record,
)
from cse_dashboards.figures.training.best_so_far import draw_best


def search_history_picture(study: ReplayedSearch) -> Picture:
    caption = "The dev score of each complete trial of the search, and the highest until then."
    title, score = "Search history", study.quantity.title

    def draw() -> Drawn:
        numbers = set(study.data[TRIAL_COLUMN])
        shown = [trial for trial in study.complete if trial.number in numbers]
        records = [trial_record(trial, study.quantity) for trial in shown]
        return draw_best(pd.DataFrame(records), title=title, x=TRIAL_COLUMN, y=score)

    return search_picture(Picture("search_history", title, caption), study, draw)
