"""Checks and opens an MLflow store (a tracking server or a database) and its experiment."""

import glob
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse
from uuid import uuid4

from cse_platform.databases import explain_denial, put_database, sqlite_file, sqlite_url
from cse_platform.errors import NoStoreError, StoreDownError, StoreError, StoreLostError
from cse_platform.safe_paths import find_below, find_link, resolve_links
from cse_platform.secrets import mask_text, mask_url

_DATABASE = re.compile(r"(postgresql|mysql|mssql|sqlite)(\+\w+)?://")
_SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///[^?]")
_SERVER = re.compile(r"https?://")

# By default, MLflow blocks a caller for minutes when a server is down, prints INFO lines,
# tracebacks and a URL for each run, and sends telemetry. Variables set by the user are kept.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_MESSAGE_LENGTH = 300
_PAGE = 1000
_UNREADABLE = "sqlite3.DatabaseError"  # SQLite's words for garbage and for a torn file

_REOPEN = "MLFLOW_SQLALCHEMYSTORE_POOL_RECYCLE", "1"
"""Makes MLflow open a SQLite file again after a second: a connection keeps a file that was deleted
or replaced. A connection each time (its NullPool) takes half as much processor time again."""

_KEEP_ONE = "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "1"
"""Makes MLflow keep one connection to a server, where it would keep five; a role may have few."""

_BESIDE = "cse.artifacts_beside_database"
"""The tag of an experiment whose artifacts lie in a folder of this name beside its database."""
_ARTIFACTS = "artifacts"
ARTIFACT_ROOT = "MLFLOW_DEFAULT_ARTIFACT_ROOT"
"""MLflow's variable for the folder or URI that has a store's artifacts."""
_LOCATIONS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables of MLflow's database with their columns that name artifacts."""


def check_uri(uri: str) -> None:
    """Raise StoreError unless the URI is that of an MLflow server or a database."""
    if not is_server(uri) and not _DATABASE.match(uri):
        raise StoreError(
            f"{mask_url(uri)!r} is not an MLflow store; set CSE_MLFLOW_URI, which overrides "
            "MLFLOW_TRACKING_URI, to http://HOST:PORT of a server, sqlite:///FILE or "
            "postgresql+psycopg://…"
        )


def is_server(uri: str) -> bool:
    return _SERVER.match(uri) is not None


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Convert errors of a store into `StoreDownError`, or `StoreLostError` if it is damaged."""
    for variable, value in _DEFAULTS.items():  # before MLflow, which reads them when imported
        os.environ.setdefault(variable, value)
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = explain_denial(uri, error) or mask_text(lines[0])[:_MESSAGE_LENGTH]
        kind: type[StoreError] = StoreDownError
        if _UNREADABLE in reason:
            kind = StoreLostError
            reason += (
                "; `cse-leaderboard rebuild --only mlflow` renames the file and makes a new one"
            )
        raise kind(f"MLflow at {mask_url(uri)} refuses or does not answer: {reason}") from error


def iterate_pages(uri: str, search: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Yield everything that a paged search of MLflow's client finds."""
    token: str | None = None
    while True:
        with store_errors(uri):
            page = search(*arguments, max_results=_PAGE, page_token=token)
        yield from page
        if not (token := page.token):
            return


def open_experiment(uri: str, name: str, *, artifacts: Path | None) -> tuple[Any, Any]:
    """Connect to a store; create a missing database's tables and a missing experiment.

    Returns MLflow's client and its record of the experiment. A new experiment in a database keeps
    its artifacts in the folder `artifacts`, or without it in `mlruns` in the working directory. A
    server has its own location. Raises StoreError if the store cannot be reached, or the experiment
    was deleted.
    """
    client = connect(uri)
    follow_database(uri)
    with store_errors(uri):
        from mlflow.exceptions import MlflowException

        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            location = artifacts.absolute().as_uri() if artifacts and _DATABASE.match(uri) else None
            is_beside = location is not None and location == _locate_artifacts_beside(uri)
            marks = {_BESIDE: "true"} if is_beside else {}
            try:
                client.create_experiment(name, artifact_location=location, tags=marks)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another sweep has created it
                    raise
            experiment = client.get_experiment_by_name(name)
    if experiment.lifecycle_stage == "deleted":
        number = experiment.experiment_id
        raise StoreError(
            f"the MLflow experiment {name!r} at {mask_url(uri)} was deleted; restore it with "
            f"`mlflow experiments restore --experiment-id {number}`, or name another in "
            "`experiment:` of the sweep file"
        )
    return client, experiment


def _locate_artifacts_beside(uri: str) -> str | None:
    """Return the URI of the artifacts beside a SQLite file; None for another store."""
    if not _SQLITE_FILE.match(uri):
        return None
    return sqlite_file(uri).absolute().with_name(_ARTIFACTS).as_uri()


def follow_database(uri: str) -> None:
    """Let artifacts that lie beside a SQLite file lie there if it was moved or copied with them.

    MLflow stores whole paths. By these, a copy would write into the folder of its original, and
    delete what is there. Raises StoreError if the store is down.
    """
    location = _locate_artifacts_beside(uri)
    if location is None:
        return
    from sqlalchemy import NullPool, create_engine, text

    moved = text(
        "SELECT DISTINCT artifact_location FROM experiments JOIN experiment_tags "
        "USING (experiment_id) WHERE key = :beside AND artifact_location <> :location"
    )
    with store_errors(uri), create_engine(uri, poolclass=NullPool).begin() as connection:
        for before in connection.scalars(moved, {"beside": _BESIDE, "location": location}).all():
            for table, column in _LOCATIONS:
                change = text(
                    f"UPDATE {table} SET {column} = :location || substr({column}, :length + 1) "
                    f"WHERE substr({column} || '/', 1, :length + 1) = :before || '/'"
                )
                parameters = {"location": location, "length": len(before), "before": before}
                connection.execute(change, parameters)


def refuse_foreign_artifacts(uri: str, location: str, *, artifacts: Path) -> None:
    """Raise StoreError unless artifacts may be written to a location that a store names.

    Whoever writes to a store can name any location, such as somebody's bucket. Ours are those below
    the folder `artifacts`, below the one beside a SQLite file, and below `ARTIFACT_ROOT`. A
    tracking server that passes on what is written has its own.
    """
    from mlflow.utils.file_utils import local_file_uri_to_path

    if is_server(uri) and re.match(r"mlflow-artifacts:/(?!/)", location):
        return
    roots = [str(artifacts.absolute()), os.environ.get(ARTIFACT_ROOT, "").rstrip("/")]
    if _SQLITE_FILE.match(uri):
        roots.append(str(sqlite_file(uri).absolute().with_name(_ARTIFACTS)))
    with suppress(ValueError):  # of an address that is none, such as http://[
        is_local = urlparse(location).scheme in ("", "file")
        path = local_file_uri_to_path(location) if is_local else location
        is_ours = any(find_below(resolve_links(root), path) for root in filter(None, roots))
        if is_ours and not (is_local and find_link(path)):
            return
    raise StoreError(
        f"MLflow at {mask_url(uri)} names {mask_url(location)} for the artifacts of this run, "
        f"which is not below {artifacts}, or has links; if it is your lab's, set {ARTIFACT_ROOT} "
        "to the folder or URI above it"
    )


def experiment_id(uri: str, name: str) -> str:
    """Return the id of an experiment, which a database tells without an import of MLflow.

    Raises StoreError if it is missing, or the store is down.
    """
    from sqlalchemy import NullPool, create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    id_ = None
    if is_server(uri):
        client = connect(uri)
        with store_errors(uri):
            experiment = client.get_experiment_by_name(name)
        id_ = None if experiment is None else experiment.experiment_id
    elif not uri.startswith("sqlite") or sqlite_file(uri).is_file():
        query = text("SELECT experiment_id FROM experiments WHERE name = :name")
        try:
            with create_engine(uri, poolclass=NullPool).connect() as connection:
                id_ = connection.scalar(query, {"name": name})
        except (SQLAlchemyError, ImportError) as error:
            raise StoreError(f"MLflow at {mask_url(uri)} does not answer") from error
    if id_ is None:
        raise StoreError(f"there is no MLflow experiment {name!r} at {mask_url(uri)}")
    return str(id_)


def connect(uri: str) -> Any:
    """Connect to the store; create a SQLite file that is missing or empty.

    Raises StoreError if it is down.
    """
    with store_errors(uri):
        from mlflow.tracking import MlflowClient

        if not _SQLITE_FILE.match(uri):
            if _DATABASE.match(uri):
                os.environ.setdefault(*_KEEP_ONE)
                _refuse_older_schema(uri, mode="rw")
            return MlflowClient(tracking_uri=uri)
        from filelock import FileLock

        path = sqlite_file(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault(*_REOPEN)
        # Two processes that create the tables of a file concurrently break each other's migration.
        with FileLock(f"{path}.lock"):
            # A connection to a file that was deleted leaves an empty one.
            while not path.exists() or not _refuse_older_schema(uri, mode="rw"):
                _create_database(path)
            return MlflowClient(tracking_uri=uri)


def _create_database(path: Path) -> None:
    """Create a database with MLflow's tables under another name, and rename it when it is complete.

    So a kill never leaves half-made tables under `path`, which MLflow could not use. The other name
    is a new one each time, because a process in which MLflow has made tables under a name makes
    none there again. A database that somebody puts at `path` during these seconds stays.
    """
    from mlflow.tracking import MlflowClient

    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        left.unlink()
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}.part")
    unfinished.touch()  # SQLite would make it without the write permission of the folder's group
    MlflowClient(tracking_uri=sqlite_url(unfinished))
    if path.exists() and _list_tables(sqlite_url(path), "rw"):
        unfinished.unlink()
    else:
        put_database(unfinished, path)


def _refuse_older_schema(uri: str, *, mode: Literal["ro", "rw"]) -> set[str]:
    """Raise StoreError if MLflow would upgrade the database. Returns the existing tables.

    Without this check, MLflow retries ten times over two minutes if the database does not answer.
    A SQLite file whose writer was killed is repaired by the first that opens it as `rw`.
    """
    tables = _list_tables(uri, mode)
    if _TABLE not in tables:
        return tables
    import mlflow.store.db.utils  # noqa: F401 (it declares this version's tables)
    from mlflow.store.db.base_sql_model import Base

    if lacking := set(Base.metadata.tables) - tables:
        raise StoreError(
            f"the MLflow store {mask_url(uri)} has an older schema, without the table "
            f"{min(lacking)!r}; `mlflow db upgrade` with its URI upgrades it"
        )
    return tables


_TABLE = "experiments"


def check_existing(uri: str) -> None:
    """Raise StoreError if MLflow would create or upgrade the store; nothing is written.

    No request is sent to a tracking server: the first use fails if it does not answer.
    """
    check_uri(uri)
    if not is_server(uri):
        with store_errors(uri):
            tables = _refuse_older_schema(uri, mode="ro")
        if _TABLE not in tables:
            problem = f"the database {mask_url(uri)} is not an MLflow store"
            raise StoreError(f"{problem}: it has no table {_TABLE!r}")


def _list_tables(uri: str, mode: str) -> set[str]:
    from sqlalchemy import NullPool, create_engine, inspect, make_url

    options: dict[str, Any] = {"poolclass": NullPool}
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        file = sqlite_file(uri)
        if not file.is_file():
            raise NoStoreError(f"no MLflow database {file}")
        existing = f"{file.absolute().as_uri()}?mode={mode}"
        options["creator"] = lambda: sqlite3.connect(existing, uri=True)
    with create_engine(url, **options).connect() as connection:
        return set(inspect(connection).get_table_names())
