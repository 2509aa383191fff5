"""Read the cells of a table: sentences, numbers, and what stands for neither."""

import re
from collections.abc import Sequence

from cse_methods.errors import DataError
from cse_methods.files.tables import FileRow

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_ID = re.compile(r"[!-~]*[0-9][!-~]*")
NO_TEXTS = {"NULL", "Null", "null", "NaN", "NAN", "nan", "NONE", "None", "none", "\\N"}
NO_TEXTS |= {"NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "<null>", "(null)", "(NULL)", "[NULL]"}
NO_TEXTS |= {"#NAME?", "#VALUE!", "#REF!", "#DIV/0!", "#NULL!", "#NUM!", "#ERROR!"}
"""How programs write that there is no text, and spreadsheets that a formula failed."""


def parse_number(text: str) -> float | None:
    """Parse a decimal number, such as `-4.5e-3`; None if it is none, as are `4_5`, `nan`, `inf`."""
    return float(text) if _NUMBER.fullmatch(text) else None


def is_id(text: str) -> bool:
    """Whether a text is a number or an id: one word of ASCII with a digit."""
    return _ID.fullmatch(text.strip()) is not None


def read_texts(rows: Sequence[FileRow], cell: int, what: str) -> list[str]:
    """Return the texts of one cell of each row; empty for an empty cell.

    DataError if a cell holds no text or stands for none (NULL, nan), or if all are numbers or ids.
    """
    texts = ["" if row.cells[cell] is None else row.cells[cell] for row in rows]
    for row, text in zip(rows, texts, strict=True):
        if not isinstance(text, str) or "\0" in text:
            raise DataError(
                f"{row.location}: {what} is {text!r}; expected text: name such a column"
            )
    if nulls := [number for number, text in enumerate(texts) if text.strip() in NO_TEXTS]:
        raise DataError(
            f"{rows[nulls[0]].location}: {what} is {texts[nulls[0]]!r}, which stands for no text "
            f"({len(nulls)} cells are such as NULL or nan); remove these rows, or end such a word "
            "with a full stop if it is a sentence"
        )
    if texts and all(map(is_id, texts)):
        raise DataError(
            f"{rows[0].location}: {what} is {texts[0]!r}, and a number or an id in every other "
            "row; name a column of text"
        )
    return texts


def read_numbers(rows: Sequence[FileRow], cell: int, what: str) -> list[float | tuple[float, ...]]:
    """Return the number of one cell of each row, or its list of numbers.

    DataError if a cell holds neither, or some hold numbers and others lists.
    """
    read = list[float | tuple[float, ...]]()
    for location, cells in rows:
        value = cells[cell]
        entries = value if isinstance(value, (list, tuple)) else [value]
        numbers = [
            parse_number(entry if isinstance(entry, str) else repr(entry)) for entry in entries
        ]
        found = [number for number in numbers if number is not None]
        if len(found) < len(numbers) or not found or isinstance(value, bool):
            raise DataError(f"{location}: {what} is {value!r}; expected a number or a list")
        read.append(found[0] if entries is not value else tuple(found))
        if isinstance(read[-1], tuple) != isinstance(read[0], tuple):
            raise DataError(f"{location}: {what} is {value!r}; expected the kind of the first row")
    return read
