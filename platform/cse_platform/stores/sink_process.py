"""Fills stores in a process of its own, beside the driver, whose interpreter serves one thread."""

import faulthandler
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.managers import BaseManager
from typing import Any

from cse_platform.errors import StoreDownError
from cse_platform.tracking.events import Event
from cse_platform.tracking.recorder import Sink

NICENESS = 15
"""Niceness of the process: that of Ray's workers, behind the driver."""
_SERVE = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"
_LOOPBACK = "127.0.0.1"
_ANSWER_LOST = (EOFError, OSError)
"""Errors raised where the process has ended."""


class SinkProcess:
    """A process that holds sinks and calls them, each in a thread of its own.

    It starts at the first call, starts anew at the next one if it has died, and ends with this
    process, even one that is killed. A Ctrl-C does not reach it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._host: Any = None
        self._starting = threading.Lock()

    def open(self, make: Callable[..., Sink], *arguments: Any, **options: Any) -> Sink:
        """Let the process make a sink at its first call. Returns a sink that stands for it here."""
        return _RemoteSink(self, make, partial(make, *arguments, **options))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the process. Returns what it returns, and raises what it raises.

        Raises StoreDownError if the process ends meanwhile.
        """
        try:
            return self._reach_host().call(partial(function, *arguments))
        except _ANSWER_LOST as error:
            raise StoreDownError(f"the process that fills it has ended ({error!r})") from error

    def close(self) -> None:
        """End the process; the next call starts it again."""
        with self._starting:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._process = self._host = None

    def _reach_host(self) -> Any:
        """Return the proxy of the process's host; start the process if it does not run."""
        with self._starting:
            if self._process is None or self._process.poll() is not None:
                self._host = None
                self._process = process = subprocess.Popen(
                    [sys.executable, "-c", _SERVE.format(path=sys.path, module=__name__)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
                assert process.stdin is not None and process.stdout is not None
                try:
                    key = os.urandom(32)
                    pickle.dump(key, process.stdin)
                    process.stdin.flush()
                    manager: Any = _Manager((_LOOPBACK, int(process.stdout.readline())), key)
                    manager.connect()
                    self._host = manager.host()
                except (*_ANSWER_LOST, ValueError) as error:
                    process.kill()
                    process.wait()
                    raise StoreDownError(f"the process that fills it fails: {error!r}") from error
            return self._host


class _RemoteSink:
    """A sink in a `SinkProcess`."""

    def __init__(self, process: SinkProcess, kind: Any, make: Callable[[], Sink]) -> None:
        self._process, self._number, self._make = process, next(_NUMBERS), make
        self.name: str = kind.name
        self.can_be_refilled: bool = kind.can_be_refilled
        self.pause: float = kind.pause

    def position(self, journal: str) -> int:
        return int(self._call("position", journal))

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        self._call("apply", journal, entries)

    def _call(self, name: str, *given: Any) -> Any:
        return self._process.call(_call_sink, self._number, self._make, name, *given)


_NUMBERS = itertools.count()
"""Numbers of the sinks of this process, none of which is used twice."""
_sinks: dict[int, Sink] = {}
"""The sinks that this process has made for another one."""


def _call_sink(number: int, make: Callable[[], Sink], name: str, *given: Any) -> Any:
    if number not in _sinks:
        _sinks[number] = make()
    try:
        return getattr(_sinks[number], name)(*given)
    except OSError as error:  # of the store; the caller would take it for the end of this process
        raise StoreDownError(str(error)) from error


class _Host:
    """What the process serves."""

    def call(self, function: Callable[[], Any]) -> Any:
        return function()


class _Manager(BaseManager):
    """Connects to the process."""


_Manager.register("host", _Host)


def serve() -> None:
    """Serve calls of the process that started this one, until it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.stderr is not None:  # it is not closed
        faulthandler.enable()
    os.nice(NICENESS)
    server: Any = _Manager((_LOOPBACK, 0), pickle.load(sys.stdin.buffer)).get_server()
    os.write(1, f"{server.address[1]}\n".encode())
    os.dup2(2, 1)  # whatever a library prints is no answer

    def end_with_caller() -> None:
        """End at once, in the middle of a batch too, as threads of the caller would."""
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_caller, daemon=True).start()
    server.serve_forever()
