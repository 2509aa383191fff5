"""Repeats writes while a disk is full."""

import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


def wait_for_room(
    write: Callable[[], _T], *, what: str, waiting: Callable[[], None] = lambda: None
) -> _T:
    """Call `write`; if the disk is full, warn once and call it again until there is room.

    `waiting` is called before each wait, of a few seconds at most.
    """

    def say(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            _log.warning("no room on the disk for %s; it is written when there is some", what)
        waiting()

    retrying = Retrying(
        retry=retry_if_exception(is_full),
        wait=wait_exponential(multiplier=0.2, max=10),
        before_sleep=say,
        reraise=True,
    )
    return retrying(write)


def is_full(error: BaseException) -> bool:
    """Whether a write failed for lack of room, or in torch's own writer, which does not say why."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, RuntimeError) and "inline_container.cc" in str(error)
