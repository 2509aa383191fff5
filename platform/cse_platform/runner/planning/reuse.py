"""Trials that other sweeps have completed: the same key, so the same numbers."""

import logging
from collections.abc import Iterator

from cse_platform.errors import StoreError
from cse_platform.leaderboard.query.trials.curves import dev_curve
from cse_platform.leaderboard.query.trials.find import trial_of_key
from cse_platform.runner.state import SweepState
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
                return TrialReused(
                    sweep=wanted.sweep,
                    trial=wanted.trial,
                    reused_from=done.sweep,
                    curve={point.step: point.value for point in points if point.value is not None},
                    best_step=done.step,
                    best_value=done.value,
                    model=done.model,
                    **asked_of(wanted),
                )
    except StoreError as error:
        _log.warning("%s; trials of other sweeps are not reused", error)
    return None


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
