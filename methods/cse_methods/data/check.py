"""Whether a data folder holds what it should: every file's count of lines and checksum.

Reads files as bytes, those of test sets too, and gives nothing of them but these two.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from cse_methods.data.corpora import KNOWN
from cse_methods.data.manifest import DataFile, manifest
from cse_methods.errors import DataError

FileState = Literal["ok", "missing", "other checksum", "wrong count"]


@dataclass(frozen=True)
class FileCheck:
    """One file against what is known of it."""

    path: str
    """Below the data folder."""
    state: FileState
    """`other checksum`: as many records, but other bytes, e.g. of another tokenisation."""
    expected: str
    """For people: the count, or of `other checksum` the first digits of the sum."""
    found: str

    @property
    def lacking(self) -> bool:
        """Whether the file has to be fetched: there is none, or it has a wrong count."""
        return self.state in ("missing", "wrong count")


def check_folder(folder: Path) -> list[FileCheck]:
    """Check every known evaluation file, then every corpus that is there.

    Raises:
        DataError: if the folder does not exist or a file cannot be read.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; name one in the SentEval layout, or fill one with "
            "`cse-data fetch`"
        )
    return [*check_files(folder), *check_corpora(folder)]


def check_files(folder: Path) -> list[FileCheck]:
    """Check every file of the manifest, in its order; DataError if a file cannot be read."""
    return [_check_file(folder / file.path, file) for file in manifest().values()]


def check_corpora(folder: Path) -> list[FileCheck]:
    """Count the lines of each text in `corpus/`; where no paper names it, any count is right."""
    expected = {name: known.lines for known in KNOWN.values() for name in known.local_names}
    checks = []
    for path in sorted(folder.glob("corpus/*.txt")):
        lines = _read(path).lines
        wanted = expected.get(path.name, lines)
        state: FileState = "ok" if lines == wanted else "wrong count"
        name = path.relative_to(folder).as_posix()
        checks.append(FileCheck(name, state, f"{wanted} lines", f"{lines} lines"))
    return checks


class _Content(NamedTuple):
    lines: int
    filled: int
    """Lines that are not blank."""
    sha256: str


def _check_file(path: Path, file: DataFile) -> FileCheck:
    wanted = _count(file, file.lines, file.records)
    if not path.is_file():
        return FileCheck(file.path, "missing", wanted, "")
    content = _read(path)
    found = _count(file, content.lines, content.filled)
    if found != wanted:
        return FileCheck(file.path, "wrong count", wanted, found)
    if content.sha256 != file.sha256:
        return FileCheck(file.path, "other checksum", file.sha256[:12], content.sha256[:12])
    return FileCheck(file.path, "ok", wanted, found)


def _count(file: DataFile, lines: int, filled: int) -> str:
    # Of a gold file the blank lines are unscored pairs, and few would be noticed otherwise.
    scored = f", {filled} scored" if "/STS.gs." in file.path else ""
    return f"{lines} lines{scored}"


def _read(path: Path) -> _Content:
    lines, filled, digest = 0, 0, hashlib.sha256()
    try:
        with path.open("rb") as stream:
            for line in stream:
                lines += 1
                filled += bool(line.strip())
                digest.update(line)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; name a readable file") from error
    return _Content(lines, filled, digest.hexdigest())
