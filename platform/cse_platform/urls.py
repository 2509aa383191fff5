"""URLs of SQLite files, what people write for URLs, and the variables that name MLflow."""

from pathlib import Path
from urllib.parse import quote, unquote

from cse_methods.files.named import expand

MLFLOW_VARIABLES = ("CSE_MLFLOW_URI", "MLFLOW_TRACKING_URI")
"""The variables that name the MLflow store, ours and MLflow's own; the first that is set counts."""
_QUOTED = {ord(character): quote(character) for character in "%?#{}"}
"""Characters that mean something in a URL, or to a library that is given one."""


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
    scheme, mark, rest = written.partition(":///")
    path, question, options = rest.partition("?")
    if not (path and scheme.startswith("sqlite")):
        return expand(written)
    return f"{scheme}{mark}{expand(unquote(path)).translate(_QUOTED)}{question}{options}"
