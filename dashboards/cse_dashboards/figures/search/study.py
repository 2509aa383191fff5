"""A search prepared for its figures: its trials, and an Optuna study of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from cse_dashboards.figures.labels import Quantity, dev_quantity, search_notes
from cse_dashboards.figures.picture import Drawn, Picture
from cse_dashboards.figures.search.values import by_value
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.search.findings import (
    LEAST_SEARCHED,
    SearchFindings,
    pick_evenly,
    search_findings,
    sort_by_value,
    subsample_history,
)
from cse_platform.search.replay import replay_study
from cse_platform.stores.optuna.trials import NUMBER

MOST_MARKS = 200
"""Most trials in figures that get slow: parallel coordinates have a trace per trial, and browsers
never finish a contour over a thousand values of each hyperparameter.
"""
LEAST_MARKS = 3
"""Fewest trials for a figure that relates hyperparameters to scores."""
TRIAL_COLUMN, KEY_COLUMN = "trial", "key"
PAIR = ("tau2", "tau3")
"""The hyperparameters of RankCSE's figure 3."""


class ReplayedSearch:
    """The search of one sweep; its Optuna study is made once, when a figure first needs it."""

    def __init__(self, history: SearchHistory) -> None:
        self.history = history
        self.quantity = dev_quantity(history.dev)
        self.complete = [
            trial
            for trial in history.trials
            if trial.role == "search" and trial.state == "COMPLETE"
        ]

    @cached_property
    def optuna(self) -> Study:
        """The study, with scores as drawn, without further seeds."""
        return replay_study(self.history, factor=self.quantity.factor)

    @property
    def left_out(self) -> int:
        """The number of trials that the study lacks because their values are not in the space."""
        states = [t.state for t in self.history.trials if t.role == "search"]
        return len(states) - states.count("RUNNING") - len(self.optuna.get_trials(deepcopy=False))

    @property
    def replayed(self) -> list[FrozenTrial]:
        return self.optuna.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    @property
    def data(self) -> pd.DataFrame:
        """The study's complete trials: number, key, score, and a column per hyperparameter."""
        score = self.quantity.title
        keys = {trial.number: trial.key for trial in self.complete}
        numbers = [trial.user_attrs[NUMBER] for trial in self.replayed]
        records = [
            {TRIAL_COLUMN: number, KEY_COLUMN: keys[number], score: trial.value, **trial.params}
            for number, trial in zip(numbers, self.replayed, strict=True)
        ]
        names = [name for name in self.history.space if any(name in record for record in records)]
        return pd.DataFrame(
            records, columns=[TRIAL_COLUMN, KEY_COLUMN, score, *names], dtype=object
        )

    @cached_property
    def findings(self) -> SearchFindings | None:
        """The findings of the search; None if it is too short."""
        return search_findings(self.history)

    @cached_property
    def shown_trials(self) -> "ReplayedSearch":
        """A search with at most `MOST_MARKS` trials: the best half, and an even sample of the
        others.
        """
        complete = sort_by_value(self.complete)
        if len(complete) <= MOST_MARKS:
            return self
        best, others = complete[: MOST_MARKS // 2], complete[MOST_MARKS // 2 :]
        others.sort(key=lambda trial: trial.number)
        kept = [*best, *pick_evenly(others, MOST_MARKS - len(best))]
        kept.sort(key=lambda trial: trial.number)
        return ReplayedSearch(replace(self.history, trials=tuple(kept)))

    @cached_property
    def even_sample(self) -> "ReplayedSearch":
        """An even sample of the trials, made by `subsample_history`, for unbiased statistics."""
        return ReplayedSearch(subsample_history(self.history))


def trial_record(trial: Trial, quantity: Quantity) -> dict[str, Any]:
    """Return the data of a trial for figures: number, key, configuration, seed and score."""
    return {
        TRIAL_COLUMN: trial.number,
        KEY_COLUMN: trial.key,
        "configuration": trial.configuration[:8],
        "seed": trial.seed,
        quantity.title: quantity.factor * (trial.value or 0.0),
    }


def search_picture(
    blank: Picture,
    study: ReplayedSearch,
    draw: Callable[[], Drawn],
    *,
    hyperparameters: int = 0,
    trials: int = 1,
) -> Picture:
    """Add a figure to the picture `blank`, or the reason why there is none.

    `hyperparameters` and `trials` are the minimum that the figure needs. If it needs several trials
    and there are fewer than ten, the caption warns that it says little.
    """
    history = study.history
    searched = len(history.space)
    why = None
    if hyperparameters and not searched:
        why = nothing_searched(history)
    elif hyperparameters > searched:
        why = f"sweep {history.sweep} searched a single hyperparameter"
    elif not study.complete:
        why = f"no trial of the search of sweep {history.sweep} is complete yet"
    elif not study.replayed:
        why = f"no complete trial of sweep {history.sweep} has values of the space in its file"
    elif len(study.replayed) < trials:
        why = (
            f"it takes {trials} complete trials, and sweep {history.sweep} has "
            f"{len(study.replayed)}"
        )
    if why is not None:
        return replace(blank, missing=why)
    caption = blank.caption + sample_note(history)
    if study.left_out:
        caption += f" Left out: {study.left_out} trials with values that its space does not have."
    if trials > 1 and len(study.replayed) < LEAST_SEARCHED:
        caption += f" Of {len(study.replayed)} trials it says little."
    figure, data = draw()
    notes = search_notes(study.complete, study.quantity.factor)
    return replace(blank, caption=caption, figure=figure, data=data, trials=notes)


def sample_note(history: SearchHistory) -> str:
    """Format a caption note if some trials are not shown."""
    if not history.is_sample:
        return ""
    return (
        f" Of {history.total} trials {len(history.trials)} are shown: the best half as many, and "
        "an even sample of the others."
    )


def nothing_searched(history: SearchHistory) -> str:
    """Explain why a search whose space is empty has no picture."""
    return (
        f"it is not known what sweep {history.sweep} searched: its file is not on the leaderboard, "
        "or its space: is empty"
    )


def pair_of(history: SearchHistory, x: str | None, y: str | None) -> Sequence[str]:
    """Choose two hyperparameters: those requested, then the paper's, or those with most values.

    There are fewer than two if the search has no more.
    """
    most = sorted(history.space, key=lambda name: -len(by_value(history.trials, name)))
    usual = [*PAIR, *most] if all(name in history.space for name in PAIR) else most
    chosen = [name for name in (x, y) if name is not None]
    free = [name for name in usual if name not in chosen]
    filled = [name if name is not None else free.pop(0) for name in (x, y) if name or free]
    return list(dict.fromkeys(filled))


def no_pair(history: SearchHistory, names: Sequence[str]) -> str | None:
    """Explain why these are not two hyperparameters of the search; None if they are."""
    if len(names) == 2 and all(name in history.space for name in names):
        return None
    if not len(history.space):
        return nothing_searched(history)
    return (
        f"it takes two hyperparameters that sweep {history.sweep} searched "
        f"({', '.join(history.space)}), got {' and '.join(names) or 'none'}"
    )
