"""PostgreSQL and MLflow servers that can be broken, and folders for them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psycopg
from processes import wait_until

LOOPBACK = "127.0.0.1"
PATIENCE = 120.0
"""Seconds within which a server must answer."""


class Postgres:
    """A PostgreSQL server in a folder; under root it runs as the user `postgres`.

    `address` is where it listens; `within` is the prefix of a command that runs on that host.

    Raises:
        FileNotFoundError: if PostgreSQL is not installed.
    """

    def __init__(
        self, folder: Path, *, address: str = LOOPBACK, within: Sequence[str] = ()
    ) -> None:
        self._address, self._within = address, within
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        control = str(found[-1]) if found else shutil.which("pg_ctl")
        if control is None:
            raise FileNotFoundError("no PostgreSQL here; apt-get install postgresql")
        self._bin, self._folder, self.port = Path(control).parent, folder, free_port()
        folder.mkdir(parents=True)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        own = ["--username=cse", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        self._do("initdb", *own)
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all cse samenet trust\n")
        self.start()
        for name in ("leaderboard", "search"):
            self.execute(f"CREATE DATABASE {name}")

    def url(self, database: str) -> str:
        """Return the URL of one of its databases for SQLAlchemy."""
        return f"postgresql+psycopg://cse@{self._address}:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """Connect to a database."""
        target = f"host={self._address} port={self.port} user=cse dbname={database}"
        return psycopg.connect(target, autocommit=True, connect_timeout=5)

    def execute(self, statement: str) -> None:
        """Run one statement."""
        with self.connect() as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        listens = f"-h {self._address} -p {self.port} -k {self._folder}"
        options = f"{listens} -c fsync=off -c max_connections=40"
        self._do("pg_ctl", "start", "--wait", f"--log={self._folder}/log", f"--options={options}")

    def stop(self) -> None:
        """Stop the server as a power cut would."""
        self._do("pg_ctl", "stop", "--wait", "--mode=immediate")

    def _do(self, program: str, *options: str) -> None:
        command = [str(self._bin / program), f"--pgdata={self._folder}/data", *options]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        quiet = subprocess.DEVNULL
        command = [*self._within, *command]
        subprocess.run(command, check=True, stdout=quiet, stderr=quiet, timeout=PATIENCE)


class MlflowServer:
    """`mlflow server` on a store, or on its own SQLite file, until its context is closed.

    `address` and `within` are as in `Postgres`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: str | None = None,
        address: str = LOOPBACK,
        within: Sequence[str] = (),
    ) -> None:
        self._folder, self._address, self._within = folder, address, within
        self._store, self.port = store or f"sqlite:///{folder}/mlflow.db", free_port()
        self.url = f"http://{address}:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *[*self._within, sys.executable, "-m", "mlflow", "server"],
                *["--host", self._address, "--port", str(self.port)],
                *["--backend-store-uri", self._store],
                *["--artifacts-destination", str(self._folder / "artifacts"), "--workers", "1"],
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )
        wait_until(self._answers, "MLflow answers", PATIENCE)

    def stop(self) -> None:
        """Kill the server."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of that size in memory; PermissionError if that is not allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        raise PermissionError("a file system can be mounted by root alone")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def free_port() -> int:
    """Find a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_folder() -> Path:
    """Create a folder that the user `postgres` can enter, too."""
    folder = Path(tempfile.mkdtemp(prefix="cse-chaos-"))
    folder.chmod(0o755)
    return folder


def say(text: str) -> None:
    """Print a line and flush it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
