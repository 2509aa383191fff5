"""Locate the stores of a sweep: by default files under the runs folder."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cse_platform.databases import MLFLOW_VARIABLES, expand_url, sqlite_file, sqlite_url
from cse_platform.errors import SweepRefusedError
from cse_platform.secrets import escape_text
from cse_platform.sweep.spec import SweepSpec

JOURNAL_FILE = "journal.jsonl"
"""The name of the journal in a sweep's folder."""
RUNS_PREFIX = "{runs}/"
"""Stands for the runs folder where a journal or a store in it names a place below it, so that the
folder can be moved and copied."""


@dataclass(frozen=True)
class SweepStores:
    """The stores and folders of one sweep."""

    leaderboard: str
    """URL of the SQL leaderboard."""
    search: str
    """URL of Optuna's store."""
    mlflow: str
    """URI of the MLflow tracking store."""
    storage: str
    """Folder or URI of checkpoints and models."""
    folder: Path
    """The sweep's own folder: journal and logs."""
    artifacts: Path
    """Folder of MLflow's artifacts, if its store is a database."""
    sweep: str

    @property
    def checkpoints(self) -> str:
        """Folder or URI where Ray keeps the sweep's checkpoints."""
        return checkpoints_folder(self.storage, self.sweep)

    @property
    def models(self) -> str:
        """Folder or URI of the best checkpoint of each complete trial."""
        return models_folder(self.storage, self.sweep, runs=self.runs)

    @property
    def runs(self) -> Path:
        """The runs folder: it holds `sweeps/`, the stores and the artifacts of all sweeps."""
        return self.folder.parent.parent

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL_FILE

    def journal_of(self, sweep: str) -> Path:
        """Return the path of another sweep's journal in the same runs folder."""
        return self.folder.parent / sweep / self.journal.name

    @property
    def errors(self) -> Path:
        """Folder of the tracebacks of failed trials."""
        return errors_folder(self.folder)

    @property
    def on_this_machine(self) -> list[Path]:
        """Every file and folder on this machine that the sweep writes to."""
        urls = (self.leaderboard, self.search, self.mlflow)
        files = [sqlite_file(url).absolute() for url in urls if url.startswith("sqlite")]
        folders = [folder for folder in (self.checkpoints, self.models) if "://" not in folder]
        return [self.folder, *files, *map(Path, folders)]


_MOST_BYTES = 40
"""The longest folder below which a socket of Ray has a path of at most 107 bytes."""


def ray_temporary_folder() -> Path:
    """Return this user's folder for a Ray of this machine, and make it if it is not there.

    Ray opens everything that it creates to all users of the machine, so this folder is closed to
    them. It is in that of RAY_TMPDIR or TMPDIR, unless that is too long for the paths of sockets or
    cannot be written to, or another user has taken the name; then in one that every machine has.
    Raises SweepRefusedError if none serves.
    """
    given = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    for folder in (given, "/tmp", "/var/tmp", "/dev/shm"):
        path = Path(folder).absolute() / f"ray-{os.getuid()}"
        if len(os.fsencode(path)) > _MOST_BYTES:
            continue
        with suppress(OSError):
            path.mkdir(0o700, exist_ok=True)
            if path.lstat().st_uid == os.getuid():
                path.chmod(0o700)
                return path
    raise SweepRefusedError(
        f"Ray has no folder for its sockets: {path.name} cannot be made in {given}, or its path is "
        f"longer than {_MOST_BYTES} bytes; set RAY_TMPDIR to a short, writable folder"
    )


def sweep_folder(runs: Path, sweep: str) -> Path:
    """Return the folder of a sweep's journal, inside a runs folder."""
    return runs / "sweeps" / sweep


def import_journal(runs: Path, sweep: str) -> Path:
    """Return the journal of the trials that were imported into a sweep, inside a runs folder."""
    return runs / "imports" / f"{sweep}.jsonl"


def evaluations_journal(runs: Path, trial: str) -> Path:
    """Return the journal of the evaluations of a trial, given its key, inside a runs folder."""
    return runs / "evaluations" / f"{trial[:16]}.jsonl"


def annotations_journal(runs: Path) -> Path:
    """Return the journal of the annotations, inside a runs folder."""
    return runs.absolute() / "annotations" / "journal.jsonl"


def shorten_location(location: str, runs: str) -> str:
    """Replace the path of the runs folder at the beginning of a location by `RUNS_PREFIX`."""
    below = location.removeprefix(f"{runs}/")
    return location if below == location else f"{RUNS_PREFIX}{below}"


def complete_location(location: str, runs: str) -> str:
    """Undo `shorten_location`; the runs folder may have been moved or copied since."""
    below = location.removeprefix(RUNS_PREFIX)
    return location if below == location else f"{runs}/{below}"


def errors_folder(sweep: Path) -> Path:
    """Return the folder with the tracebacks of failed trials, inside a sweep's folder."""
    return sweep / "errors"


def mlflow_variable(runs: Path) -> str | None:
    """Return the variable that names the MLflow store; None if the store is in the runs folder.

    A store that is in the runs folder stays the folder's, whatever MLflow's own variable says.
    """
    ours, theirs = MLFLOW_VARIABLES
    if os.environ.get(ours):
        return ours
    return theirs if os.environ.get(theirs) and not (runs / "mlflow.db").is_file() else None


def leaderboard_url(runs: Path) -> str:
    """Return the URL of the default leaderboard: the environment's, else a file."""
    named = os.environ.get("CSE_STORE")
    return expand_url(named) if named else sqlite_url(runs.absolute() / "leaderboard.db")


def mlflow_uri(runs: Path) -> str:
    """Return the URI of the default MLflow store: the environment's, else a file."""
    named = mlflow_variable(runs)
    return expand_url(os.environ[named]) if named else sqlite_url(runs.absolute() / "mlflow.db")


def has_mlflow(runs: Path) -> bool:
    """Whether the environment names an MLflow store, or one is in the runs folder."""
    return mlflow_variable(runs) is not None or (runs / "mlflow.db").is_file()


def search_url(runs: Path) -> str:
    """Return the URL of the default search store: the environment's, else a file."""
    named = os.environ.get("CSE_SEARCH_STORE")
    return expand_url(named) if named else sqlite_url(runs.absolute() / "search.db")


def checkpoints_folder(storage: str, sweep: str) -> str:
    """Return the folder or URI of a sweep's checkpoints, inside the storage."""
    return f"{storage}/sweeps/{sweep}/ray"


def models_folder(storage: str, sweep: str, *, runs: Path) -> str:
    """Return the folder or URI of the models that a sweep keeps, inside the storage.

    The sweeps of a runs folder share its models, one for each trial. In a storage elsewhere, which
    other runs folders may use for equal trials, each sweep has its own.
    """
    shared = f"{storage}/artifacts/models"
    return shared if storage == str(runs.absolute()) else f"{shared}/{sweep}"


def storage_location(storage: str | None, runs: Path) -> str:
    """Return the storage of checkpoints and models: the sweep file's, else the runs folder."""
    location = storage.rstrip("/") if storage else str(runs.absolute())
    return location if "://" in location else str(Path(location).absolute())


def sweep_stores(spec: SweepSpec, *, runs: Path) -> SweepStores:
    """Locate a sweep's stores: the file's, else the environment's, else files in `runs`.

    Raises SweepRefusedError if two of the three stores are the same database, or if the name of the
    runs folder is not UTF-8.
    """
    runs = runs.absolute()
    if (shown := escape_text(str(runs))) != str(runs):
        raise SweepRefusedError(
            f"the name of the runs folder {shown} is not UTF-8, which databases need; rename "
            "the folder, or choose another one with --runs"
        )
    urls = {
        "leaderboard": spec.stores.leaderboard or leaderboard_url(runs),
        "search": spec.stores.search or search_url(runs),
        "mlflow": spec.stores.mlflow or mlflow_uri(runs),
    }
    taken: dict[str, str] = {}
    for name, url in urls.items():
        if (other := taken.setdefault(normalize_url(url), name)) != name:
            raise SweepRefusedError(
                f"the stores {other!r} and {name!r} have the same URL; each needs a database of "
                "its own (stores: in the sweep file, CSE_STORE, CSE_SEARCH_STORE, CSE_MLFLOW_URI)"
            )
    return SweepStores(
        **urls,
        storage=storage_location(spec.storage, runs),
        folder=sweep_folder(runs, spec.sweep),
        artifacts=runs / "artifacts",
        sweep=spec.sweep,
    )


def nearest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest folder above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def find_linked_folders(storage: str, sweep: str, *, runs: Path) -> list[str]:
    """List the folders of checkpoints and models that links inside the storage lead elsewhere.

    Nothing is deleted there.
    """
    from cse_platform.safe_paths import resolve_links  # imports pyarrow

    real, models = resolve_links(storage), models_folder(storage, sweep, runs=runs)
    expected = {
        checkpoints_folder(storage, sweep): checkpoints_folder(real, sweep),
        models: real + models.removeprefix(storage),
    }
    return [folder for folder, path in expected.items() if resolve_links(folder) != path]


def refuse_unwritable(stores: SweepStores) -> None:
    """Raise SweepRefusedError if a sweep could not write to one of its locations; creates nothing.

    It is also refused if it could not delete its checkpoints or models later.
    """
    from cse_platform.safe_paths import find_link  # imports pyarrow

    for path in stores.on_this_machine:
        existing = nearest_existing(path)
        if existing != path and not existing.is_dir():
            raise SweepRefusedError(f"cannot create {path}: {existing} is a file")
        if not os.access(existing, os.W_OK):
            raise SweepRefusedError(
                f"{existing} is not writable, but {path} belongs there; choose another folder "
                "with --runs, or with storage: and stores: in the sweep file"
            )
    if (link := find_link(stores.folder, below=stores.runs)) is not None:
        raise SweepRefusedError(
            f"{link} is a link or behind one, and a sweep neither reads nor writes there, because "
            "a runs folder may come from somebody else; put a copy in its place, or remove it"
        )
    for linked in find_linked_folders(stores.storage, stores.sweep, runs=stores.runs):
        raise SweepRefusedError(
            f"a link leads from {linked} to {Path(linked).resolve()}, where a sweep deletes "
            "nothing, so checkpoints would fill the disk; set storage: in the sweep file to "
            "that disk, or remove the link"
        )


def normalize_url(url: str) -> str:
    """Strip the driver, user and options of a URL, so that URLs of the same database are equal."""
    scheme, _, remainder = url.partition("://")
    if scheme.startswith("sqlite"):
        return str(sqlite_file(url).absolute())
    return (
        f"{scheme.partition('+')[0]}://{remainder.rpartition('@')[2].partition('?')[0].rstrip('/')}"
    )
