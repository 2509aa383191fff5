"""Rebuild a study in memory from a search's rows on the leaderboard."""

from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SearchHistory
from cse_platform.stores.optuna.trials import build_distribution
from cse_platform.sweep.space.space import Space, find_value
from cse_platform.sweep.values import encode


def replay_study(history: SearchHistory) -> optuna.Study:
    """Rebuild a study in memory from a search's ended trials.

    Confirmation seeds are left out, and trials with a value that is not in the space. The study
    numbers the others from 0.
    """
    ended = [t for t in history.trials if t.role == "search" and t.state != "RUNNING"]
    frozen = [_replay_trial(trial, history.space, history.method) for trial in ended]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    study.add_trials([trial for trial in frozen if trial is not None])
    return study


def _replay_trial(trial: Trial, space: Space, method: str) -> FrozenTrial | None:
    """Build a trial; None if a value is not in the space. With an empty space it has no values."""
    params: dict[str, Any] = {}
    for name, value in trial.values.items() if len(space) else ():
        try:
            params[name] = encode(find_value(space, method, name, value))
        except LookupError:
            return None
    complete = trial.state == "COMPLETE" and trial.value is not None
    return create_trial(
        state=TrialState[trial.state],
        value=trial.value if complete else None,
        params=params,
        distributions={name: build_distribution(space[name]) for name in params},
    )
