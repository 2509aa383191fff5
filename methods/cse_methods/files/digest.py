"""Checksums of files."""

import hashlib
from functools import lru_cache
from pathlib import Path


def file_sha256(file: Path) -> str:
    """sha256 of a file's bytes, as hex digits; read again only when its time or size changes."""
    state = file.stat()
    return _sha256(file.absolute(), state.st_mtime_ns, state.st_size)


@lru_cache
def _sha256(file: Path, _changed: int, _size: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
