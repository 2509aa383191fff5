"""Start Ray on this machine, closed to other machines, or join a cluster; Ray prints nothing."""

import gc
import logging
import os
import secrets
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import parameter, ray_constants, utils, worker
from ray._private.authentication.authentication_token_setup import (
    AUTH_MODE_ENV_VAR,
    AuthenticationTokenLoader,
    Config,
)
from ray._private.services import GcsClient, canonicalize_bootstrap_address_or_die
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from ray.exceptions import AuthenticationError, RayError
from ray.job_config import JobConfig

from cse_methods.allocator import ONE_ARENA
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.cluster.shipping import Shipment
from cse_platform.signals import heed_sigterm

_ALIVE = GcsNodeInfo.GcsNodeState.ALIVE
_TOKEN, _TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_CONNECT_SECONDS = 3.0
"""Timeout in seconds of a connection to a machine."""
_PIN_SECONDS = 60
"""Seconds that an uploaded archive stays in the cluster without a user."""
_SHORT_TIMEOUTS = '{"py_gcs_connect_timeout_s": 3, "gcs_rpc_server_connect_timeout_s": 2}'
"""Settings that shorten Ray's wait, 40 s by default, for a machine that accepts connections and
does not answer."""


def prepare_to_join(address: str) -> str:
    """Prepare this process to join a cluster, with a token if the cluster wants one.

    Ray itself sends a token to a given address only if RAY_AUTH_MODE says so, whatever the cluster
    wants.

    Returns:
        HOST:PORT, also for `auto`.

    Raises:
        SweepRefusedError: within ten seconds, if nothing answers, the cluster rejects the token or
            there is none, or this machine is not a node of the cluster.
    """
    try:
        head: str = canonicalize_bootstrap_address_or_die(address)
        host, _, port = head.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        if (client := _connect_client(head, with_token=False)) is None:
            known = has_token()  # if there is none, Ray would end this process
            client = _connect_client(head, with_token=True) if known else None
            if client is None:
                raise SweepRefusedError(token_refusal(head, known=known))
        nodes = client.get_all_node_info(timeout=_CONNECT_SECONDS).values()
    except (OSError, ValueError, RayError) as error:
        raise SweepRefusedError(
            f"no Ray cluster answers at {address}: {error}; give the address that `ray start "
            "--head` has printed there, and let its port be reached from here"
        ) from error
    if not any(Path(node.raylet_socket_name).exists() for node in nodes if node.state == _ALIVE):
        raise SweepRefusedError(
            f"this machine is not a node of the Ray cluster at {head}, and a sweep's driver runs "
            "on one; hand it over by cse-sweep submit, give the same command there, or first here: "
            f"ray start --address={head}"
        )
    return head


def upload(shipment: Shipment, head: str) -> None:
    """Upload a shipment to a cluster before joining it; Ray deletes it with its last user."""
    client = GcsClient(address=head)
    for uri, data in shipment.archives.items():
        client.pin_runtime_env_uri(uri, _PIN_SECONDS)  # its last other user may end just now
        client.internal_kv_put(uri.encode(), data, True, None)


def _connect_client(head: str, *, with_token: bool) -> GcsClient | None:
    """Connect to a cluster; from then on this process sends its token, or none.

    Returns None if the cluster refuses that.
    """
    os.environ.pop(AUTH_MODE_ENV_VAR, None)
    if with_token:
        os.environ[AUTH_MODE_ENV_VAR] = "token"
    try:
        Config.initialize(_SHORT_TIMEOUTS)
        with _silence_stderr():
            return GcsClient(address=head)
    except AuthenticationError:
        return None
    finally:
        Config.initialize("")


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Silence standard error, where Ray's native code writes why a cluster refuses it."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def token_refusal(head: str, *, known: bool) -> str:
    """Explain that a cluster wants a token, or one other than the token `known` here."""
    wants = "wants another token than that of" if known else "wants a token, and there is none in"
    named = os.environ.get(_TOKEN_FILE) or "~/.ray/auth_token"
    looked = _TOKEN if os.environ.get(_TOKEN) else named
    return (
        f"the Ray cluster at {head} {wants} {looked}; copy the file ~/.ray/auth_token of its head "
        f"node to here, or set {_TOKEN} to what it holds"
    )


def has_token() -> bool:
    """Whether there is a token on this machine, of whichever cluster."""
    try:
        return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))
    except AuthenticationError:  # the configured file is empty or cannot be read
        return False


RAY_SETTINGS = {
    **ONE_ARENA,  # for the worker processes
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # keep relative paths of the file valid in a trial
    "RAY_DEDUP_LOGS": "0",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",  # the next stage reuses them to score
    "RAY_prestart_worker_first_driver": "false",  # trials need another environment anyway
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results go through the journal alone
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # time for a stopped trial to leave its worker
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal resumes a sweep, not Ray's snapshot
    "TUNE_STATE_REFRESH_PERIOD": "86400",  # Tune polls resources only to print them
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # the sweep reports them, and keeps the tracebacks
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # the searcher limits their number
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def join_cluster(address: str | None, shipment: Shipment | None = None) -> None:
    """Join the Ray cluster at `address`, and give its workers the shipment; else start Ray here.

    A Ray that this process already uses is kept, unless its workers have a different shipment. The
    process leaves the cluster when it ends. Raises SweepRefusedError if nothing answers at the
    address, or if the cluster refuses this process.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if ray.is_initialized():
        there = ray.get_runtime_context().runtime_env.get("py_modules")
        if not there or not shipment or there == shipment.environment["py_modules"]:
            return
        shut_down_ray()  # the environment of a joined cluster cannot be changed
    environment: dict[str, Any] = {}
    if address is not None:
        address = prepare_to_join(address)
        if shipment is not None:
            upload(shipment, address)
            environment = shipment.environment
    init = partial(
        ray.init,
        log_to_driver=False,
        logging_level=logging.ERROR,
        job_config=_Job(),
        runtime_env=worker_environment(address) | environment,
    )
    try:
        with without_noise():
            if address is None:
                start_own(init)
            else:
                init(address=address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise SweepRefusedError(f"cannot join the Ray cluster at {address}: {why}") from error
    finally:
        heed_sigterm()  # replaces Ray's handler, which ends the process at once


class _Job(JobConfig):  # type: ignore[misc]
    """A job whose workers import from the folders that this process imports from, and no others.

    Ray itself puts the working directory first on the path of its workers. A file of the user's
    there, such as `statistics.py`, would take the place of Python's own module or of a package.
    """

    def __init__(self) -> None:
        super().__init__(_py_driver_sys_path=list_own_folders())

    def _runtime_env_has_working_dir(self) -> bool:
        return True  # so that Ray adds no folder


def list_own_folders() -> list[str]:
    """List the folders of the script and of the work, if this process prefers them to Python's own.

    They precede Python's own modules on `sys.path` if the process is a script there, `python -m`, a
    notebook, or has them in PYTHONPATH; methods of such a script are imported from them. Further
    down, a package that is installed from its folder is meant, which workers find by themselves.
    The last one is preferred, as Ray wants it.
    """
    folders = [Path(folder).resolve() for folder in sys.path]
    ahead = folders[: folders.index(Path(os.__file__).resolve().parent)]
    own = {Path(sys.argv[0]).resolve().parent, Path.cwd().resolve()}
    return [str(folder) for folder in reversed(ahead) if folder in own]


def worker_environment(address: str | None) -> dict[str, Any]:
    """Make the environment of workers, with this Python's path quoted for a shell if it must be.

    Ray puts the path into a shell command unquoted, so that with a blank in it no worker would
    start. The head of a cluster on another machine uses its own path, so there it is left alone.
    """
    host = "localhost" if address is None else address.rpartition(":")[0]
    here = host in {"localhost", "127.0.0.1", ray.util.get_node_ip_address()}
    quoted = shlex.quote(sys.executable)
    return {"py_executable": quoted} if here and quoted != sys.executable else {}


_LOOPBACK = "127.0.0.1"
_NEEDED = ("gcs_server", "raylet")
"""The processes without which Ray cannot work, and which nothing replaces on a single machine."""

_needed: list[psutil.Process] = []
"""Those processes of the Ray that this process has started; empty if it has started none."""

_log = logging.getLogger(__name__)


class OwnRayLost(BaseException):
    """A Ray that this process has started has died.

    It is not an Exception: Ray's loop would catch one, and wait for the dead Ray while cleaning up.
    """


def is_own() -> bool:
    """Whether this process uses a Ray that it has started."""
    return bool(_needed)


def check_own() -> None:
    """Raise OwnRayLost if a Ray that this process has started has died."""
    for process in _needed:
        try:
            lives = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # it ended between the two calls
            lives = False
        if not lives:
            raise OwnRayLost


def refuse_lost_ray() -> None:
    """Raise SweepRefusedError if a Ray that this process has started has died."""
    try:
        check_own()
    except OwnRayLost:
        raise SweepRefusedError(
            "Ray on this machine has died while models were scored; the same command goes on"
        ) from None


def stop_own() -> None:
    """Shut down the Ray that this process has started, and its workers, even if parts have died."""
    if is_own():
        _needed.clear()
        shut_down_ray()


def shut_down_ray() -> None:
    """Disconnect from Ray, or shut it down if this process started it, with the collector off.

    Tune leaves reference cycles that hold Ray's objects. If another thread collects one of them
    while Ray's core shuts down, the core silently ends this process. Collecting them earlier does
    not help: where Ray's GCS has died, that takes a minute and then ends this process, too.
    """
    gc.disable()
    try:
        ray.shutdown()
    finally:
        gc.enable()


def start_own(init: Callable[..., Any]) -> None:
    """Start Ray by `init`, which is `ray.init` with its options; try once more if that fails.

    Ray gives its processes 30 s, which may be too short on a busy machine. Raises SweepRefusedError
    if the second start fails, too.
    """
    _make_token_private()
    ray_constants.ENABLE_RAY_CLUSTER = False  # otherwise Ray replaces 127.0.0.1
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
    """Keep Ray from printing and from handling SIGTERM while the context is open.

    Ray prints the errors of its nodes, including pages of `[state-dump]`. The sweep reports the
    failures of trials itself.
    """
    listen, handle = worker.listen_error_messages, utils.set_sigterm_handler
    worker.listen_error_messages = utils.set_sigterm_handler = lambda *_arguments: None
    try:
        yield
    finally:
        worker.listen_error_messages, utils.set_sigterm_handler = listen, handle


def _start_once(init: Callable[..., Any]) -> None:
    before, params = set(psutil.Process().children()), parameter.RayParams
    # Without the processes that only a cluster needs: one adds nodes, the other collects what
    # workers print. Beside another Ray, the agent's fixed port is taken, and retried for 3 s.
    parameter.RayParams = partial(
        params, no_monitor=True, include_log_monitor=False, dashboard_agent_listen_port=0
    )
    try:
        init(address="local", _node_ip_address=_LOOPBACK, include_dashboard=False)
    except BaseException:
        shut_down_ray()
        started = set(psutil.Process().children()) - before
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=10)
        raise
    finally:
        parameter.RayParams = params
    _needed[:] = [child for child in psutil.Process().children() if child.name() in _NEEDED]


def _make_token_private() -> None:
    """Create the token file of Ray's processes, readable for this user alone.

    Ray itself would make it readable for everyone.
    """
    if os.environ.get("RAY_AUTH_MODE", "token") != "token":
        return
    file = Path.home() / ".ray" / "auth_token"
    with suppress(OSError):  # Ray reports what is wrong with the file
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
