"""A search prepared for its figures, and what their captions say when trials are missing."""

from collections.abc import Sequence
from functools import cached_property

import pandas as pd

from cse_dashboards.figures.labels import Quantity, dev_quantity
from cse_dashboards.figures.search.values import by_value
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SearchHistory
from cse_platform.search.findings import LEAST_SEARCHED, SearchFindings, search_findings

TRIAL_COLUMN, KEY_COLUMN = "trial", "key"
PAIR = ("tau2", "tau3")
"""The hyperparameters of RankCSE's figure 3."""


class StudiedSearch:
    """The search of one sweep; its findings are computed once, when a figure first needs them."""

    def __init__(self, history: SearchHistory) -> None:
        self.history = history
        self.quantity = dev_quantity(history.dev)

    @property
    def scored(self) -> list[Trial]:
        """The complete trials of the search itself, without further seeds."""
        return [
            trial
            for trial in self.history.trials
            if trial.role == "search" and trial.state == "COMPLETE" and trial.best_value is not None
        ]

    @cached_property
    def findings(self) -> SearchFindings | None:
        """The findings of the search; None if it is too short."""
        return search_findings(self.history)

    @property
    def too_short(self) -> str:
        """Explain why there are no findings."""
        few = f"fewer than {LEAST_SEARCHED} of these trials"
        return f"{few} of sweep {self.history.sweep} are complete with a score"


def scores_of(trials: Sequence[Trial], quantity: Quantity, *names: str) -> pd.DataFrame:
    """Make the data of a figure: a line per trial with its score and these hyperparameters."""
    records = [
        {
            TRIAL_COLUMN: trial.number,
            KEY_COLUMN: trial.key,
            "configuration": trial.configuration[:8],
            "seed": trial.seed,
            quantity.title: quantity.factor * (trial.best_value or 0.0),
        }
        for trial in trials
    ]
    data = pd.DataFrame(records)
    for name in names:
        data[name] = pd.Series([trial.searched_values.get(name) for trial in trials], dtype=object)
    return data


def sample_note(history: SearchHistory) -> str:
    """Format a caption note if some trials are not shown."""
    if not history.is_sample:
        return ""
    return (
        f" Of {history.total} trials {len(history.trials)} are shown: the best half as many, and "
        "an even sample of the others."
    )


def weighted_note(history: SearchHistory) -> str:
    """Describe for captions of means how a sample of trials is weighted, if it is one."""
    weighted = " In the means each counts for as many trials as it stands for."
    return sample_note(history) + weighted * history.is_sample


def nothing_searched(history: SearchHistory) -> str:
    """Explain why a search whose space is empty has no picture."""
    return (
        f"what sweep {history.sweep} searched is unknown: its file is not on the leaderboard, "
        "or its space: is empty"
    )


def pair_of(history: SearchHistory, x: str | None, y: str | None) -> Sequence[str]:
    """Choose two hyperparameters: those requested, then the paper's, or those with most values.

    There are fewer than two if the search has no more.
    """
    most = sorted(history.space, key=lambda name: -len(by_value(history.trials, name)))
    usual = [*PAIR, *most] if all(name in history.space for name in PAIR) else most
    free = [name for name in usual if name not in (x, y)]
    filled = [name if name is not None else free.pop(0) for name in (x, y) if name or free]
    return list(dict.fromkeys(filled))
