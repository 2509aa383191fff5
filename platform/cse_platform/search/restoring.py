"""Build the trials of a study from the journal, or a whole study from the leaderboard's rows."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.records import TrialSummary
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.search.distributions import build_distribution
from cse_platform.search.failures import FAILURE_CAUSE, RETRY_OF
from cse_platform.search.proposals import FIXED, REQUEST, encode_point
from cse_platform.sweep.objectives import DEV_VALUE, compute_excesses, measure
from cse_platform.sweep.space.dimensions import encode
from cse_platform.sweep.space.space import Space, find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import TrialHistory

CLOSED = "closed"
"""User attribute with the reason why a proposed trial was not run."""
SEED = "seed"
"""User attribute with the seed of a trial that repeats a configuration."""


def build_trial(trial: TrialHistory, spec: SweepSpec) -> FrozenTrial:
    """Build the Optuna trial of a search's trial as far as the journal tells of it.

    COMPLETE has its best values, which are never NaN; a pruned trial has its last dev point.
    """
    notes, why = trial.search_notes, explain_closing(trial, spec)
    params = encode_values(trial, spec)
    user = {
        REQUEST: notes.request,
        RETRY_OF: notes.retry_of,
        CLOSED: why,
        SEED: trial.seed if trial.role == "repeat" and not why else None,
        FAILURE_CAUSE: trial.cause if trial.state == "FAIL" and not why else None,
    }
    fixed = {} if notes.start_point is None else {FIXED: encode_point(notes.start_point)}
    ended = not why and trial.state in ("COMPLETE", "PRUNED")
    points = {} if why or spec.search.objectives else dict(trial.kept)
    built = create_trial(
        state=TrialState.FAIL if why else TrialState[trial.state],
        values=read_final_values(trial, spec) if ended else None,
        params=params,
        distributions={name: build_distribution(spec.space[name]) for name in params},
        user_attrs={name: value for name, value in user.items() if value is not None},
        system_attrs={**notes.trial, **trial.pruner_notes, **fixed},
        intermediate_values=points,
        constraints=(compute_excesses(spec.search.constraints, [trial]) or None) if ended else None,
    )
    built.datetime_start = convert_to_local(trial.started)
    if built.state.is_finished():
        built.datetime_complete = convert_to_local(trial.finished or trial.started)
    return built


def encode_values(trial: TrialHistory, spec: SweepSpec) -> dict[str, Any]:
    """Encode the searched values of a trial as Optuna stores them, parents first."""
    values = trial.searched_values
    return {
        name: encode(find_value(spec.space, spec.method, name, values[name]))
        for name in spec.space.ordered()
        if name in values
    }


def explain_closing(trial: TrialHistory, spec: SweepSpec) -> str | None:
    """Explain why the study does not run a proposed trial; None if it does.

    With `seeds.repeats` the study contains every seed of the search, otherwise only the first.
    """
    if trial.role != "repeat" or spec.seeds.repeats:
        return None
    return f"proposed before; run with seed {trial.seed} instead"


def read_final_values(trial: TrialHistory, spec: SweepSpec) -> list[float] | None:
    """Read the values of an ended trial: of each objective, or of a pruned one its last dev point.

    Returns None if a pruned trial has none that is a number.
    """
    if trial.state == "PRUNED":
        last = trial.kept[max(trial.kept)] if trial.kept else math.nan
        return None if spec.search.objectives or math.isnan(last) else [last]
    names = [objective.name for objective in spec.search.objectives] or [DEV_VALUE]
    values = (measure(trial, name) for name in names)
    return [value for value in values if value is not None]


def convert_to_local(time: datetime) -> datetime:
    """Convert a time to local time without a zone, as Optuna stores it."""
    return time.astimezone().replace(tzinfo=None)


NUMBER = "number"


@dataclass(frozen=True)
class Replay:
    """A rebuilt study, and the number of trials that do not fit into it."""

    study: optuna.Study
    left_out: int
    """Number of ended trials with a value that is not in the space."""


def replay_study(history: SearchHistory, *, factor: float = 1.0) -> Replay:
    """Rebuild a study in memory from a search's ended trials, with dev scores times `factor`.

    Confirmation seeds are left out. The study numbers its trials from 0; `list_trial_numbers` maps
    them to the sweep's.
    """
    ended = [t for t in history.trials if t.role == "search" and t.state != "RUNNING"]
    frozen = [_replay_trial(trial, history.space, history.method, factor) for trial in ended]
    known = [trial for trial in frozen if trial is not None]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    study.add_trials(known)
    return Replay(study, left_out=len(ended) - len(known))


def list_trial_numbers(study: optuna.Study) -> list[int]:
    """List the sweep's trial numbers of a replayed study, in the study's order."""
    return [trial.user_attrs[NUMBER] for trial in study.get_trials(deepcopy=False)]


def _replay_trial(
    trial: TrialSummary, space: Space, method: str, factor: float
) -> FrozenTrial | None:
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
        value=factor * trial.value if complete and trial.value is not None else None,
        params=params,
        distributions={name: build_distribution(space[name]) for name in params},
        user_attrs={NUMBER: trial.number},
    )
