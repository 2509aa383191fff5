"""What Ctrl-C does after a block that has set a handler of its own."""

import signal
import subprocess
import sys

import pytest

from cse_platform.signals import interrupt, interrupt_handler_kept

HIT_IN_A_FINALISER = """
import signal, threading
from cse_platform.signals import heed_sigterm

class Hit:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job ignores it
heed_sigterm()
try:
    hit = Hit()
    del hit
    threading.Event().wait(300)
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""

HIT_WHILE_A_CONNECTION_CLOSES = """
import signal, sqlite3
from sqlalchemy import create_engine
from cse_platform.signals import heed_sigterm

class Hit(sqlite3.Connection):
    def close(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
heed_sigterm()
engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:", factory=Hit))
engine.connect().close()
try:
    engine.dispose()
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""


def test_a_handler_that_was_left_behind_swallows_nothing() -> None:
    with interrupt_handler_kept():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever earlier tests have left
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


def test_ctrl_c_that_hits_tidying_up_is_heard_and_prints_nothing() -> None:
    for script in (HIT_IN_A_FINALISER, HIT_WHILE_A_CONNECTION_CLOSES):
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert (ran.stdout, ran.stderr) == ("heard\n", "")
