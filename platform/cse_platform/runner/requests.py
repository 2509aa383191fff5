"""Act on requests to a running sweep, in the driver's thread."""

from collections.abc import Callable

from cse_platform.control.requests import Requests
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.signals import interrupt
from cse_platform.tracking.events import SweepRequested


def heed_requests(
    state: SweepState,
    requests: Requests,
    *,
    stop_trial: Callable[[LiveTrial], None] = lambda live: None,
) -> None:
    """Act on the requests since the last call; `stop_trial` ends a running trial."""
    for request in requests.take():
        act_on(state, request, stop_trial=stop_trial)


def act_on(
    state: SweepState, request: SweepRequested, *, stop_trial: Callable[[LiveTrial], None]
) -> None:
    """Record a request in the journal and act on it.

    The planner takes the rest from the history. `stop_trial` ends a trial that is to go on.
    """
    if request.request in state.history.requests:
        return
    state.record(request)
    match request.action:
        case "stop" if request.numbers:
            for live in [*state.live.values(), *state.left_over]:
                if live.trial.number in request.numbers:
                    stop_trial(live)
        case "stop":
            interrupt()
        case "retry":
            state.to_retry += [
                trial
                for trial in state.history.trials.values()
                if trial.retry_requested and trial not in state.to_retry
            ]
