"""URLs, files and timeouts of the databases that hold the stores."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from cse_methods.files.named import expand

if TYPE_CHECKING:
    from sqlalchemy import URL

MLFLOW_VARIABLES = ("CSE_MLFLOW_URI", "MLFLOW_TRACKING_URI")
"""The variables that name the MLflow store, ours and MLflow's own; the first that is set counts."""

_QUOTED = {ord(character): quote(character) for character in "%?#{}"}
"""Characters that mean something in a URL, or to a library that is given one."""

_DENIALS = (
    "readonly database",
    "unable to open database file",
    "Permission denied",
    "Read-only file system",
)
"""What SQLite and the operating system say where permissions are missing."""

CONNECTIONS = 5
"""The most connections that a sweep has open at once, if one PostgreSQL holds all its stores."""
_FULL = re.compile(r"(too many (connections|clients)|remaining connection slots).*")
"""What PostgreSQL says where a role, a database or the server has no connection left."""
_LACKS_PRIVILEGE = "42501"
"""PostgreSQL's code of the error that a login lacks a privilege."""
ROLES = "docs/administration.md describes the roles"
"""The way out where a login may not do something."""

_TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 10_000,  # milliseconds until sent data must be acknowledged
    "keepalives_idle": 10,  # while waiting for an answer
    "keepalives_interval": 5,
    "keepalives_count": 2,
}
"""Settings of libpq, in seconds unless noted; without them, TCP waits a quarter of an hour for an
answer on a broken connection."""


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file, whatever characters its path has."""
    return f"sqlite:///{str(file).translate(_QUOTED)}"


def sqlite_file(url: str) -> Path:
    """Return the file that the URL of a SQLite database names."""
    return Path(unquote(url.partition("://")[2].partition("?")[0].removeprefix("/")))


def expand_url(written: str) -> str:
    """Expand `~` and `${NAME}` in a path or URL, also in the path of a SQLite URL.

    Raises DataError if a variable is not set.
    """
    scheme, mark, remainder = written.partition(":///")
    path, question, options = remainder.partition("?")
    if not (path and scheme.startswith("sqlite")):
        return expand(written)
    return f"{scheme}{mark}{expand(unquote(path)).translate(_QUOTED)}{question}{options}"


def explain_denial(url: str, error: Exception) -> str | None:
    """Say what a database denies this user, and the way out.

    That is a file or folder of SQLite that belongs to somebody else, or on PostgreSQL one more
    connection, or what its login has no privilege for. Returns None if the error has another
    reason.
    """
    reason = getattr(error, "orig", None)  # SQLAlchemy's errors hold the driver's
    if getattr(reason, "sqlstate", None) == _LACKS_PRIVILEGE:
        return f"{str(reason).splitlines()[0]}; use a login that may do it: {ROLES}"
    if full := _FULL.search(str(error)):
        return (
            f"{full[0]}; a sweep needs up to {CONNECTIONS} connections to a PostgreSQL server that "
            "holds all its stores: raise the limit, ALTER ROLE NAME CONNECTION LIMIT NUMBER or "
            "max_connections, or end other programs"
        )
    if not url.startswith("sqlite") or not any(text in str(error) for text in _DENIALS):
        return None
    file = sqlite_file(url).absolute()
    for path in (file, *file.parents):
        if os.access(path, os.F_OK):
            is_folder = path.is_dir()
            if not os.access(path, os.W_OK | (os.X_OK if is_folder else os.R_OK)):
                try:
                    owner = path.owner()
                except KeyError:
                    owner = f"user {path.stat().st_uid}"
                return (
                    f"this user has no permission to write to {path}, which belongs to {owner}; "
                    "get it, or copy the runs folder and name the copy with --runs"
                )
            if is_folder:
                break
    return None


def put_database(part: Path, file: Path) -> None:
    """Move a complete SQLite database to its place, without what a former one has left there.

    SQLite would apply the log or journal of a deleted database to the new one, and break it.
    """
    for end in ("-journal", "-wal", "-shm"):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
    part.replace(file)


def connection_timeouts(url: "URL") -> dict[str, int]:
    """Make connection options by which a server that is silent for some seconds counts as down.

    Options in the URL take precedence. Returns {} for databases other than PostgreSQL.
    """
    if url.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in _TIMEOUTS.items() if name not in url.query}
