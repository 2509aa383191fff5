"""What is said of any picture of a search."""

from collections.abc import Sequence

from cse_dashboards.figures.setting import by_value
from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory

PAIR = ("tau2", "tau3")
"""The settings of RankCSE's figure 3."""


def sampled(history: SearchHistory) -> str:
    """What to add to a caption where some trials were left out."""
    if not history.is_sample:
        return ""
    return (
        f" Of {history.total} trials {len(history.trials)} are shown: the best half as many, and "
        "an even sample of the others."
    )


def nothing_searched(history: SearchHistory) -> str:
    """Why there is no picture of a search whose space is empty."""
    return (
        f"it is not known what sweep {history.sweep} searched: its file is not on the leaderboard, "
        "or its space: is empty"
    )


def pair(history: SearchHistory, x: str | None, y: str | None) -> Sequence[str]:
    """The two settings asked for, filled up by the paper's or by those with most values.

    Returns:
        Fewer than two where no more were searched.
    """
    most = sorted(history.space, key=lambda name: -len(by_value(history.trials, name)))
    usual = [*PAIR, *most] if all(name in history.space for name in PAIR) else most
    chosen = [name for name in (x, y) if name is not None]
    free = [name for name in usual if name not in chosen]
    filled = [one if one is not None else free.pop(0) for one in (x, y) if one or free]
    return list(dict.fromkeys(filled))


def no_pair(history: SearchHistory, names: Sequence[str]) -> str | None:
    """Why these are not two settings of the search; None if they are."""
    if len(names) == 2 and all(name in history.space for name in names):
        return None
    if not len(history.space):
        return nothing_searched(history)
    return (
        f"it takes two settings that sweep {history.sweep} searched "
        f"({', '.join(history.space)}), got {' and '.join(names) or 'none'}"
    )
