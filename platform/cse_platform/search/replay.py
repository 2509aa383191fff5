"""Rebuilds a search as an Optuna study in memory, from the leaderboard's rows.

It does not open the search store, so it works for merged leaderboards too.
"""

from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.records import TrialSummary
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.search.distributions import distribution, encode
from cse_platform.sweep.space.space import Space, find_value

NUMBER = "number"


@dataclass(frozen=True)
class Replay:
    """A study, and the number of trials that do not fit into it."""

    study: optuna.Study
    left_out: int
    """Number of ended trials with a value that the space does not have."""


def replayed_study(history: SearchHistory, *, factor: float = 1.0) -> Replay:
    """Rebuild a study from the ended trials of a search; dev scores are multiplied by `factor`.

    Confirmation seeds are not trials of the search. The study counts its trials from 0; see
    `trial_numbers`.
    """
    ended = [t for t in history.trials if t.role == "search" and t.state != "RUNNING"]
    frozen = [_build_trial(trial, history.space, history.method, factor) for trial in ended]
    known = [trial for trial in frozen if trial is not None]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    study.add_trials(known)
    return Replay(study, left_out=len(ended) - len(known))


def trial_numbers(study: optuna.Study) -> list[int]:
    """List the sweep's numbers of a replayed study's trials, in the study's order."""
    return [trial.user_attrs[NUMBER] for trial in study.get_trials(deepcopy=False)]


def _build_trial(
    trial: TrialSummary, space: Space, method: str, factor: float
) -> FrozenTrial | None:
    """Build a trial; None if the space lacks one of its values. An empty space takes no values."""
    params: dict[str, Any] = {}
    for name, value in trial.values.items() if len(space) else ():
        try:
            params[name] = encode(find_value(space, method, name, value))
        except LookupError:
            return None
    complete = trial.state == "COMPLETE" and trial.value is not None
    return create_trial(
        state=TrialState[trial.state],
        value=factor * trial.value if complete and trial.value is not None else None,
        params=params,
        distributions={name: distribution(space[name]) for name in params},
        user_attrs={NUMBER: trial.number},
    )
