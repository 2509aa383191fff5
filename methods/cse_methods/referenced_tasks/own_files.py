"""Reads a lab's own files as the rows of a task, in the layout of snapshots."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cse_methods.errors import DataError
from cse_methods.files.cells import read_texts
from cse_methods.files.tables import ABSENT, FileRow, FileTable, read_table
from cse_methods.own_pairs import SENTENCE_NAMES
from cse_methods.task_reference import OwnKind, Reference

_CLASSES = (("text", "label"), ("sentence", "label"))
_COLUMNS: Mapping[OwnKind, Sequence[tuple[str, ...]]] = {
    "triplets": tuple((first, "positive", "negative") for first in ("anchor", "query")),
    "classification": _CLASSES,
    "pairs": tuple((*names, "label") for names in SENTENCE_NAMES),
    "clusters": _CLASSES,
}
"""The names that the columns of a table can have."""
_PARTS = ("corpus", "queries", "qrels")
OWN_METRICS: Mapping[str, str] = {
    "retrieval": "ndcg_at_10",
    "triplets": "map_at_1000",
    "classification": "accuracy",
    "pairs": "max_ap",
    "clusters": "v_measure",
}
"""The main score of each kind, by its name in mteb."""
EVERY = 5
"""Of a file that trains and tests classifiers, each fifth row tests them."""

Row = dict[str, Any]


def read_own_rows(reference: Reference) -> dict[str, list[Row]]:
    """Read the files of a task and return its rows by the names that files of a snapshot have.

    DataError if a file is missing or in another layout; names the line and the way out.
    """
    if reference.kind == "retrieval":
        return _read_folder(*(Path(reference.files[part]) for part in _PARTS))
    tables = {part: _read_columns(reference, path) for part, path in reference.files.items()}
    if reference.kind == "classification":
        return _read_classes(tables)
    rows = tables["all"]
    if reference.kind == "triplets":
        return _rank_triplets(rows)
    if reference.kind == "clusters":
        clusters = {"sentences": _read_sentences(rows, 0, "text"), "labels": _read_labels(rows, 1)}
        return {"default/test/rows": [clusters]}
    columns = {
        "sentence1": _read_sentences(rows, 0, "first sentence"),
        "sentence2": _read_sentences(rows, 1, "second sentence"),
        "labels": _read_labels(rows, 2, among=("0", "1")),
    }
    cells = zip(*columns.values(), strict=True)
    return {"default/test/rows": [dict(zip(columns, row, strict=True)) for row in cells]}


def _require_file(path: Path) -> Path:
    if path.is_file():
        return path
    siblings = sorted(path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
    there = f"; there are {', '.join(file.name for file in siblings)}" if siblings else ""
    hint = "; a sweep file's `split:` names another of them" if path.parent.name == "qrels" else ""
    raise DataError(f"{path}: no such file{there}{hint}")


def _read_columns(reference: Reference, path: str) -> list[FileRow]:
    """Read the columns of a table by their usual names."""
    table = read_table(_require_file(Path(path))).headed()
    columns = _COLUMNS[reference.kind]  # type: ignore[index]
    found = next((names for names in columns if set(names) <= set(table.names or ())), None)
    if found is None:
        raise DataError(
            f"{path}: the columns are {', '.join(table.names or ())}; expected "
            f"{' or '.join(', '.join(names) for names in columns[:2])}"
        )
    if not table.rows:
        raise DataError(f"{path}: no rows; expected {', '.join(found)} in each")
    return table.select(found)


def _read_sentences(rows: Sequence[FileRow], cell: int, what: str) -> list[str]:
    texts = [" ".join(text.split()) for text in read_texts(rows, cell, f"the {what}")]
    if "" in texts:
        location = rows[texts.index("")].location
        raise DataError(f"{location}: the {what} is empty; expected text, or no such row")
    return texts


def _read_labels(
    rows: Sequence[FileRow], cell: int, among: Sequence[str] | None = None
) -> list[int]:
    """Number the labels from 0, in the order of their names.

    DataError if a cell is no label, or none `among` these, or all are equal.
    """
    labels = []
    for location, cells in rows:
        label = cells[cell]
        text = str(int(label) if isinstance(label, bool) else label).strip()
        if not isinstance(label, (str, int)) or text not in (among or {text} - {""}):
            expected = " or ".join(among) if among else "a word or a whole number"
            raise DataError(f"{location}: the label is {label!r}; expected {expected}")
        labels.append(text)
    names = sorted(set(labels))
    if len(names) == 1:
        raise DataError(
            f"{rows[0].location}: the label is {names[0]!r} as in every other row; expected two or "
            "more classes"
        )
    return [names.index(label) for label in labels]


def _read_classes(tables: Mapping[str, list[FileRow]]) -> dict[str, list[Row]]:
    rows = [row for part in ("train", "test", "all") for row in tables.get(part, ())]
    texts, labels = _read_sentences(rows, 0, "text"), _read_labels(rows, 1)
    made = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    if "all" in tables:
        train = [row for number, row in enumerate(made) if number % EVERY]
        return {"default/test/rows": made[::EVERY], "default/train/rows": train}
    size = len(tables["train"])
    known = {row["label"] for row in made[:size]}
    for row, given in zip(rows[size:], made[size:], strict=True):
        if given["label"] not in known:
            raise DataError(
                f"{row.location}: no text to train on has the label {row.cells[1]!r}; add some, or "
                "leave this row out"
            )
    return {"default/test/rows": made[size:], "default/train/rows": made[:size]}


def _rank_triplets(rows: Sequence[FileRow]) -> dict[str, list[Row]]:
    """Make each anchor rank its positives among its negatives; texts are their own ids."""
    sides = [_read_sentences(rows, cell, what) for cell, what in enumerate(_COLUMNS["triplets"][0])]
    judged = dict[str, dict[str, int]]()
    for row, anchor, positive, negative in zip(rows, *sides, strict=True):
        scores = judged.setdefault(anchor, {})
        if scores.setdefault(positive, 1) == 0 or scores.setdefault(negative, 0) == 1:
            raise DataError(
                f"{row.location}: a text is a positive and a negative of the anchor {anchor!r}; "
                "remove one of them"
            )
    texts = dict.fromkeys(text for scores in judged.values() for text in scores)
    return {
        "default/test/corpus": [{"id": text, "title": "", "text": text} for text in texts],
        "default/test/queries": [{"id": anchor, "text": anchor} for anchor in judged],
        "default/test/relevant_docs": [
            {"query": anchor, "documents": scores} for anchor, scores in judged.items()
        ],
        "default/test/top_ranked": [
            {"query": anchor, "documents": list(scores)} for anchor, scores in judged.items()
        ],
    }


def _read_folder(corpus: Path, queries: Path, qrels: Path) -> dict[str, list[Row]]:
    """Read a folder in BEIR's layout; queries that no line of the qrels names are left out."""
    documents, asked = _read_entries(corpus, titled=True), _read_entries(queries)
    relevant = dict[str, dict[str, int]]()
    columns = ("query-id", "corpus-id", "score")
    for location, cells in read_table(_require_file(qrels)).headed().select(columns):
        query, document, score = (str(cell).strip() for cell in cells)
        for own, known, file in ((query, asked, queries), (document, documents, corpus)):
            if own not in known:
                raise DataError(
                    f"{location}: {file} has no _id {own!r}; add it, or remove the line"
                )
        if not score.isdecimal():
            raise DataError(f"{location}: the score is {score!r}; expected a whole number from 0")
        relevant.setdefault(query, {})[document] = int(score)
    if not any(score for scores in relevant.values() for score in scores.values()):
        raise DataError(f"{qrels}: no document is relevant; expected scores above 0")
    return {
        "default/test/corpus": list(documents.values()),
        "default/test/queries": [asked[own] for own in asked if own in relevant],
        "default/test/relevant_docs": [
            {"query": own, "documents": relevant[own]} for own in sorted(relevant)
        ],
    }


def _read_entries(file: Path, *, titled: bool = False) -> dict[str, Row]:
    """Read the queries, or the documents with their titles, by their ids."""
    table: FileTable = read_table(_require_file(file))
    rows, entries = table.select(("_id", "text")), dict[str, Row]()
    titles = [""] * len(rows)
    if titled and "title" in (table.names or ()):
        at = (table.names or ()).index("title")
        cells = [row.cells[at] for row in table.rows]
        titles = ["" if cell in (None, ABSENT) else str(cell) for cell in cells]
    for row, title, text in zip(rows, titles, read_texts(rows, 1, "the text"), strict=True):
        own = str(row.cells[0])
        if own in entries:
            raise DataError(f"{row.location}: the _id {own!r} is that of an earlier line")
        if not (title + text).strip():
            raise DataError(f"{row.location}: the text is empty; expected text, or no such line")
        entries[own] = {"id": own, **({"title": title} if titled else {}), "text": text}
    return entries
