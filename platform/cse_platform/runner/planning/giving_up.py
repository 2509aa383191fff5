"""When a sweep goes on no longer: all of its trials fail, and for one cause."""

from cse_platform.runner.results import STOPPED
from cse_platform.runner.state import SweepState


def common_cause(state: SweepState) -> str | None:
    """The error of every trial that has ended, once enough of them have failed alike.

    What a person has stopped has not failed by itself.
    """
    retried = {trial.key for trial in state.to_retry}
    trials = state.history.trials.values()
    ended = [t for t in trials if t.state != "RUNNING" and t.key not in retried]
    by_itself = {t.key for t in ended if t.state == "FAIL" and t.error != STOPPED}
    causes = {trial.error if trial.key in by_itself else None for trial in ended}
    enough = len(ended) >= state.spec.search.give_up_after
    return causes.pop() if enough and len(causes) == 1 else None
