"""Starts and stops a Ray of this machine alone, which hears nobody else and prints nothing."""

import gc
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import parameter, ray_constants, utils, worker

from cse_platform.errors import SweepRefusedError

_LOOPBACK = "127.0.0.1"
_NEEDED = ("gcs_server", "raylet")
"""The processes without which a Ray does nothing, and for which there is no other here."""

_needed: list[psutil.Process] = []
"""The needed processes of the Ray that this process has started."""

_log = logging.getLogger(__name__)


class OwnRayLost(BaseException):
    """A Ray that this process has started has died.

    It is no Exception, because Ray's loop would then wait for what is gone, to tidy up.
    """


def is_own() -> bool:
    """Whether this process has started the Ray that it uses."""
    return bool(_needed)


def check_own() -> None:
    """Raise OwnRayLost if a Ray that this process has started has died."""
    for process in _needed:
        try:
            lives = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # it has ended between the two
            lives = False
        if not lives:
            raise OwnRayLost


def refuse_lost_ray() -> None:
    """Raise SweepRefusedError if a Ray that this process has started has died."""
    try:
        check_own()
    except OwnRayLost:
        raise SweepRefusedError(
            "Ray on this machine has died while test sets were scored; the same command goes on"
        ) from None


def stop_own() -> None:
    """End the Ray that this process has started, or what is left of it, and its workers."""
    if is_own():
        _needed.clear()
        shut_down_ray()


def shut_down_ray() -> None:
    """Leave Ray, and end it if this process has started it, while no garbage is collected.

    Tune leaves references to Ray's objects in cycles. If another thread collects one of them while
    Ray's core ends, the core ends this process at once, without a word. They are not collected
    before either: where Ray's GCS has died, that takes a minute and then ends this process too.
    """
    gc.disable()
    try:
        ray.shutdown()
    finally:
        gc.enable()


def start_own(init: Callable[..., Any]) -> None:
    """Start Ray by `init`, `ray.init` with its options; once more where that fails.

    Ray gives its processes 30 s, which a busy machine may not have. SweepRefusedError if the second
    start fails too.
    """
    _make_token_private()
    ray_constants.ENABLE_RAY_CLUSTER = False  # else Ray takes another address for 127.0.0.1
    try:
        _start_once(init)
    except Exception as error:
        _log.warning("Ray did not start (%s); it is started once more", _extract_first_line(error))
        try:
            _start_once(init)
        except Exception as again:
            raise SweepRefusedError(
                f"Ray does not start on this machine: {_extract_first_line(again)}; the same "
                "command goes on from here when the machine has less to do"
            ) from again


@contextmanager
def without_noise() -> Iterator[None]:
    """Keep Ray, which joins or starts within, from printing and from handling SIGTERM.

    Ray prints what its nodes complain of, with pages of `[state-dump]`. Of what ends a trial we
    tell ourselves.
    """
    listen, handle = worker.listen_error_messages, utils.set_sigterm_handler
    worker.listen_error_messages = utils.set_sigterm_handler = lambda *_arguments: None
    try:
        yield
    finally:
        worker.listen_error_messages, utils.set_sigterm_handler = listen, handle


@contextmanager
def _limit_to_one_machine() -> Iterator[None]:
    """Start Ray within without the processes that only a cluster needs, and on any free port.

    One such process adds nodes, another collects what workers print. Beside another Ray the agent's
    fixed port is taken, and it tries that port for 3 s before it goes on.
    """
    params = parameter.RayParams
    parameter.RayParams = partial(
        params, no_monitor=True, include_log_monitor=False, dashboard_agent_listen_port=0
    )
    try:
        yield
    finally:
        parameter.RayParams = params


def _start_once(init: Callable[..., Any]) -> None:
    before = set(psutil.Process().children())
    try:
        with _limit_to_one_machine():
            init(address="local", _node_ip_address=_LOOPBACK, include_dashboard=False)
    except BaseException:
        shut_down_ray()
        started = set(psutil.Process().children()) - before
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=10)
        raise
    _needed[:] = [child for child in psutil.Process().children() if child.name() in _NEEDED]


def _make_token_private() -> None:
    """Make the token of Ray's processes unreadable for everyone else.

    Ray itself makes the file readable for everyone.
    """
    if os.environ.get("RAY_AUTH_MODE", "token") != "token":
        return
    file = Path.home() / ".ray" / "auth_token"
    with suppress(OSError):  # Ray says what is wrong with it
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            with tempfile.NamedTemporaryFile("w", dir=file.parent) as new:  # of mode 0600
                new.write(secrets.token_hex(32))
                new.flush()
                with suppress(FileExistsError):
                    os.link(new.name, file)
        file.chmod(0o600)


def _extract_first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
