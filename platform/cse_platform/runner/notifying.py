"""Notify people of the events of a sweep through any service that Apprise supports."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from pydantic import SecretStr

from cse_platform.runner.state import SweepState
from cse_platform.secrets import mask_text

BEHIND_SECONDS = 300.0
"""Seconds that a store must be down before it is reported."""
SEND_SECONDS = 15.0
"""Seconds that the end of a sweep waits for an unsent message."""
_LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Notifier:
    """Sends messages about one sweep from background threads, so it never delays or fails it.

    An exception that leaves its context is reported, unless it is a KeyboardInterrupt. Without URLs
    the notifier does nothing.
    """

    def __init__(
        self, sweep: str, urls: Sequence[SecretStr], *, patience: float = BEHIND_SECONDS
    ) -> None:
        self._sweep, self._patience = sweep, patience
        self._urls = [url.get_secret_value() for url in urls]
        self._sending: list[threading.Thread] = []

    def tell(self, what: str, details: str = "") -> None:
        """Send a message: a title of a word or two, and details."""

        def send(title: str, body: str) -> None:
            import apprise

            if not apprise.Apprise(self._urls).notify(title=title, body=body or title):
                _log.warning("some notifications failed: %s", title)

        if self._urls:
            message = (f"{self._sweep}: {what}", mask_text(details))
            self._sending.append(threading.Thread(target=send, args=message, daemon=True))
            self._sending[-1].start()

    @contextmanager
    def watching(self, state: SweepState) -> Iterator[None]:
        """Report stalled trials and stores that stay down while the context is open."""
        done = threading.Event()

        def watch() -> None:
            stalled: set[str] = set()
            down: dict[str, float] = {}
            while self._urls and not done.wait(_LOOK_SECONDS):
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

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, Exception):
            self.tell("failed", str(error) or repr(error))
        for thread in self._sending:
            thread.join(SEND_SECONDS)
