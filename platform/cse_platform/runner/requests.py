"""Receive requests to a running sweep from other processes, and act on them."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

from cse_platform.errors import StoreError
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.signals import interrupt
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.sweep_events import waiting_requests
from cse_platform.tracking.events import SweepRequested

LISTEN_SECONDS = 1.0


class Requests:
    """Receives requests to a sweep: a thread polls the leaderboard until `close`.

    A request stays in the leaderboard until the driver's journal, which records it, has reached the
    leaderboard; a driver that starts before then receives it again. While the leaderboard is down
    nothing is received.
    """

    def __init__(self, leaderboard: Store, sweep: str) -> None:
        self._leaderboard, self._sweep = leaderboard, sweep
        self._heard: deque[SweepRequested] = deque()
        self._known: set[str] = set()
        self._closing = threading.Event()
        self._fetch_requests()
        self._thread = threading.Thread(
            target=self._listen_until_closed, name="requests", daemon=True
        )
        self._thread.start()

    def take(self) -> Iterator[SweepRequested]:
        """Yield the requests received since the last call."""
        while self._heard:
            yield self._heard.popleft()

    def heed(
        self, state: SweepState, *, stop_trial: Callable[[LiveTrial], None] = lambda live: None
    ) -> None:
        """Act on requests since the last call; `stop_trial` ends a running trial."""
        for request in self.take():
            act_on(state, request, stop_trial=stop_trial)

    def close(self) -> None:
        """Stop polling the leaderboard; a second call does nothing."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join(timeout=1.0)  # abandon it if the store hangs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _listen_until_closed(self) -> None:
        while not self._closing.wait(LISTEN_SECONDS):
            self._fetch_requests()

    def _fetch_requests(self) -> None:
        with suppress(StoreError):
            with self._leaderboard.session() as session:
                waiting = waiting_requests(session, self._sweep)
            self._heard += [asked for asked in waiting if asked.request not in self._known]
            self._known |= {asked.request for asked in waiting}


def act_on(
    state: SweepState, request: SweepRequested, *, stop_trial: Callable[[LiveTrial], None]
) -> None:
    """Record a request in the journal and act on it, in the driver's thread.

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
