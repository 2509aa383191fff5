"""Which two hyperparameters a figure is of."""

from collections.abc import Sequence

from cse_dashboards.figures.search.study import nothing_searched
from cse_dashboards.figures.search.values import by_value
from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory

PAIR = ("tau2", "tau3")
"""The hyperparameters of RankCSE's figure 3."""


def pair_of(history: SearchHistory, x: str | None, y: str | None) -> Sequence[str]:
    """The two hyperparameters asked for, filled up by the paper's or by those with most values.

    There are fewer than two where no more were searched.
    """
    most = sorted(history.space, key=lambda name: -len(by_value(history.trials, name)))
    usual = [*PAIR, *most] if all(name in history.space for name in PAIR) else most
    chosen = [name for name in (x, y) if name is not None]
    free = [name for name in usual if name not in chosen]
    filled = [one if one is not None else free.pop(0) for one in (x, y) if one or free]
    return list(dict.fromkeys(filled))


def no_pair(history: SearchHistory, names: Sequence[str]) -> str | None:
    """Why these are not two hyperparameters of the search; None if they are."""
    if len(names) == 2 and all(name in history.space for name in names):
        return None
    if not len(history.space):
        return nothing_searched(history)
    return (
        f"it takes two hyperparameters that sweep {history.sweep} searched "
        f"({', '.join(history.space)}), got {' and '.join(names) or 'none'}"
    )
