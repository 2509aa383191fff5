"""What Ctrl-C does after a block that has set a handler of its own."""

import signal

import pytest

from cse_platform.signals import interrupt, interrupt_handler_kept


def test_a_handler_that_was_left_behind_swallows_nothing() -> None:
    with interrupt_handler_kept():
        signal.signal(signal.SIGINT, lambda *_: None)
        interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_it_works_where_sigint_is_ignored() -> None:
    with interrupt_handler_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with pytest.raises(KeyboardInterrupt):
            interrupt()
