"""Known counts and checksums of all files of a data folder in the SentEval layout."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cse_methods.errors import DataError
from cse_methods.files.text import read_own_table


class DataFile(NamedTuple):
    """A file as SentEval's own download script writes it."""

    path: str
    """Relative to the data folder."""
    sha256: str
    """Checksum of its bytes; it differs for another tokenisation of the same sentences."""
    lines: int
    """Number of lines, including blank and unscored ones."""
    records: int
    """Number of sentences or pairs, without headers; in STS gold files, of scored pairs only."""


@cache
def manifest() -> Mapping[str, DataFile]:
    """Return all known files, by path."""
    files = [
        DataFile(row["path"], row["sha256"], int(row["lines"]), int(row["records"]))
        for row in read_own_table(Path(__file__).with_name("manifest.csv"))
    ]
    return MappingProxyType({file.path: file for file in files})


def refuse_count(folder: Path, path: str, *, found: int) -> None:
    """Raise a DataError unless the number of records found in a file is the known one."""
    if found != (expected := manifest()[path].records):
        raise DataError(
            f"{folder / path}: expected {expected} records, found {found}; fetch the file again"
        )
