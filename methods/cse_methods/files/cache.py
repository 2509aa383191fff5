"""The cache holds what a machine computes once, in files that are complete or absent."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from filelock import FileLock
from platformdirs import user_cache_path

from cse_methods.errors import CseError, DataError
from cse_methods.files.named import expand

Content = TypeVar("Content")


CACHE_KINDS = {
    "teachers": "vectors of frozen teachers",
    "neighbours": "nearest sentences by a teacher",
    "tokenized": "corpora in word pieces",
    "throughput": "how many trials share a device",
    "negations": "negated sentences",
    "senteval": "evaluation sets from the hub",
    "test-texts": "texts of test sets, handed out for transductive training",
    "test-tasks": "test splits of tasks of mteb",
    "dev-tasks": "dev splits of tasks of mteb",
    "copies": "encoders from object stores",
}
"""The folders of the cache, and what lies in them."""


def cache_root() -> Path:
    """Return the folder that CSE_CACHE names, else the user's cache."""
    root = os.environ.get("CSE_CACHE")
    return Path(expand(root)) if root else user_cache_path("cse")


def cache_folder(kind: str) -> Path:
    """Return the folder for files of one of the kinds."""
    return cache_root() / kind


def cache_files(kind: str) -> list[Path]:
    """List the files of a kind, sorted by name, without the locks of their writers."""
    paths = sorted(cache_folder(kind).rglob("*"))
    return [file for file in paths if file.is_file() and file.suffix != ".lock"]


def cache_key(parts: Mapping[str, Any]) -> str:
    """Name a file by all that its content depends on, in 32 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def written_once(
    file: Path,
    *,
    read: Callable[[Path], Content | None],
    write: Callable[[IO[bytes]], None],
    what: str = "a file",
    error: type[CseError] = DataError,
) -> Content:
    """Read a file of the cache; the first caller writes it while the others wait.

    The file gets its name only when it is complete and on disk. `read` gives None if there is no
    file, or it was damaged since. `write` gets a stream, not a memory map: on a full disk a stream
    raises, a map kills the process.

    Raises:
        CseError: of the type `error`, if the file cannot be written or read; names `what` it holds.
    """
    try:
        content = read(file)
        if content is not None:
            with suppress(OSError):  # note the reading, also on a disk that does not
                os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))
            return content
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):
            content = read(file)
            if content is None:  # still, now that the lock is ours
                with written_whole(file, file.with_suffix(".partial")) as stream:
                    write(stream)
                content = read(file)
        if content is None:
            raise OSError(f"{file.name} does not hold what was written to it")
    except OSError as problem:
        raise error(
            f"cannot store {what} in {file.parent}: {problem.strerror or problem}; free space "
            "there, or set CSE_CACHE to a folder on another disk"
        ) from problem
    return content


def cache_entries(kind: str) -> list[Path]:
    """List the files and folders of a kind that are deleted as one, sorted by name."""
    folder = cache_folder(kind)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def last_used(entry: Path) -> float:
    """Return when a file, or one below a folder, was last read or written: seconds since 1970."""

    def read_times(file: Path) -> float:
        try:
            stat = file.stat()
        except FileNotFoundError:
            return time.time()
        return stat.st_mtime if file.is_dir() else max(stat.st_atime, stat.st_mtime)

    return max(map(read_times, [entry, *(entry.rglob("*") if entry.is_dir() else ())]))


@contextmanager
def written_whole(file: Path, partial: Path) -> Iterator[IO[bytes]]:
    """Open a stream to the file `partial`, and rename that to `file` once it is on disk."""
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
