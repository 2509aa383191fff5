"""Which configurations of a search get further seeds."""

import statistics

from cse_platform.leaderboard.query.board.best import BestKey, best_key
from cse_platform.tracking.history import History, TrialHistory


def to_confirm(history: History, *, top: int) -> list[TrialHistory]:
    """The first trial of each of the configurations with the highest means of the search.

    The best comes first. Confirmation is what gives a configuration several seeds. How often the
    search proposed one again says nothing about it, so all count as of one seed.
    """
    found = {
        name: [trial for trial in trials if trial.role != "confirm"]
        for name, trials in history.configurations().items()
    }
    means = {
        name: statistics.fmean(t.best_value for t in trials if t.best_value is not None)
        for name, trials in found.items()
        if trials
    }

    def key(name: str) -> BestKey:
        return best_key(seeds=1, mean=means[name], configuration=name)

    return [found[name][0] for name in sorted(means, key=key, reverse=True)[:top]]
