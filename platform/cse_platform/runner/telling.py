"""What a driver warns of: on its terminal, and in the journal for whoever follows the sweep."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from cse_platform.runner.state import SweepState
from cse_platform.tracking import journal


@contextmanager
def warnings_told(state: SweepState) -> Iterator[None]:
    """Put every warning of the platform into the journal, too, while the context is open."""
    teller, logger = _Teller(state), logging.getLogger("cse_platform")
    logger.addHandler(teller)
    try:
        yield
    finally:
        logger.removeHandler(teller)


class _Teller(logging.Handler):
    def __init__(self, state: SweepState) -> None:
        super().__init__(logging.WARNING)
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.root.handlers:
            logging.lastResort.handle(record)  # as Python does where nobody handles a record
        if record.name != journal.__name__:  # that it cannot be written cannot be written to it
            self._state.say(record.getMessage(), "warning")
