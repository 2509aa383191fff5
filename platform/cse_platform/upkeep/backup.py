"""Backs up the stores and the journals of a runs folder while sweeps run, and restores them.

The stores are copied first, each as it is at one moment, and the journals after them. A driver
writes what happens into the journal before any store hears of it, so no copy of a store is ahead of
the copy of a journal; what a store lacks, it gets from the journals.
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
    sqlite_file,
)
from cse_platform.errors import BackupError
from cse_platform.secrets import mask_url
from cse_platform.sweep.stores import mlflow_uri, search_url
from cse_platform.tracking.journal import compressed_journal, is_archived

MANIFEST = "backup.json"
"""Written last: a folder without it holds no whole backup."""
UNFINISHED = "unfinished"
"""A file that a folder has while a backup is written to it; a kill leaves it there."""
BACKUP_VERSION = 1

Part = Literal["leaderboard", "search", "mlflow", "journals"]
PARTS: tuple[Part, ...] = get_args(Part)

_FOLDERS = ("sweeps", "annotations", "evaluations")
"""The folders in that of the runs that are copied: journals, and what lies beside them."""
_LEFT_OUT = ("*.lock", "*.part")
_SHOWN = 5


@dataclass(frozen=True)
class Places:
    """What is backed up or restored."""

    runs: Path
    databases: Mapping[Part, str]
    """The URL of each store."""


def find_places(leaderboard: str, runs: Path) -> Places:
    """Locate the stores beside a leaderboard: the environment's, else files in `runs`."""
    runs = runs.absolute()
    search, mlflow = search_url(runs), mlflow_uri(runs)
    return Places(runs, {"leaderboard": leaderboard, "search": search, "mlflow": mlflow})


def back_up(places: Places, folder: Path) -> list[str]:
    """Copy stores and journals into a folder. Returns a line for each part.

    A backup that was killed is begun anew. Models and checkpoints are not copied.

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
    """Copy the files beside the stores, and return how many.

    Where one is gone by then they are listed again: the journal of a sweep that was archived
    meanwhile has another name.
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
    """List what is copied: not Ray's own folder, which holds the checkpoints of running trials.

    The folder of a sweep can be a link to another disk.
    """
    for name in _FOLDERS:
        for entry in sorted((runs / name).glob("*")):
            for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
                ray = name == "sweeps" and "ray" in path.relative_to(entry).parts[:1]
                if path.is_file() and not ray and not any(map(path.match, _LEFT_OUT)):
                    yield path


def _cut_last_line(journal: Path) -> None:
    """Cut off a line of which the end was still to be written."""
    with journal.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


def restore(folder: Path, places: Places, *, only: Collection[Part] = PARTS) -> list[str]:
    """Put back the parts of a backup. Returns a line for each.

    Nothing is overwritten: of a file that is there it must be the very content, or for a journal,
    its beginning. So a call that was killed can be repeated, without the databases on PostgreSQL
    that are back. What stores lack beside the journals is for `catch_up`.

    Raises:
        BackupError: if the folder holds no whole backup, a sum is not that of its file, or
            something is in the way; nothing is restored then.
        StoreError: if a database refuses.
    """
    try:
        files = _check_backup(folder, only)
        _refuse_to_overwrite(folder, files, places)
        lines = [
            _restore_store(folder / name, part, places) for part, name in files.databases.items()
        ]
        for name in files.runs:
            if not _choose_form(places.runs / name).exists():  # else it is the same, or newer
                _put_back(folder / "runs" / name, places.runs / name)
    except OSError as error:
        raise BackupError(f"{error.filename or folder}: {error.strerror}") from error
    return [*lines, f"journals: into {places.runs}"] if files.runs else lines


@dataclass(frozen=True)
class _Files:
    """The files of a backup that are asked for."""

    databases: Mapping[Part, str]
    """The name of each in the folder of the backup."""
    runs: tuple[str, ...]
    """Those beside the stores, below `runs`."""


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
    """Read the SHA-256 of each file of a backup, by its path within."""
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
    if not file.exists():  # a log that is left of another file would be taken for its own
        left = [file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal")]
        return next((str(path) for path in left if path.exists()), None)
    return None if _is_same(file, copy) else str(file)


def _is_same(there: Path, copy: Path) -> bool:
    return there.stat().st_size == copy.stat().st_size and file_sha256(there) == file_sha256(copy)


def _choose_form(file: Path) -> Path:
    """Choose the form that a journal has here, as text or compressed; other files have one."""
    text = file.with_suffix("") if file.name.endswith(".jsonl.gz") else file
    return compressed_journal(text) if is_archived(text) else text


def _goes_on(there: Path, copy: Path) -> bool:
    """Whether a file is the copy, or a journal in either form that goes on where the copy ends."""
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
