"""A selection of a search's trials that misleads nobody who counts."""

from collections.abc import Sequence
from dataclasses import replace

from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory
from cse_platform.leaderboard.trial import TrialSummary

MOST_COUNTED = 500
"""Trials from which importances are taken: more say hardly more."""


def even_history(history: SearchHistory) -> SearchHistory:
    """At most 500 trials, with the same share of the best as the whole search has.

    Where a history is a sample, half of it are the best trials.
    """
    trials = history.trials
    if history.is_sample:
        best = highest_first([one for one in trials if one.state == "COMPLETE"])[: len(trials) // 2]
        others, sampled = history.total - len(best), len(trials) - len(best)
        kept = {one.number for one in spread(best, round(len(best) * sampled / others))}
        too_many = {one.number for one in best} - kept
        trials = tuple(one for one in trials if one.number not in too_many)
    if len(trials) > MOST_COUNTED:
        trials = tuple(spread(trials, MOST_COUNTED))
    return replace(history, trials=trials, total=len(trials))


def highest_first(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    return sorted(trials, key=lambda one: (-(one.value or 0.0), one.number))


def spread(trials: Sequence[TrialSummary], count: int) -> list[TrialSummary]:
    """That many of them, at even distances."""
    return [trials[place * len(trials) // count] for place in range(count)]
