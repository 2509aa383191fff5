"""A search's dimensions, values and trials as Optuna's studies have them, in memory and in the
search store.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import TrialHistory
from cse_platform.values import encode

FIXED = "fixed_params"
"""Optuna's system attribute with the values of a start point."""
REQUEST = "request"
"""User attribute with the id of the request that enqueued a trial."""
FAILURE_CAUSE = "failure_cause"
"""User attribute of a failed trial with the cause, as of `TrialFinished`."""
RETRY_OF = "retry_of"
"""User attribute of a trial with the number of the one whose values it tries again."""
SOURCE = "learned_from"
"""User attribute of a trial that another sweep ran, or of a study: where it was learned from."""
CLOSED = "closed"
"""User attribute with the reason why a proposed trial was not run."""
SEED = "seed"
"""User attribute with the seed of a trial that repeats a configuration."""
NUMBER = "number"
"""User attribute with the number of a trial in its sweep, where a study has another one."""


def build_trial(trial: TrialHistory, spec: SweepSpec) -> FrozenTrial:
    """Build the Optuna trial of a search's trial as far as the journal tells of it.

    COMPLETE has its best values, which are never NaN; a pruned trial has its last dev point.
    """
    notes, why = trial.search_notes, explain_closing(trial, spec)
    values = trial.searched_values
    params = {
        name: encode(find_value(spec.space, spec.method, name, values[name]))
        for name in spec.space.order  # parents first
        if name in values
    }
    user = {
        REQUEST: notes.request,
        RETRY_OF: notes.retry_of,
        CLOSED: why,
        SEED: trial.seed if trial.role == "repeat" and not why else None,
        FAILURE_CAUSE: trial.cause if trial.state == "FAIL" and not why else None,
    }
    fixed = {} if notes.start_point is None else {FIXED: encode_point(notes.start_point)}
    ended = not why and trial.state in ("COMPLETE", "PRUNED")
    built = create_trial(
        state=TrialState.FAIL if why else TrialState[trial.state],
        value=read_final_value(trial) if ended else None,
        params=params,
        distributions={name: build_distribution(spec.space[name]) for name in params},
        user_attrs={name: value for name, value in user.items() if value is not None},
        system_attrs={**notes.trial, **trial.pruner_notes, **fixed},
        intermediate_values={} if why else dict(trial.kept),
    )
    built.datetime_start = convert_to_local(trial.started)
    if built.state.is_finished():
        built.datetime_complete = convert_to_local(trial.finished or trial.started)
    return built


def explain_closing(trial: TrialHistory, spec: SweepSpec) -> str | None:
    """Explain why the study does not run a proposed trial; None if it does.

    With `seeds.repeats` the study contains every seed of the search, otherwise only the first.
    """
    if trial.role != "repeat" or spec.seeds.repeats:
        return None
    return f"proposed before; run with seed {trial.seed} instead"


def read_final_value(trial: TrialHistory) -> float | None:
    """Read the value of an ended trial: its best dev score, or if pruned, its last dev point.

    Returns None if a pruned trial has none that is a number.
    """
    if trial.state == "PRUNED":
        last = trial.kept[max(trial.kept)] if trial.kept else math.nan
        return None if math.isnan(last) else last
    return trial.best_value


def convert_to_local(time: datetime) -> datetime:
    """Convert a time to local time without a zone, as Optuna stores it."""
    return time.astimezone().replace(tzinfo=None)


def encode_point(point: Mapping[str, Any]) -> dict[str, Any]:
    """Encode the values of dimensions as Optuna stores them."""
    return {name: encode(value) for name, value in point.items()}


def build_distribution(dimension: Dimension) -> BaseDistribution:
    """Build the Optuna distribution of a dimension."""
    if isinstance(dimension, Choices):
        return CategoricalDistribution([encode(choice) for choice in dimension.choices])
    low, high, step, log = dimension.low, dimension.high, dimension.step, dimension.log
    if dimension.is_whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(low, high, log=log, step=step)


def suggest(trial: Trial, name: str, dimension: Dimension) -> Any:
    """Let Optuna choose a value of the dimension, and return it as the file writes it."""
    match build_distribution(dimension):
        case CategoricalDistribution(choices=choices):
            return decode(dimension, trial.suggest_categorical(name, choices))
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return decode(dimension, trial.suggest_float(name, low, high, step=step, log=log))


def decode(dimension: Dimension, value: Any) -> Any:
    """Decode a value that Optuna returns or has stored to the form in the file."""
    if isinstance(dimension, Choices):
        return next((choice for choice in dimension.choices if encode(choice) == value), value)
    if dimension.is_whole:
        return int(value)
    number = float(value)  # some samplers return a NumPy scalar
    if dimension.step is None:
        return number
    # As the file would write it: 0.3, not Optuna's 0.1 + 2 * 0.1.
    start, distance = Decimal(str(dimension.low)), Decimal(str(dimension.step))
    return float(start + distance * round((Decimal(str(number)) - start) / distance))
