"""Notify people of the events of a sweep through any service that Apprise supports."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Queue
from typing import Self

from pydantic import SecretStr

from cse_platform.runner.state import SweepState
from cse_platform.secrets import mask_text

BEHIND_SECONDS = 300.0
"""Seconds that a store must be down before it is reported."""
SEND_SECONDS = 15.0
"""Seconds that the end of a sweep waits for unsent messages."""
_LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Notifier:
    """Sends messages about one sweep from a background thread, so it never delays or fails it.

    An exception that leaves its context is reported, unless it is a KeyboardInterrupt. Without URLs
    the notifier does nothing.
    """

    def __init__(
        self, sweep: str, urls: Sequence[SecretStr], *, patience: float = BEHIND_SECONDS
    ) -> None:
        self._sweep, self._urls, self._patience = sweep, urls, patience
        self._messages: Queue[tuple[str, str] | None] = Queue()
        self._thread = threading.Thread(target=self._send_messages, name="notifier", daemon=True)
        if urls:
            self._thread.start()

    def tell(self, what: str, details: str = "") -> None:
        """Queue a message: a title of a word or two, and details."""
        self._messages.put((f"{self._sweep}: {what}", mask_text(details)))

    @contextmanager
    def watching(self, state: SweepState) -> Iterator[None]:
        """Report stalled trials and stores that stay down while the context is open."""
        done = threading.Event()
        thread = threading.Thread(target=self._watch_sweep, args=[state, done], daemon=True)
        if self._urls:
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.is_alive():
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, Exception):
            self.tell("failed", str(error) or repr(error))
        self._messages.put(None)
        if self._thread.is_alive():
            self._thread.join(SEND_SECONDS)

    def _watch_sweep(self, state: SweepState, done: threading.Event) -> None:
        stalled: set[str] = set()
        down: dict[str, float] = {}
        while not done.wait(_LOOK_SECONDS):
            before, stalled = stalled, state.stalled
            for key in stalled - before:
                number = state.history.trials[key].number
                self.tell(f"trial {number} has stalled", "it has not reported for long")
            errors = {sink.name: sink.error for sink in state.recorder.health() if sink.error}
            down = {name: down.get(name, time.monotonic()) for name in errors}
            for name, since in down.items():
                if time.monotonic() - since >= self._patience:
                    self.tell(f"{name} is behind", errors[name])
                    down[name] = float("inf")  # report once, until the store is back

    def _send_messages(self) -> None:
        import apprise

        service = apprise.Apprise()
        for url in self._urls:
            service.add(url.get_secret_value())
        while (message := self._messages.get()) is not None:
            title, body = message
            if not service.notify(title=title, body=body or title):
                _log.warning("some notifications failed: %s", title)
