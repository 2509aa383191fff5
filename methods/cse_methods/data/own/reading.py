"""Reads a file of a lab's own pairs; each problem is reported in one sentence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

from cse_methods.data.pairs import HIGHEST, GradedPair, PairSet, sha256_of_pairs
from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.files.cells import is_id, parse_number, read_texts
from cse_methods.files.named import nearest_file_hint
from cse_methods.files.tables import FileRow, FileTable, read_table, shorten
from cse_methods.own_pairs import SENTENCE_NAMES, OwnPairs
from cse_methods.task_reference import Reference

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
    pairs, _ = _read_pairs(spec)
    loaded = PairSet.of(spec.set_name, "file", {"all": pairs})
    if spec.sha256 is not None and loaded.sha256 != spec.sha256:
        raise DataError(
            f"{spec.file}: its content has changed: sha256 {loaded.sha256[:12]}, expected "
            f"{spec.sha256[:12]}; restore the file, or start another sweep with it"
        )
    return loaded


def with_checksum(spec: OwnPairs) -> OwnPairs:
    """Return a copy with the checksum of the current pairs. DataError as `load_own_pairs`."""
    return spec.model_copy(update={"sha256": load_own_pairs(spec).sha256})


def refuse_dev_as_test(
    dev: Iterable[OwnPairs | Reference], tests: Iterable[OwnPairs | Reference]
) -> None:
    """Raise a DataError if a test set has the checksum of a dev set, and thus the same rows."""
    seen = {own.sha256: own for own in dev if own.paths}
    for own in tests:
        if own.paths and own.sha256 in seen:
            same = "pairs" if isinstance(own, OwnPairs) else "rows"
            raise DataError(
                f"{own.paths[-1]} holds the same {same} as the dev set "
                f"{seen[own.sha256].paths[-1]}: a test set must not guide training; name another "
                "file"
            )


def refuse_test_as_dev(dev: Iterable[OwnPairs | Reference], known: Mapping[str, str]) -> None:
    """Raise a DataError if a dev set has the pairs of a known test set, by its name's checksum."""
    names = {checksum: name for name, checksum in known.items()}
    for own in dev:
        if isinstance(own, OwnPairs) and (name := names.get(sha256_of_pairs(_read_scored(own)))):
            raise DataError(
                f"{own.file} holds the pairs of the test set {name}: a test set must not guide "
                "training; name another file"
            )


def describe_own_pairs(spec: OwnPairs) -> str:
    """Describe a file in one line: pairs, scale and path. DataError as `load_own_pairs`."""
    pairs, (low, high) = _read_pairs(spec)
    how = "found" if spec.scale is None else "stated"
    return f"{spec.set_name}: {len(pairs)} pairs of {spec.file}, scores {low:g} to {high:g} ({how})"


def refuse_absent(spec: OwnPairs) -> None:
    """Raise a DataError if the file is missing; opens no file and sends no request to the hub."""
    if "://" in spec.file:
        HubFile.at(spec.file)
    elif not Path(spec.file).is_file():
        hint = (
            nearest_file_hint(Path(spec.file).resolve())
            or "; name one with two sentences and a score a row"
        )
        raise DataError(f"{spec.file}: no such file of pairs{hint}")


def local_file(path: str) -> Path:
    """Return the path of an own file, which is fetched if it is on the hub."""
    return HubFile.at(path).fetch() if "://" in path else Path(path)


def _read_pairs(spec: OwnPairs) -> tuple[list[GradedPair], Scale]:
    """Read the pairs with their scores rescaled to 0 to 5, and the scale of the file."""
    read = _read_scored(spec)
    golds = [pair.gold for pair in read]
    scale = spec.scale or _find_scale(golds, local_file(spec.file))
    low, high = scale
    if scale != (0, HIGHEST):  # scores on this scale must stay the same to the last bit
        read = [pair._replace(gold=HIGHEST * (pair.gold - low) / (high - low)) for pair in read]
    return read, scale


def _read_scored(spec: OwnPairs) -> list[GradedPair]:
    """Read the pairs with the scores of the file."""
    refuse_absent(spec)
    path = local_file(spec.file)
    rows = read_cells(read_table(path, spec), spec)
    sides = []
    for index, side in enumerate(("first", "second")):
        texts = [" ".join(text.split()) for text in read_texts(rows, index, f"the {side} sentence")]
        if "" in texts:
            row = rows[texts.index("")]
            raise DataError(
                f"{row.location}: the {side} sentence is empty; expected text, or no such row"
            )
        sides.append(texts)
    golds = [_read_score(row.location, row.cells[2]) for row in rows]
    read = [GradedPair(*pair) for pair in zip(*sides, golds, strict=True)]
    if len(read) < FEWEST_PAIRS:
        raise DataError(
            f"{path}: {len(read)} pairs, expected at least {FEWEST_PAIRS}: a correlation needs more"
        )
    if len(set(golds)) == 1:
        raise DataError(
            f"{path}: each of the {len(golds)} pairs has the score {golds[0]:g}; expected scores "
            "that differ"
        )
    low, high = (-inf, inf) if spec.scale is None else spec.scale
    for row, gold in zip(rows, golds, strict=True):
        if not low <= gold <= high:
            raise DataError(
                f"{row.location}: the score {gold:g} is outside the stated scale, {low:g} to "
                f"{high:g}; correct one of them"
            )
    return read


def _read_score(location: str, cell: Any) -> float:
    is_number = isinstance(cell, (int, float, Decimal)) and not isinstance(cell, bool)
    value = cell if is_number else parse_number(cell) if isinstance(cell, str) else None
    if value is not None and abs(value) < 1e300:
        return float(value)
    text = cell.strip() if isinstance(cell, str) else cell
    hint = "expected a number"
    hint += "; columns under a header are stated by their names" * location.endswith(", line 1")
    if isinstance(text, str) and "%" in text and parse_number(text.rstrip("% ")) is not None:
        hint = f"write {text.rstrip('% ')}"
    elif (
        isinstance(text, str)
        and "," in text
        and parse_number(text.replace(",", ".", 1)) is not None
    ):
        hint = f"write {text.replace(',', '.')}"
    elif text in ("", None):
        hint = "expected a number; leave out pairs without one"
    raise DataError(f"{location}: the score is {text!r}; {hint}")


def _find_scale(golds: Sequence[float], path: Path) -> Scale:
    """Return the narrowest usual scale that holds all scores: from 0, from 1, or from -1 to 1."""
    lowest, highest = min(golds), max(golds)
    others = {gold for gold in golds if gold != -1}
    if lowest == -1 and len(others) > 1 and min(others) >= 0:
        raise DataError(
            f"{path}: {list(golds).count(-1)} of the {len(golds)} scores are -1 and all others are "
            "0 or more, as in data sets where -1 stands for no label; leave those rows out "
            "({file: …, where: {COLUMN: [VALUES]}} in a sweep file reads only rows with these "
            "values), or state there the scale if it is a score: "
            f"{{file: …, scale: [-1, {highest:g}]}}"
        )
    if lowest < 0 and lowest >= -1 and highest <= 1:
        return -1, 1
    if lowest < 0 or highest > _USUAL_HIGHEST[-1]:
        raise DataError(
            f"{path}: scores from {lowest:g} to {highest:g} have an unusual scale; state it "
            f"in a sweep file: {{file: …, scale: [{lowest:g}, {highest:g}]}}"
        )
    high = next(one for one in _USUAL_HIGHEST if highest <= one)
    return (1 if lowest >= 1 and high > 1 else 0), high


SCORE_NAMES = ("score", "similarity", "similarity_score", "relatedness_score", "gold", "label")
"""Usual names of the score column; if a table has several, the first of these is used."""
_WAY_OUT = (
    "state columns: [FIRST, SECOND, SCORE] in a sweep file, by name if there is a header and by "
    "number if there is none, or give them the names "
    f"{', '.join(SENTENCE_NAMES[0])} and {SCORE_NAMES[0]}"
)


def read_cells(table: FileTable, spec: OwnPairs) -> list[FileRow]:
    """Return the two sentences and the score of each row, without the header.

    The columns are those stated in `spec`, of which names make the first row a header; else those
    with usual names; else a table without a header has just these three, in this order.

    DataError if a column is missing, or the table has neither usual names nor this form.
    """
    if not table.rows:
        raise DataError(f"{table.path}: no rows; expected two sentences and a score in each")
    if spec.columns is not None:
        return table.select(spec.columns, spec.where)
    location, first = table.rows[0]
    names = table.names or tuple(str(cell).strip() for cell in first)
    if columns := _find_usual_columns(names):
        return table.select(columns, spec.where)
    if table.names or spec.where:
        raise DataError(f"{location}: the column names {', '.join(names)} are unusual; {_WAY_OUT}")
    if len(names) == 3 and parse_number(names[2].replace(",", ".").rstrip("% ")) is not None:
        return table.select((1, 2, 3))  # a decimal comma or % is refused with the score
    texts = [number for number, cell in enumerate(names, start=1) if not is_id(cell)]
    two = f" (text is in {texts[0]} and {texts[1]})" if len(texts) == 2 < len(names) else ""
    raise DataError(
        f"{location}: neither a header with usual names nor text, text, number, but "
        f"{', '.join(map(shorten, names))}{two}; {_WAY_OUT}"
    )


def _find_usual_columns(names: Sequence[str]) -> tuple[str, str, str] | None:
    """Find the names of the columns with usual names; None if one is missing."""
    known = {_simplify_name(name): name for name in reversed(names)}
    score = next((known[name] for name in map(_simplify_name, SCORE_NAMES) if name in known), None)
    for pair in SENTENCE_NAMES:
        a, b = map(_simplify_name, pair)
        if a in known and b in known and score is not None:
            return known[a], known[b], score
    return None


def _simplify_name(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
