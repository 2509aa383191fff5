"""Back up the stores and journals of a runs folder while sweeps run, and restore them.

Each store is copied as a consistent snapshot, and the journals are copied after the stores. A
driver writes each event to the journal before any store gets it, so no copied store is ahead of its
copied journal; what a store lacks is filled in from the journals.
"""

import gzip
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args

from cse_methods.files.digest import file_sha256
from cse_platform.copies import (
    SUFFIXES,
    copy_sqlite,
    database_kind,
    dump_postgres,
    is_empty,
    restore_postgres,
)
from cse_platform.errors import BackupError
from cse_platform.secrets import mask_url
from cse_platform.sweep.stores import mlflow_uri, search_url
from cse_platform.tracking.journal import compressed_journal, is_archived
from cse_platform.urls import sqlite_file

MANIFEST = "backup.json"
"""The file that is written last: a folder without it holds no complete backup."""
UNFINISHED = "unfinished"
"""A file that exists in the folder while a backup is written; it stays after a kill."""
BACKUP_VERSION = 1

Part = Literal["leaderboard", "search", "mlflow", "journals"]
PARTS: tuple[Part, ...] = get_args(Part)

_FOLDERS = ("sweeps", "imports", "annotations", "evaluations")
"""The subfolders of the runs folder that are copied: journals, and the files beside them."""
_LEFT_OUT = ("*.lock", "*.part")
_SHOWN = 5


@dataclass(frozen=True)
class Places:
    """The locations to back up or to restore."""

    runs: Path
    databases: Mapping[Part, str]
    """The URL of each store."""


def find_places(leaderboard: str, runs: Path) -> Places:
    """Locate the stores that belong to a leaderboard: the environment's, else files in `runs`."""
    runs = runs.absolute()
    search, mlflow = search_url(runs), mlflow_uri(runs)
    return Places(runs, {"leaderboard": leaderboard, "search": search, "mlflow": mlflow})


def back_up(places: Places, folder: Path) -> list[str]:
    """Copy stores and journals into a folder. Returns a line for each part.

    A backup that was killed is started over. Models and checkpoints are not copied.

    Raises:
        BackupError: if the folder holds something else, or cannot be written to.
        NoStoreError: if there is no leaderboard.
        StoreError: if a store cannot be copied.
    """
    try:
        _begin_folder(folder)
        lines = [_copy_store(places, part, folder) for part in places.databases]
        count = _copy_files(places.runs, folder / "runs")
        lines.append(f"journals: {count} files of {places.runs}")
        _write_manifest(folder)
    except OSError as error:
        raise BackupError(f"{error.filename or folder}: {error.strerror}") from error
    return lines


def _begin_folder(folder: Path) -> None:
    if folder.is_dir() and (folder / UNFINISHED).exists() and not (folder / MANIFEST).exists():
        shutil.rmtree(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupError(f"{folder} is not empty; name a folder that is, or a new one")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNFINISHED).touch()


def _write_manifest(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {
        path.relative_to(folder).as_posix(): file_sha256(path)
        for path in files
        if path != folder / UNFINISHED
    }
    made = datetime.now(UTC).isoformat(timespec="seconds")
    package = version("cse-platform")
    manifest = {"version": BACKUP_VERSION, "made": made, "cse_platform": package, "sha256": sums}
    part = folder / f"{MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1))
    part.replace(folder / MANIFEST)
    (folder / UNFINISHED).unlink()


def _copy_store(places: Places, part: Part, folder: Path) -> str:
    url = places.databases[part]
    kind = database_kind(url)
    if kind is None:
        return f"{part}: left out, {mask_url(url)} has a backup of its own"
    copy = folder / f"{part}{SUFFIXES[kind]}"
    if kind == "postgresql":
        dump_postgres(url, copy)
    elif part == "leaderboard" or sqlite_file(url).is_file():
        copy_sqlite(sqlite_file(url), copy)
    else:
        return f"{part}: left out, there is no {sqlite_file(url)}"
    return f"{part}: {copy.stat().st_size / 1e6:.1f} MB of {mask_url(url)}"


def _copy_files(runs: Path, target: Path) -> int:
    """Copy the files beside the stores. Returns their number.

    If a file has disappeared meanwhile, all files are listed again, because archiving a sweep
    renames its journal.
    """
    copied: set[Path] = set()
    are_gone = True
    while are_gone:
        are_gone = False
        for path in [path for path in _list_files(runs) if path not in copied]:
            copy = target / path.relative_to(runs)
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(path, copy)
            except FileNotFoundError:
                are_gone = True
                continue
            if path.suffix == ".jsonl":
                _cut_last_line(copy)
            copied.add(path)
    return len(copied)


def _list_files(runs: Path) -> Iterator[Path]:
    """List the files to copy, without Ray's folder, which holds checkpoints of running trials.

    A sweep's folder can be a link to another disk if its checkpoints are in a storage elsewhere.
    """
    for name in _FOLDERS:
        for entry in sorted((runs / name).glob("*")):
            for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
                ray = name == "sweeps" and "ray" in path.relative_to(entry).parts[:1]
                if path.is_file() and not ray and not any(map(path.match, _LEFT_OUT)):
                    yield path


def _cut_last_line(journal: Path) -> None:
    """Cut off a last line that was not completely written yet."""
    with journal.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


def restore(folder: Path, places: Places, *, only: Collection[Part] = PARTS) -> list[str]:
    """Restore parts of a backup. Returns a line for each.

    Nothing is overwritten: a file that already exists must have the same content or, if it is a
    journal, start with the content of the backup. So a call that was killed can be repeated,
    leaving out the PostgreSQL databases that are already restored. `catch_up` then fills in what
    the stores lack of the journals.

    Raises:
        BackupError: if the folder holds no complete backup, a checksum does not match, or something
            is in the way; nothing is restored then.
        StoreError: if a database cannot be restored.
    """
    try:
        files = _check_backup(folder, only)
        _refuse_to_overwrite(folder, files, places)
        lines = [
            _restore_store(folder / name, part, places) for part, name in files.databases.items()
        ]
        for name in files.runs:
            if not _choose_form(places.runs / name).exists():  # an existing one is as new or newer
                _put_back(folder / "runs" / name, places.runs / name)
    except OSError as error:
        raise BackupError(f"{error.filename or folder}: {error.strerror}") from error
    return [*lines, f"journals: into {places.runs}"] if files.runs else lines


@dataclass(frozen=True)
class _Files:
    """The files of the requested parts of a backup."""

    databases: Mapping[Part, str]
    """The file name of each database in the backup's folder."""
    runs: tuple[str, ...]
    """Paths of the files beside the stores, relative to `runs`."""


def _check_backup(folder: Path, only: Collection[Part]) -> _Files:
    sums = _read_manifest(folder)
    databases = {
        part: name
        for part in PARTS
        for name in (f"{part}{suffix}" for suffix in SUFFIXES.values())
        if part in only and name in sums
    }
    runs = [name for name in sums if name.startswith("runs/")] if "journals" in only else []
    for name in (*databases.values(), *runs):
        if not (folder / name).is_file() or file_sha256(folder / name) != sums[name]:
            raise BackupError(
                f"{folder / name} is not what was backed up (its SHA-256 is another one); nothing "
                "was restored. Take another backup, or leave this part out by --only"
            )
    return _Files(databases, tuple(name.removeprefix("runs/") for name in runs))


def _read_manifest(folder: Path) -> dict[str, str]:
    """Read the SHA-256 of each file of a backup, by its relative path."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        number, sums = int(manifest["version"]), dict[str, str](manifest["sha256"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BackupError(
            f"{folder} holds no whole backup: it has no {MANIFEST}, which is written last"
        ) from error
    if number > BACKUP_VERSION:
        raise BackupError(
            f"{folder} was written by a newer version of cse-platform, "
            f"{manifest.get('cse_platform')}; upgrade this one"
        )
    if strange := [name for name in sums if ".." in Path(name).parts or Path(name).is_absolute()]:
        raise BackupError(f"{folder / MANIFEST} names {strange[0]!r}, which is not in the folder")
    return sums


def _refuse_to_overwrite(folder: Path, files: _Files, places: Places) -> None:
    there = [
        problem
        for part, name in files.databases.items()
        if (problem := _find_store_in_the_way(folder / name, part, places))
    ]
    pairs = [(_choose_form(places.runs / name), folder / "runs" / name) for name in files.runs]
    there += [str(file) for file, copy in pairs if file.exists() and not _goes_on(file, copy)]
    if there:
        named = ", ".join(there[:_SHOWN])
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        raise BackupError(
            f"nothing was restored, because it would overwrite {named}{more}; move that away, name "
            "another folder by --runs, or restore other parts alone by --only. Stores that a "
            "restore has put there and begun to fill are filled by cse-leaderboard catch-up"
        )


def _find_store_in_the_way(copy: Path, part: Part, places: Places) -> str | None:
    url = places.databases[part]
    kind = database_kind(url)
    if kind is None or SUFFIXES[kind] != copy.suffix:
        raise BackupError(
            f"{copy.name} cannot be restored into {mask_url(url)}, which is of another kind; name "
            "one of its own kind (--store, CSE_SEARCH_STORE, CSE_MLFLOW_URI), or leave the part "
            "out by --only. cse-leaderboard merge brings a leaderboard into one of another kind"
        )
    if kind == "postgresql":
        return None if is_empty(url) else f"the tables of {mask_url(url)}"
    file = sqlite_file(url)
    if not file.exists():  # SQLite would apply a leftover log of another file to the copy
        left = [file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal")]
        return next((str(path) for path in left if path.exists()), None)
    return None if _is_same(file, copy) else str(file)


def _is_same(there: Path, copy: Path) -> bool:
    return there.stat().st_size == copy.stat().st_size and file_sha256(there) == file_sha256(copy)


def _choose_form(file: Path) -> Path:
    """Return the path of a journal in the form that exists here, text or compressed."""
    text = file.with_suffix("") if file.name.endswith(".jsonl.gz") else file
    return compressed_journal(text) if is_archived(text) else text


def _goes_on(there: Path, copy: Path) -> bool:
    """Whether a file equals the copy, or is a journal that starts with the copy's content."""
    if _is_same(there, copy):
        return True
    if ".jsonl" not in there.suffixes:
        return False
    with _open_text(there) as longer, _open_text(copy) as shorter:
        beginning = shorter.read()
        return longer.read(len(beginning)) == beginning


def _open_text(journal: Path) -> IO[bytes]:
    packed = journal.suffix == ".gz"
    return cast("IO[bytes]", gzip.open(journal)) if packed else journal.open("rb")


def _restore_store(copy: Path, part: Part, places: Places) -> str:
    url = places.databases[part]
    if database_kind(url) == "postgresql":
        restore_postgres(url, copy)
    elif not sqlite_file(url).exists():
        _put_back(copy, sqlite_file(url))
    return f"{part}: into {mask_url(url)}"


def _put_back(copy: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    shutil.copyfile(copy, part)
    part.replace(target)
