"""What every file of a data folder in the SentEval layout must hold: counts and checksums."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cse_methods.errors import DataError


class DataFile(NamedTuple):
    """One file, as SentEval's own download script leaves it."""

    path: str
    """Below the data folder."""
    sha256: str
    """Checksum of its bytes. Another tokenisation of the same sentences has another one."""
    lines: int
    """Blank and unscored ones too."""
    records: int
    """Sentences or pairs that count: without headers, and of STS gold files the scored ones."""


@cache
def manifest() -> Mapping[str, DataFile]:
    """All known files, by path."""
    table = Path(__file__).with_name("manifest.csv")
    with table.open(newline="", encoding="utf-8") as stream:
        files = [
            DataFile(row["path"], row["sha256"], int(row["lines"]), int(row["records"]))
            for row in csv.DictReader(stream)
        ]
    return MappingProxyType({file.path: file for file in files})


def refuse_count(folder: Path, path: str, *, found: int) -> None:
    """Raise a DataError unless a file gave as many records as are known of it."""
    if found != (expected := manifest()[path].records):
        raise DataError(
            f"{folder / path}: expected {expected} records, found {found}; fetch the file again"
        )
