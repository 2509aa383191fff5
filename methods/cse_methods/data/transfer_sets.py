"""Loads the training and dev parts of the transfer tasks: sentences with classes.

It opens no test file. Four tasks (`FOLDED`) have no test set: folds, which SentEval draws with a
fixed seed, take the place of dev and test. Text is split at white space and joined by single
spaces. As in SentEval, a blank line in CR and MPQA counts as an empty sentence, and is encoded as
the empty text.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.builtin.transfer import LabelledSentence, builtin_rows, sha256_of_rows
from cse_methods.data.manifest import manifest, refuse_count
from cse_methods.data.pairs import existing_file, read_cells
from cse_methods.data.senteval import fetch_senteval, missing_senteval
from cse_methods.data.source import DataSource, data_source
from cse_methods.errors import DataError
from cse_methods.files.text import decode_lines, read_content, read_own_table, sha256_of
from cse_methods.tasks import TRANSFER_TASKS, TransferTask

_log = logging.getLogger(__name__)

FOLDED: frozenset[TransferTask] = frozenset({"mr", "cr", "subj", "mpqa"})
"""Tasks without a test set."""
QUESTION_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""TREC's coarse classes, in the order of their numbers."""


@dataclass(frozen=True, eq=False)
class LabelledSentences:
    """Sentences, or pairs of them, with their classes, in SentEval's order: short ones first."""

    first: tuple[str, ...]
    second: tuple[str, ...] | None
    """The second sentence of each pair; only mrpc has them."""
    labels: NDArray[np.int64]
    """Shape (N,), classes from 0; read-only."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return self.first + (self.second or ())

    @property
    def sha256(self) -> str:
        second = self.second or ("",) * len(self.first)
        return sha256_of_rows(map(LabelledSentence, self.first, second, self.labels.tolist()))


@dataclass(frozen=True, eq=False)
class TransferSet:
    """The parts of a transfer task that training may see."""

    task: TransferTask
    source: Literal["builtin", "hub", "senteval"]
    train: LabelledSentences
    """The whole set for a folded task."""
    dev: LabelledSentences | None
    """Only sst2 has a dev set; the other tasks use folds instead."""

    @property
    def sha256(self) -> str:
        """Checksum of sentences and classes; the leaderboard separates data sets by it."""
        return sha256_of(part.sha256 for part in (self.train, self.dev) if part is not None)


class TransferFile(NamedTuple):
    """A file in the SentEval layout, with one sentence or pair a line."""

    path: str
    layout: str
    """`sentence`, `sentence and class`, `question` (after its class) or `pair`."""
    label: int
    """The class of all lines of the layout `sentence`."""
    header: bool
    encoding: str
    """One question of the original release of TREC has a byte that is not valid UTF-8."""


def load_transfer_set(task: TransferTask, data: str | None) -> TransferSet:
    """Load the training and dev sentences of a task, and check their numbers.

    The known counts are mr 10662, cr 3775, subj 10000, mpqa 10606, sst2 67349 for training and 872
    for dev, trec 5452, and mrpc 4076 pairs. The built-in data has 120 for training and 60 for dev.

    DataError if a file is missing or cannot be fetched, a line is malformed (the message names file
    and line), or the number of sentences is not the known one.
    """
    source = data_source(data)
    train = load_part(task, source, TRAIN_FILES[task], builtin=lambda: builtin_rows(task, "train"))
    dev = None
    if task in DEV_FILES:
        dev = load_part(task, source, DEV_FILES[task], builtin=lambda: builtin_rows(task, "dev"))
    name = source if isinstance(source, str) else "senteval"
    return TransferSet(task=task, source=name, train=train, dev=dev)


def fetch_transfer_sets(data: str | None) -> None:
    """Fetch the files that `load_transfer_set` reads from the hub, without reading them."""
    if data_source(data) == "hub":
        fetch_senteval()


def missing_transfer_sets(data: str | None) -> list[str]:
    """Describe what `load_transfer_set` would fetch. Raises DataError if a data folder lacks a
    file.
    """
    source = data_source(data)
    if isinstance(source, Path):
        for task in TRANSFER_TASKS:
            for file in (*TRAIN_FILES[task], *DEV_FILES.get(task, ())):
                existing_file(source, file.path, what=task)
    return missing_senteval() if source == "hub" else []


def load_part(
    task: TransferTask,
    source: DataSource,
    files: Iterable[TransferFile],
    *,
    builtin: Callable[[], Sequence[LabelledSentence]],
) -> LabelledSentences:
    """Load one part of a task, from `files` in SentEval's order or from `builtin`."""
    if source == "builtin":
        return _sort_rows(builtin())
    folder = fetch_senteval() if source == "hub" else source
    return _sort_rows([row for file in files for row in _read_sentences(folder, file, what=task)])


def _sort_rows(rows: Sequence[LabelledSentence]) -> LabelledSentences:
    # SentEval sorts in this way; sorting is stable, so equal rows keep the order of the files.
    rows = sorted(
        rows, key=lambda row: (len(row.first.split()), len(row.second.split()), row.label)
    )
    labels = np.array([row.label for row in rows], dtype=np.int64)
    labels.flags.writeable = False
    second = tuple(row.second for row in rows)
    return LabelledSentences(
        tuple(row.first for row in rows), second if any(second) else None, labels
    )


def _read_sentences(folder: Path, file: TransferFile, *, what: str) -> list[LabelledSentence]:
    path = existing_file(folder, file.path, what=what)
    content = read_content(path)
    lines = decode_lines(content, path, encoding=file.encoding)
    rows = [
        _read_line(line, file, f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if not (file.header and number == 1)
    ]
    refuse_count(folder, file.path, found=len(rows))
    if hashlib.sha256(content).hexdigest() != manifest()[file.path].sha256:
        _log.warning("%s: not the known sentences, only as many", path)
    return rows


def _read_line(line: str, file: TransferFile, location: str) -> LabelledSentence:
    """Read a line in the layout of its file; DataError, with `location`, if it is malformed."""
    if file.layout == "sentence":
        return LabelledSentence(" ".join(line.split()), "", file.label)  # any line is one
    second = ""
    classes: tuple[str, ...] = ("0", "1")
    if file.layout == "sentence and class":
        first, label = read_cells(line, location, columns=2)[:2]
        label = label.strip()
    elif file.layout == "question":
        label, _, first = line.partition(" ")
        label, classes = label.partition(":")[0], QUESTION_CLASSES
    else:
        label, _, _, first, second = read_cells(line, location, columns=5)[:5]
    if label not in classes:
        raise DataError(
            f"{location}: class {label!r} is none of {', '.join(classes)}; fetch the file again"
        )
    first, second = (" ".join(text.split()) for text in (first, second))
    if not first:
        raise DataError(f"{location}: the sentence is empty; fetch the file again")
    if file.layout == "pair" and not second:
        raise DataError(f"{location}: the second sentence is empty; fetch the file again")
    return LabelledSentence(first, second, classes.index(label))


def read_transfer_files(
    part: Literal["train", "dev", "test"],
) -> dict[TransferTask, tuple[TransferFile, ...]]:
    """Read which files, in SentEval's order, are a part of each task; some tasks lack a part."""
    files: dict[Any, tuple[TransferFile, ...]] = {}
    for row in read_own_table(Path(__file__).with_name("transfer_files.csv")):
        if row["part"] == part:
            layout, header = row["layout"], row["header"] == "yes"
            file = TransferFile(row["path"], layout, int(row["label"]), header, row["encoding"])
            files[row["task"]] = (*files.get(row["task"], ()), file)
    return files


TRAIN_FILES, DEV_FILES = read_transfer_files("train"), read_transfer_files("dev")
