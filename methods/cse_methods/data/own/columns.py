"""Finds the columns of a table that hold the two sentences and the score."""

import re
from collections.abc import Sequence
from pathlib import Path

from cse_methods.data.own.spec import OwnPairs, PairColumn
from cse_methods.errors import DataError, nearest_hint
from cse_methods.files.tables import FileRow, FileTable

SENTENCE_NAMES = (
    ("sentence1", "sentence2"),
    ("sentence_A", "sentence_B"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("sent1", "sent2"),
    ("s1", "s2"),
    ("question1", "question2"),
)
"""Usual names of the sentence columns; case and punctuation do not matter."""
SCORE_NAMES = ("score", "similarity", "similarity_score", "relatedness_score", "gold", "label")
"""Usual names of the score column; if a table has several, the first of these is used."""

Places = tuple[int, int, int]
"""Column indices of both sentences and the score, from 0."""


def find_columns(table: FileTable, spec: OwnPairs) -> tuple[Places, Sequence[FileRow]]:
    """Find the columns of both sentences and the score, and the rows without the header.

    The columns are those stated in `spec`; else those with usual names; else the first three.

    Raises:
        DataError: if a column is missing, or it is unclear whether the first line is a header.
    """
    path = Path(spec.file)
    if not table.rows:
        raise DataError(f"{path}: no rows; expected two sentences and a score in each")
    names = table.names
    rows = table.rows
    if names is None:
        first = tuple(str(cell).strip() for cell in rows[0].cells)
        if _is_header(first, spec, rows[0].where):
            names, rows = first, rows[1:]
    where = table.rows[0].where
    width = len(table.rows[0].cells)
    if spec.columns is not None:
        a, b, score = (_place(column, names, width, where) for column in spec.columns)
        return (a, b, score), rows
    if names is None:
        return (0, 1, 2), rows
    usual = _usual(names)
    if usual is None:
        raise DataError(f"{where}: the columns {', '.join(names)} have no usual names; {_state()}")
    return usual, rows


def _is_header(first: Sequence[str], spec: OwnPairs, where: str) -> bool:
    """Whether the first line of a file without column names of its own is a header."""
    if spec.columns is not None and any(isinstance(name, str) for name in spec.columns):
        return True
    if _usual(first) is not None:
        return True
    place = 2 if spec.columns is None else int(spec.columns[2]) - 1
    if len(first) < 3:
        raise DataError(
            f"{where}: {len(first)} column{'s' * (len(first) > 1)}, expected two sentences and a "
            "score"
        )
    if place < len(first) and _is_number(first[place]):
        return False
    if spec.columns is not None:
        return True
    raise DataError(
        f"{where}: {first[2]!r} is neither a score nor, beside {first[0]!r} and {first[1]!r}, the "
        f"usual name of one; {_state()}"
    )


def _usual(names: Sequence[str]) -> Places | None:
    known = [_plain(name) for name in names]
    score = next((known.index(_plain(one)) for one in SCORE_NAMES if _plain(one) in known), None)
    for pair in SENTENCE_NAMES:
        a, b = map(_plain, pair)
        if a in known and b in known and score is not None:
            return known.index(a), known.index(b), score
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _place(column: PairColumn, names: Sequence[str] | None, width: int, where: str) -> int:
    if isinstance(column, int):
        if column > width:
            raise DataError(f"{where}: no column {column}; there are {width}, counted from 1")
        return column - 1
    assert names is not None  # a column's name makes the first line a header
    if column not in names:
        hint = nearest_hint(column, names)
        raise DataError(f"{where}: no column {column!r}; there are {', '.join(names)}.{hint}")
    return names.index(column)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _state() -> str:
    pairs = " or ".join(f"{a} and {b}" for a, b in SENTENCE_NAMES[:3])
    return (
        f"state them, {{file: …, columns: [FIRST, SECOND, SCORE]}}, or call them {pairs}, with "
        f"{' or '.join(SCORE_NAMES[:2])}"
    )
