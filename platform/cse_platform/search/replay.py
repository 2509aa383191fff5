"""A search as an Optuna study in memory, made from what the leaderboard says.

The search store is not opened: it works for merged leaderboards too.
"""

from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.records import TrialSummary
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.search.distributions import distribution, encode
from cse_platform.sweep.space.space import Space

NUMBER = "number"


@dataclass(frozen=True)
class Replay:
    """A study, and what could not be taken into it."""

    study: optuna.Study
    left_out: int
    """Ended trials of the search with a value that the space does not have."""


def replayed_study(history: SearchHistory, *, factor: float = 1.0) -> Replay:
    """The ended trials of a search as an Optuna study; dev scores are multiplied by `factor`.

    Confirmation seeds are not trials of the search. The study counts its trials from 0; see
    `trial_numbers`.
    """
    ended = [one for one in history.trials if one.role == "search" and one.state != "RUNNING"]
    frozen = [_build_trial(one, history.space, factor) for one in ended]
    known = [trial for trial in frozen if trial is not None]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    study.add_trials(known)
    return Replay(study, left_out=len(ended) - len(known))


def trial_numbers(study: optuna.Study) -> list[int]:
    """What the trials of a replayed study are called in their sweep, in the study's order."""
    return [trial.user_attrs[NUMBER] for trial in study.get_trials(deepcopy=False)]


def _build_trial(trial: TrialSummary, space: Space, factor: float) -> FrozenTrial | None:
    """None where a value is not of the space; where none is known, trials have no settings."""
    params: dict[str, Any] = {}
    for name, value in trial.values.items() if len(space) else ():
        try:
            params[name] = encode(space[name].find(value))
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
