"""Finds the columns of a table that hold the two sentences and the score."""

import re
from collections.abc import Sequence

from cse_methods.data.own.spec import OwnPairs
from cse_methods.errors import DataError
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


def read_cells(table: FileTable, spec: OwnPairs) -> list[FileRow]:
    """Return the two sentences and the score of each row, without the header.

    The columns are those stated in `spec`; else those with usual names; else the first three.

    Raises:
        DataError: if a column is missing, or it is unclear whether the first line is a header.
    """
    if not table.rows:
        raise DataError(f"{table.path}: no rows; expected two sentences and a score in each")
    where = table.rows[0].where
    if table.names is None:
        first = tuple(str(cell).strip() for cell in table.rows[0].cells)
        table = table.headed() if _is_header(first, spec, where) else table
    columns = spec.columns
    if columns is None and table.names is not None:
        columns = _usual(table.names)
        if columns is None:
            names = ", ".join(table.names)
            raise DataError(f"{where}: the column names {names} are unusual; {_state()}")
    return table.select(columns or (1, 2, 3), spec.where)


def _is_header(first: Sequence[str], spec: OwnPairs, where: str) -> bool:
    """Whether the first line of a file without column names of its own is a header."""
    if spec.where or any(isinstance(name, str) for name in spec.columns or ()):
        return True
    if _usual(first) is not None:
        return True
    place = 2 if spec.columns is None else int(spec.columns[2]) - 1
    if len(first) < 3:
        raise DataError(
            f"{where}: {len(first)} column{'s' * (len(first) > 1)}, expected two sentences and a "
            "score; state what stands between them, {file: …, separator: …}"
        )
    if place < len(first) and is_number(first[place]):
        return False
    if spec.columns is not None:
        return True
    raise DataError(
        f"{where}: {first[2]!r} is neither a score nor, beside {first[0]!r} and {first[1]!r}, the "
        f"usual name of one; {_state()}"
    )


def _usual(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Numbers, from 1, of the columns with usual names; None if one is missing."""
    known = [_plain(name) for name in names]
    score = next((known.index(_plain(one)) for one in SCORE_NAMES if _plain(one) in known), None)
    for pair in SENTENCE_NAMES:
        a, b = map(_plain, pair)
        if a in known and b in known and score is not None:
            return known.index(a) + 1, known.index(b) + 1, score + 1
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def is_number(text: str) -> bool:
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
