"""Reads a file of a lab's own pairs; each problem is reported in one sentence."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cse_methods.data.own.spec import OwnPairs
from cse_methods.data.pairs import HIGHEST, GradedPair, PairSet
from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.files.tables import FileRow, FileTable, read_table

FEWEST_PAIRS = 10
"""Minimum number of pairs; of fewer, a correlation says nothing."""
_USUAL_HIGHEST = (1, 2, 3, 4, 5, 7, 10, 100)

Scale = tuple[float, float]


def load_own_pairs(spec: OwnPairs) -> PairSet:
    """Load the pairs of a file, with their scores rescaled to 0 to 5.

    Rescaling does not change Spearman's correlation, but it decides which pairs count as
    paraphrases (above 4 of 5). Text is split at white space and joined by single spaces.

    DataError if the file is missing or is no table; a row is not two sentences and a score (the
    message names the line); the scores are off the scale, all equal or on no usual scale; there are
    fewer than 10 pairs; or their checksum is not `sha256`.
    """
    pairs, *_ = _read(spec)
    found = PairSet.of(spec.name, "file", {"all": pairs})
    if spec.sha256 is not None and found.sha256 != spec.sha256:
        raise DataError(
            f"{spec.file}: its content has changed: sha256 {found.sha256[:12]}, expected "
            f"{spec.sha256[:12]}; restore the file, or start another sweep with it"
        )
    return found


def with_checksum(spec: OwnPairs) -> OwnPairs:
    """Return a copy with the checksum of the current pairs. DataError as `load_own_pairs`."""
    return spec.model_copy(update={"sha256": load_own_pairs(spec).sha256})


def refuse_dev_as_test(dev: Iterable[OwnPairs], tests: Iterable[OwnPairs]) -> None:
    """Raise a DataError if a test set has the checksum of a dev set, and thus the same pairs."""
    seen = {own.sha256: own for own in dev}
    for own in tests:
        if own.sha256 in seen:
            raise DataError(
                f"{own.file} holds the same pairs as the dev set {seen[own.sha256].file}: a "
                "test set must not guide training; name another file"
            )


def describe_own_pairs(spec: OwnPairs) -> str:
    """Describe a file in one line: pairs, scale and path. DataError as `load_own_pairs`."""
    pairs, (low, high), quotes = _read(spec)
    how = "found" if spec.scale is None else "stated"
    line = f"{spec.name}: {len(pairs)} pairs of {spec.file}, scores {low:g} to {high:g} ({how})"
    return f"{line}; {quotes}" if quotes else line


def refuse_absent(spec: OwnPairs) -> None:
    """Raise a DataError if the file is missing; opens no file and sends no request to the hub."""
    if "://" in spec.file:
        HubFile.at(spec.file)
    elif not Path(spec.file).is_file():
        raise DataError(
            f"{spec.file}: no such file of pairs; name one with two sentences and a score a row"
        )


def local_file(spec: OwnPairs) -> Path:
    """Return the path of the file, fetched from the hub if needed. Raises DataError if it is
    missing.
    """
    refuse_absent(spec)
    return HubFile.at(spec.file).fetch() if "://" in spec.file else Path(spec.file)


def _read(spec: OwnPairs) -> tuple[list[GradedPair], Scale, str]:
    """Read the pairs, their scale, and a clause on quotes that were taken off."""
    path = local_file(spec)
    table = read_table(path, spec)
    rows = read_cells(table, spec)
    read = []
    for row in rows:
        *texts, score = row.cells
        sentences = []
        for side, text in zip(("first", "second"), texts, strict=True):
            if not isinstance(text, str) or not text.strip():
                empty = text in ("", None) or isinstance(text, str)
                what = "is empty" if empty else f"is {text!r}"
                raise DataError(
                    f"{row.where}: the {side} sentence {what}; expected text, or no such row"
                )
            sentences.append(" ".join(text.split()))
        read.append(GradedPair(sentences[0], sentences[1], _read_score(row.where, score)))
    golds = [pair.gold for pair in read]
    if len(read) < FEWEST_PAIRS:
        raise DataError(
            f"{path}: {len(read)} pairs, expected at least {FEWEST_PAIRS}: a correlation needs more"
        )
    if len(set(golds)) == 1:
        raise DataError(
            f"{path}: each of the {len(golds)} pairs has the score {golds[0]:g}; expected scores "
            "that differ"
        )
    scale = _find_scale(golds, path) if spec.scale is None else spec.scale
    low, high = scale
    for row, gold in zip(rows, golds, strict=True):
        if not low <= gold <= high:
            raise DataError(
                f"{row.where}: the score {gold:g} is outside the stated scale, {low:g} to "
                f"{high:g}; correct one of them"
            )
    if scale != (0, HIGHEST):  # scores on this scale must stay the same to the last bit
        read = [pair._replace(gold=HIGHEST * (pair.gold - low) / (high - low)) for pair in read]
    return read, scale, table.quotes


def _read_score(where: str, cell: Any) -> float:
    text = cell.strip() if isinstance(cell, str) else cell
    try:
        value = math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError):
        value = math.nan
    if math.isfinite(value):
        return value
    hint = "expected a number"
    if isinstance(text, str) and text.count(",") == 1 and is_number(text.replace(",", ".")):
        hint = f"write {text.replace(',', '.')}"
    elif text in ("", None):
        hint = "expected a number; leave out pairs without one"
    raise DataError(f"{where}: the score is {text!r}; {hint}")


def _find_scale(golds: Sequence[float], path: Path) -> Scale:
    """Return the narrowest usual scale that holds all scores: from 0, from 1, or from -1 to 1."""
    lowest, highest = min(golds), max(golds)
    others = {gold for gold in golds if gold != -1}
    if lowest == -1 and len(others) > 1 and min(others) >= 0:
        raise DataError(
            f"{path}: {list(golds).count(-1)} of the {len(golds)} scores are -1 and all others are "
            "0 or more, as in data sets where -1 stands for no label; leave those rows out "
            "({file: …, where: {COLUMN: [VALUES]}} reads only rows with these values), or state "
            f"the scale if it is a score: {{file: …, scale: [-1, {highest:g}]}}"
        )
    if lowest < 0 and lowest >= -1 and highest <= 1:
        return -1, 1
    if lowest < 0 or highest > _USUAL_HIGHEST[-1]:
        raise DataError(
            f"{path}: scores from {lowest:g} to {highest:g} have an unusual scale; state it: "
            f"{{file: …, scale: [{lowest:g}, {highest:g}]}}"
        )
    high = next(one for one in _USUAL_HIGHEST if highest <= one)
    return (1 if lowest >= 1 and high > 1 else 0), high


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
_USUAL_PAIRS = " or ".join(f"{a} and {b}" for a, b in SENTENCE_NAMES[:3])
_WAY_OUT = (
    f"name them, {{file: …, columns: [FIRST, SECOND, SCORE]}}, or rename them to {_USUAL_PAIRS}, "
    f"with {' or '.join(SCORE_NAMES[:2])}"
)


def read_cells(table: FileTable, spec: OwnPairs) -> list[FileRow]:
    """Return the two sentences and the score of each row, without the header.

    The columns are those stated in `spec`; else those with usual names; else the first three.

    DataError if a column is missing, or it is unclear whether the first line is a header.
    """
    if not table.rows:
        raise DataError(f"{table.path}: no rows; expected two sentences and a score in each")
    where = table.rows[0].where
    if table.names is None:
        first = tuple(str(cell).strip() for cell in table.rows[0].cells)
        table = table.headed() if _is_header(first, spec, where) else table
    columns = spec.columns
    if columns is None and table.names is not None:
        columns = _find_usual_columns(table.names)
        if columns is None:
            names = ", ".join(table.names)
            raise DataError(f"{where}: the column names {names} are unusual; {_WAY_OUT}")
    return table.select(columns or (1, 2, 3), spec.where)


def _is_header(first: Sequence[str], spec: OwnPairs, where: str) -> bool:
    """Whether the first line of a file without column names of its own is a header."""
    if spec.where or any(isinstance(name, str) for name in spec.columns or ()):
        return True
    if _find_usual_columns(first) is not None:
        return True
    place = 2 if spec.columns is None else int(spec.columns[2]) - 1
    if len(first) < 3:
        raise DataError(
            f"{where}: {len(first)} column{'s' * (len(first) > 1)}, expected two sentences and a "
            "score; state what stands between them, {file: …, separator: …}"
        )
    if place < len(first) and is_number(first[place].replace(",", ".")):
        return False  # a decimal comma, which is refused with the score
    if spec.columns is not None:
        return True
    raise DataError(
        f"{where}: {first[2]!r} is neither a number nor a usual name of a score column; {_WAY_OUT}"
    )


def _find_usual_columns(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Numbers, from 1, of the columns with usual names; None if one is missing."""
    known = [_simplify_name(name) for name in names]
    score = next(
        (known.index(_simplify_name(one)) for one in SCORE_NAMES if _simplify_name(one) in known),
        None,
    )
    for pair in SENTENCE_NAMES:
        a, b = map(_simplify_name, pair)
        if a in known and b in known and score is not None:
            return known.index(a) + 1, known.index(b) + 1, score + 1
    return None


def _simplify_name(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
