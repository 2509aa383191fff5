"""Dev sets: graded sentence pairs that pick checkpoints and steer a search. Opens no test file."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.builtin.pairs import builtin_pairs
from cse_methods.data.dev_selection import DevTask
from cse_methods.data.pairs import (
    GradedPair,
    PairFile,
    existing_file,
    gold_of,
    read_pair,
    read_pairs,
    read_score,
    sha256_of_pairs,
)
from cse_methods.data.source import HubFile, data_source
from cse_methods.errors import DataError
from cse_methods.files.parquet import read_columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DevSet:
    """Pairs of sentences with the similarity that people (or the grammar) gave them."""

    task: DevTask
    source: Literal["builtin", "hub", "senteval"]
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: NDArray[np.float64]
    """Shape (pairs,); 0 to 5 for stsb, 1 to 5 for sickr; read-only."""
    sha256: str
    """Checksum of the pairs and their gold scores; the leaderboard separates dev sets by it."""


class _Table(NamedTuple):
    """A dev split on the hub, as the hub's own parquet conversion, so that no test split comes."""

    file: HubFile
    first: str
    second: str
    gold: str
    pairs: int


_SPLIT = "default/validation/0000.parquet"
_REVISION = "refs/convert/parquet"
LOWEST_GOLD: dict[DevTask, float] = {"stsb": 0.0, "sickr": 1.0}
DEV_PAIR_FILES: dict[DevTask, PairFile] = {
    "stsb": PairFile(
        path="downstream/STS/STSBenchmark/sts-dev.csv",
        header=False,
        columns=7,
        first=5,
        second=6,
        gold=4,
        lowest=LOWEST_GOLD["stsb"],
        sha256="4f7ca0af52e21c17e97d921ab8f7c09aa79aaa11fd2863b9573f2d6237690c8f",
    ),
    "sickr": PairFile(
        path="downstream/SICK/SICK_trial.txt",
        header=True,
        columns=5,
        first=1,
        second=2,
        gold=3,
        lowest=LOWEST_GOLD["sickr"],
        sha256="3d022b188ec75933324e3fbbb55082f2b8e95de0ea9919ba016821af3a64c3d8",
    ),
}
# The hub's SICK comes from a later, corrected edition: 495 of the 500 trial pairs.
DEV_TABLES: dict[DevTask, _Table] = {
    "stsb": _Table(
        file=HubFile("mteb/stsbenchmark-sts", _SPLIT, _REVISION),
        first="sentence1",
        second="sentence2",
        gold="score",
        pairs=1500,
    ),
    "sickr": _Table(
        file=HubFile("RobZamp/sick", _SPLIT, _REVISION),
        first="sentence_A",
        second="sentence_B",
        gold="relatedness_score",
        pairs=495,
    ),
}


def load_dev_set(task: DevTask, data: str | None) -> DevSet:
    """The dev pairs of `stsb` (1500) or of `sickr` (SICK trial, 500; 495 on the hub), checksummed.

    Text is split at white space and joined by single blanks; rows without a gold score are dropped,
    as SentEval does.

    Raises:
        DataError: if a file is missing or cannot be fetched, a row is malformed (names file and
            line), or the number of pairs is not the known one (names file, expected and found).
    """
    source = data_source(data)
    if source == "builtin":
        return _dev_set(task, "builtin", builtin_pairs(task))
    if source == "hub":
        return _dev_set(task, "hub", _read_table(task))
    dev = _dev_set(task, "senteval", read_pairs(source, DEV_PAIR_FILES[task], what=f"{task} dev"))
    if dev.sha256 != DEV_PAIR_FILES[task].sha256:
        _log.warning("%s: not the known pairs, only as many", source / DEV_PAIR_FILES[task].path)
    return dev


def missing_dev_sets(tasks: Iterable[DevTask], data: str | None) -> list[str]:
    """What `load_dev_set` would have to fetch from the hub first, for people; loads nothing.

    Raises:
        DataError: if the data folder is not one, or has not the file of a task.
    """
    source = data_source(data)
    missing = []
    for task in tasks:
        if isinstance(source, Path):
            existing_file(source, DEV_PAIR_FILES[task].path, what=f"{task} dev")
        elif source == "hub" and not DEV_TABLES[task].file.cached:
            missing.append(f"dev set {task} ({DEV_TABLES[task].file.repository})")
    return missing


def _dev_set(
    task: DevTask, source: Literal["builtin", "hub", "senteval"], pairs: Sequence[GradedPair]
) -> DevSet:
    return DevSet(
        task=task,
        source=source,
        first=tuple(pair.first for pair in pairs),
        second=tuple(pair.second for pair in pairs),
        gold=gold_of(pairs),
        sha256=sha256_of_pairs(pairs),
    )


def _read_table(task: DevTask) -> list[GradedPair]:
    table = DEV_TABLES[task]
    path = table.file.fetch()
    pairs = []
    rows = read_columns(path, table.first, table.second, table.gold)
    for number, (first, second, gold) in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        if gold is not None:
            # The hub's scores are 32-bit: 3.7 is stored as 3.7000000477.
            score = read_score(f"{gold:.4f}", where, lowest=LOWEST_GOLD[task])
            pairs.append(read_pair(first, second, score, where))
    if len(pairs) != table.pairs:
        raise DataError(
            f"{path}: expected {table.pairs} scored pairs, found {len(pairs)}; fetch the file again"
        )
    return pairs
