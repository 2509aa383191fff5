"""Trials that other sweeps have completed: the same key, so the same numbers."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from cse_platform.errors import StoreError
from cse_platform.leaderboard.query.trials.curves import DevPoint, dev_curve
from cse_platform.leaderboard.query.trials.find import stored_trials, trial_of_key
from cse_platform.leaderboard.store.tables import TrialRecord
from cse_platform.runner.state import SweepState
from cse_platform.sweep.objectives import measure
from cse_platform.tracking.events import TrialReused, TrialStarted, asked_of

_log = logging.getLogger(__name__)


def find_reused(state: SweepState, planned: TrialStarted) -> TrialReused | None:
    """The planned trial with the values that the leaderboard has of it; None if it must run."""
    try:
        with state.leaderboard.session() as session:
            for wanted in _acceptable(state, planned):
                done = trial_of_key(session, wanted.trial)
                if done is None or done.state != "COMPLETE":
                    continue
                if done.step is None or done.value is None:
                    continue
                if done.model is None and state.spec.evaluate is not None:
                    continue  # it was deleted, and the test sets may want it
                points = dev_curve(session, wanted.trial)
                reused = TrialReused(
                    sweep=wanted.sweep,
                    trial=wanted.trial,
                    reused_from=done.sweep,
                    curve={point.step: point.value for point in points if point.value is not None},
                    best_step=done.step,
                    best_value=done.value,
                    best_metrics=_of_best(points),
                    **_cost(stored_trials(session, [wanted.trial])[wanted.trial]),
                    model=done.model,
                    **asked_of(wanted),
                )
                if all(measure(reused, name) is not None for name in state.spec.search.measured):
                    return reused
    except StoreError as error:
        _log.warning("%s; trials of other sweeps are not reused", error)
    return None


def _of_best(points: Sequence[DevPoint]) -> dict[str, float]:
    """The metrics of the kept checkpoint, those that are numbers."""
    kept = next((point.metrics for point in points if point.kept), {})
    return {name: value for name, value in kept.items() if value is not None}


def _cost(trial: TrialRecord) -> dict[str, Any]:
    """What it took where it ran."""
    seconds = trial.wall_seconds
    return {"wall_seconds": seconds, "gpus": trial.gpu_seconds / seconds if seconds else 0.0}


def _acceptable(state: SweepState, planned: TrialStarted) -> Iterator[TrialStarted]:
    """The trial by its code and, where the user accepts that, the same by unknown code."""
    if state.reuse == "nothing":
        return
    if planned.code is not None:
        yield planned
    if state.reuse == "unknown code too":
        config = state.spec.config_of(planned.values)
        unknown = state.identity.of(config).with_unknown_code()
        change = {"trial": unknown.key(planned.seed), "configuration": unknown.hash, "code": None}
        yield planned.model_copy(update=change)
