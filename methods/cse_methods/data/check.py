"""Checks the files of a data folder against their known line counts and checksums.

Files are read as bytes, those of test sets too, and only counts and checksums are returned.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_methods.data.corpora import KNOWN
from cse_methods.data.manifest import DataFile, manifest
from cse_methods.errors import DataError

FileState = Literal["ok", "missing", "other checksum", "wrong count"]


@dataclass(frozen=True)
class FileCheck:
    path: str
    """Relative to the data folder."""
    state: FileState
    """`other checksum`: the count is right, but the bytes differ, e.g. by another tokenisation."""
    expected: str
    """For display: the count or, if the state is `other checksum`, the start of the checksum."""
    found: str

    @property
    def lacking(self) -> bool:
        """Whether the file has to be fetched because it is missing or has a wrong count."""
        return self.state in ("missing", "wrong count")


def check_folder(folder: Path) -> list[FileCheck]:
    """Check all known evaluation files, then all corpora in the folder.

    DataError if the folder does not exist or a file cannot be read.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; name one in the SentEval layout, or fill one with "
            "`cse-data fetch`"
        )
    return [*check_files(folder), *check_corpora(folder)]


def check_files(folder: Path) -> list[FileCheck]:
    """Check all files of the manifest, in its order. Raises DataError if a file cannot be read."""
    return [_check_file(folder / file.path, file) for file in manifest().values()]


def check_corpora(folder: Path) -> list[FileCheck]:
    """Check the line counts of the texts in `corpus/`; for unknown names, any count is right."""
    expected = {name: known.lines for known in KNOWN.values() for name in known.local_names}
    checks = []
    for path in sorted(folder.glob("corpus/*.txt")):
        lines, *_ = _scan_file(path)
        wanted = expected.get(path.name, lines)
        state: FileState = "ok" if lines == wanted else "wrong count"
        name = path.relative_to(folder).as_posix()
        checks.append(FileCheck(name, state, f"{wanted} lines", f"{lines} lines"))
    return checks


def _check_file(path: Path, file: DataFile) -> FileCheck:
    # Blank lines of a gold file are unscored pairs; the line count alone would not show them.
    is_gold = "/STS.gs." in file.path

    def format_counts(lines: int, filled: int) -> str:
        return f"{lines} lines, {filled} scored" if is_gold else f"{lines} lines"

    wanted = format_counts(file.lines, file.records)
    if not path.is_file():
        return FileCheck(file.path, "missing", wanted, "")
    lines, filled, sha256 = _scan_file(path)
    actual = format_counts(lines, filled)
    if actual != wanted:
        return FileCheck(file.path, "wrong count", wanted, actual)
    if sha256 != file.sha256:
        return FileCheck(file.path, "other checksum", file.sha256[:12], sha256[:12])
    return FileCheck(file.path, "ok", wanted, actual)


def _scan_file(path: Path) -> tuple[int, int, str]:
    """Count the lines of a file and those that are not blank, and hash its bytes."""
    lines, filled, digest = 0, 0, hashlib.sha256()
    try:
        with path.open("rb") as stream:
            for line in stream:
                lines += 1
                filled += bool(line.strip())
                digest.update(line)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; name a readable file") from error
    return lines, filled, digest.hexdigest()
