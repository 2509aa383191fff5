"""Checksums and versions of files."""

import hashlib
from functools import lru_cache
from pathlib import Path

FileVersion = tuple[Path, int, int, int]
"""A file with its time, size and inode: while these are the same, its content is."""


def file_version(file: Path) -> FileVersion:
    """The version of a file that is there now."""
    state = file.stat()
    return file.absolute(), state.st_mtime_ns, state.st_size, state.st_ino


def file_sha256(file: Path) -> str:
    """sha256 of a file's bytes, as hex digits; read again only when it has another version."""
    return _sha256(file_version(file))


@lru_cache
def _sha256(version: FileVersion) -> str:
    with version[0].open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
