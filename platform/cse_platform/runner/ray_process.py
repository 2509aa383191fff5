"""Start Ray on this machine, closed to other machines, or join a cluster; Ray prints nothing."""

import faulthandler
import gc
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import parameter, ray_constants, services, worker
from ray._private.authentication.authentication_token_setup import Config
from ray.exceptions import AuthenticationError, RayError
from ray.job_config import JobConfig

from cse_methods.allocator import ONE_ARENA
from cse_platform.errors import SweepRefusedError
from cse_platform.signals import interrupt_on_sigterm
from cse_platform.sweep.stores import ray_temporary_folder

_TOKEN, _TOKEN_FILE, _AUTH_MODE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"
_GCS_ATTEMPTS = "RAY_gcs_server_port_wait_time_s"
"""How often Ray tries to reach a GCS that it has started at a given port."""
_CONNECT_SECONDS = 3.0
"""Timeout in seconds of a connection to a machine."""
_SHORT_TIMEOUTS = '{"py_gcs_connect_timeout_s": 3, "gcs_rpc_server_connect_timeout_s": 2}'
"""Settings that shorten Ray's wait, 40 s by default, for a machine that accepts connections and
does not answer."""


def prepare_to_join(address: str) -> None:
    """Prepare this process to join a cluster at HOST:PORT, with a token if the cluster wants one.

    Ray itself sends a token to a given address only if RAY_AUTH_MODE says so, whatever the cluster
    wants.

    Raises:
        SweepRefusedError: within ten seconds, if nothing answers, the cluster rejects the token or
            there is none, or this machine is not a node of the cluster.
    """
    try:
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        if (client := _connect_client(address, with_token=False)) is None:
            known = find_token() is not None  # if there is none, Ray would end this process
            client = _connect_client(address, with_token=True) if known else None
            if client is None:
                raise SweepRefusedError(token_refusal(address, known=known))
        nodes = client.get_all_node_info(timeout=_CONNECT_SECONDS).values()
    except (OSError, ValueError, RayError) as error:
        named = ", which RAY_ADDRESS names" if os.environ.get("RAY_ADDRESS") == address else ""
        raise SweepRefusedError(
            f"no Ray cluster answers at {address}{named}: {error}; give the address that `ray "
            "start --head` printed there, and make its port reachable from here"
        ) from error
    alive = (node for node in nodes if node.state == node.ALIVE)
    if not any(Path(node.raylet_socket_name).exists() for node in alive):
        raise SweepRefusedError(
            f"this machine is not a node of the Ray cluster at {address}, but a sweep's driver "
            "must run on one; use cse-sweep submit, run the command there, or first run here: "
            f"ray start --address={address}"
        )


def _connect_client(head: str, *, with_token: bool) -> Any:
    """Connect to a cluster; from then on this process sends its token, or none.

    Returns None if the cluster refuses that.
    """
    os.environ.pop(_AUTH_MODE, None)
    if with_token:
        os.environ[_AUTH_MODE] = "token"
    try:
        Config.initialize(_SHORT_TIMEOUTS)
        with _silence_stderr():
            return services.GcsClient(address=head)
    except AuthenticationError:
        return None
    finally:
        Config.initialize("")


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Silence standard error, where Ray's native code writes why a cluster refuses it."""
    former = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(former, 2)
        os.close(former)


def token_refusal(head: str, *, known: bool) -> str:
    """Explain that a cluster wants a token, or one other than the token `known` here."""
    problem = "expects a token, and there is none in"
    if known:
        problem = "expects another token than that of"
    file = os.environ.get(_TOKEN_FILE) or "~/.ray/auth_token"
    source = _TOKEN if os.environ.get(_TOKEN) else file
    return (
        f"the Ray cluster at {head} {problem} {source}; copy the file ~/.ray/auth_token from its "
        f"head node, or set {_TOKEN} to its content"
    )


def find_token() -> str | None:
    """Find the token on this machine, of whichever cluster, where Ray looks for it."""
    if token := os.environ.get(_TOKEN):
        return token
    try:
        file = Path(os.environ.get(_TOKEN_FILE) or Path.home() / ".ray" / "auth_token")
        return file.read_text().strip() or None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home
        return None


RAY_SETTINGS = {
    **ONE_ARENA,  # for the worker processes
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # keep relative paths of the file valid in a trial
    "RAY_DEDUP_LOGS": "0",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",  # the next stage reuses them to score
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of trials that were stopped; others report theirs
    "RAY_RUNTIME_ENV_IGNORE_GITIGNORE": "1",  # what is not committed is needed on nodes, too
    "RAY_prestart_worker_first_driver": "false",  # trials need another environment anyway
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results go through the journal alone
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # time for a stopped trial to leave its worker
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal resumes a sweep, not Ray's snapshot
    "TUNE_STATE_REFRESH_PERIOD": "86400",  # Tune polls resources only to print them
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # the sweep reports them, and keeps the tracebacks
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # the searcher limits their number
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def join_cluster(address: str | None, shipped: Mapping[str, Any] | None = None) -> None:
    """Join the Ray cluster at `address`; without an address, start Ray here.

    A Ray that this process already uses is kept, unless workers are to have what is `shipped`, part
    of a runtime environment. The process leaves the cluster when it ends. Raises SweepRefusedError
    if nothing answers at the address, or if the cluster refuses this process.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if ray.is_initialized():
        if not shipped:
            return
        shut_down_ray()  # the environment of a joined cluster cannot be changed
    if address == "auto":
        address = find_current_cluster() or address
    if address is not None and address != "auto":
        prepare_to_join(address)
    init = partial(
        ray.init,
        log_to_driver=False,
        logging_level=logging.ERROR,
        job_config=_Job(),
        runtime_env={**worker_environment(address), **(shipped or {})},
    )
    # After a fault of native code each thread's stack is printed; Ray would print only one.
    with suppress(OSError, ValueError, RuntimeError, AttributeError):  # stderr is no file
        faulthandler.enable()
    try:
        with without_noise():
            if address is None:
                start_own(init)
            else:
                init(address=address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise SweepRefusedError(f"cannot join the Ray cluster at {address}: {why}") from error
    except SystemExit:  # Ray's own handler of SIGTERM
        interrupt_on_sigterm()
        signal.raise_signal(signal.SIGTERM)
    finally:
        interrupt_on_sigterm()  # replaces Ray's handler, which ends the process at once


def find_current_cluster() -> str | None:
    """Find the cluster that RAY_ADDRESS names, else the one that `ray start` last joined here.

    Returns its address; None if it is gone.
    """
    if (named := os.environ.get("RAY_ADDRESS", "auto")) != "auto":
        return named
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    file = Path(folder, "ray", "ray_current_cluster")
    try:
        host, _, port = file.read_text().strip().rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return None
    return f"{host}:{port}"


class _Job(JobConfig):  # type: ignore[misc]
    """A job whose workers import from no folder that only the user stands in.

    Ray itself puts the working directory first on the path of its workers. A file of the user's
    there, such as `statistics.py`, would take the place of Python's own module or of a package.
    """

    def _runtime_env_has_working_dir(self) -> bool:
        return True  # so that Ray adds no folder


def list_own_folders() -> list[str]:
    """List the folders of the script and of the work, if this process prefers them to Python's own.

    They precede Python's own modules on `sys.path` if the process is a script there, `python -m`, a
    notebook, or has them in PYTHONPATH; methods of such a script are imported from them. Further
    down, a package that is installed from its folder is meant, which workers find by themselves.
    """
    folders = [Path(folder).resolve() for folder in sys.path]
    ahead = folders[: folders.index(Path(os.__file__).resolve().parent)]
    own = {Path(sys.argv[0]).resolve().parent, Path.cwd().resolve()}
    own.discard(Path(sysconfig.get_path("scripts")).resolve())  # that of the command itself
    return [str(folder) for folder in ahead if folder in own]


_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""The variables that open an object store, which Ray Tune hands to trials by itself."""


def worker_environment(address: str | None) -> dict[str, Any]:
    """Make the environment of workers: folders of imports, credentials, and this Python.

    Ray puts the path of Python into a shell command unquoted, so that with a blank in it no worker
    would start. The head of a cluster on another machine uses its own path, so there it is left
    alone.
    """
    environment: dict[str, Any] = {}
    variables = {}
    if address is not None:  # workers here have the environment of this process
        variables = {name: os.environ[name] for name in _CREDENTIALS if name in os.environ}
    elif folders := list_own_folders():  # to a cluster, methods travel
        path = [*folders, os.environ.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, path))  # an empty one is the cwd
    if variables:
        environment["env_vars"] = variables
    host = "localhost" if address is None else address.rpartition(":")[0]
    is_local = host in {"localhost", "127.0.0.1", ray.util.get_node_ip_address()}
    quoted = shlex.quote(sys.executable)
    if is_local and quoted != sys.executable:
        environment["py_executable"] = quoted
    return environment


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
        try:  # a child whose end nobody has collected stays as a zombie, so its PID is its own
            lives = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            lives = False
        if not lives:
            raise OwnRayLost


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

    Ray gives its processes 40 s, which may be too short on a busy machine. Raises SweepRefusedError
    if the second start fails, too.
    """
    # A token of this process alone, instead of a file in the home, which may not be writable.
    os.environ.setdefault(_TOKEN, secrets.token_hex(32))
    os.environ.setdefault(_GCS_ATTEMPTS, "1")  # each takes up to 40 s
    ray_constants.ENABLE_RAY_CLUSTER = False  # otherwise Ray replaces 127.0.0.1
    for last in (False, True):
        try:
            _start_once(init)
            return
        except Exception as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if not last:
                _log.warning("Ray did not start (%s); trying once more", why)
                continue
            way_out = f"its logs are in {ray_temporary_folder()}/ray/session_latest/logs"
            if os.getloadavg()[0] > (os.cpu_count() or 1):
                way_out = "run the same command to continue when the machine is less busy"
            message = f"Ray does not start on this machine: {why}; {way_out}"
            raise SweepRefusedError(message) from error


@contextmanager
def without_noise() -> Iterator[None]:
    """Keep Ray from printing the errors of its nodes, including pages of `[state-dump]`.

    The sweep reports the failures of trials itself.
    """
    listen, worker.listen_error_messages = worker.listen_error_messages, lambda *_arguments: None
    try:
        yield
    finally:
        worker.listen_error_messages = listen


def _start_once(init: Callable[..., Any]) -> None:
    before = set(psutil.Process().children())
    params, start_api_server = parameter.RayParams, services.start_api_server
    # Without the processes that only a cluster needs: one adds nodes, one collects what workers
    # print, one, for which Ray waits, serves the dashboard, even where there is none. Beside
    # another Ray, the agent's fixed port is taken, and retried for 3 s. For a port that the GCS
    # chooses itself, Ray waits in native code that lets no thread of this process run.
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    parameter.RayParams = partial(
        params,
        no_monitor=True,
        include_log_monitor=False,
        dashboard_agent_listen_port=0,
        gcs_server_port=port,
    )
    services.start_api_server = lambda *_arguments, **_options: ("", None)
    try:
        init(
            address="local",
            _node_ip_address="127.0.0.1",
            _temp_dir=str(ray_temporary_folder() / "ray"),
            include_dashboard=False,
        )
    except BaseException:
        shut_down_ray()
        started = set(psutil.Process().children()) - before
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=10)
        raise
    finally:
        parameter.RayParams, services.start_api_server = params, start_api_server
    _needed[:] = [child for child in psutil.Process().children() if child.name() in _NEEDED]
