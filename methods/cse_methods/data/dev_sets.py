"""Dev sets: graded sentence pairs that pick checkpoints and steer a search. Opens no test file."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.contract import DevTask
from cse_methods.data.builtin import Pair, builtin_pairs
from cse_methods.data.source import HubFile, data_source
from cse_methods.data.text import read_lines, sha256_of
from cse_methods.errors import DataError

log = logging.getLogger(__name__)


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
    """Of the pairs and their gold; tells dev sets apart on the leaderboard."""


class _File(NamedTuple):
    """A dev file in the SentEval layout: tab-separated, columns counted from 0."""

    path: str
    header: bool
    columns: int
    first: int
    second: int
    gold: int
    pairs: int
    sha256: str


class _Table(NamedTuple):
    """A dev split on the hub, as the hub's own parquet conversion, so that no test split comes."""

    file: HubFile
    first: str
    second: str
    gold: str
    pairs: int


_SPLIT = "default/validation/0000.parquet"
_REVISION = "refs/convert/parquet"
LOWEST: dict[DevTask, float] = {"stsb": 0.0, "sickr": 1.0}
HIGHEST = 5.0
FILES: dict[DevTask, _File] = {
    "stsb": _File(
        path="downstream/STS/STSBenchmark/sts-dev.csv",
        header=False,
        columns=7,
        first=5,
        second=6,
        gold=4,
        pairs=1500,
        sha256="4f7ca0af52e21c17e97d921ab8f7c09aa79aaa11fd2863b9573f2d6237690c8f",
    ),
    "sickr": _File(
        path="downstream/SICK/SICK_trial.txt",
        header=True,
        columns=5,
        first=1,
        second=2,
        gold=3,
        pairs=500,
        sha256="3d022b188ec75933324e3fbbb55082f2b8e95de0ea9919ba016821af3a64c3d8",
    ),
}
# The hub's SICK comes from a later, corrected edition: 495 of the 500 trial pairs.
TABLES: dict[DevTask, _Table] = {
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
    """The dev pairs of a task, counted and checksummed.

    Text is split at white space and joined by single blanks; rows without a gold score are
    dropped, as SentEval does.

    Args:
        task: `stsb` (STS Benchmark dev, 1500 pairs) or `sickr` (SICK trial, 500; 495 on the hub).
        data: the setting `data`: `builtin`, `hub`, a folder, or None for CSE_DATA.

    Raises:
        DataError: if a file is missing or cannot be fetched, a row is malformed (names file and
            line), or the number of pairs is not the known one (names file, expected and found).
    """
    source = data_source(data)
    if source == "builtin":
        return _dev_set(task, "builtin", builtin_pairs(task))
    if source == "hub":
        return _dev_set(task, "hub", _read_table(task))
    dev = _dev_set(task, "senteval", _read_file(task, source))
    if dev.sha256 != FILES[task].sha256:
        log.warning("%s: not the known pairs, only as many", source / FILES[task].path)
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
            _existing(task, source)
        elif source == "hub" and not TABLES[task].file.cached:
            missing.append(f"dev set {task} ({TABLES[task].file.repository})")
    return missing


def _dev_set(
    task: DevTask, source: Literal["builtin", "hub", "senteval"], pairs: Sequence[Pair]
) -> DevSet:
    gold = np.array([pair.gold for pair in pairs], dtype=np.float64)
    gold.flags.writeable = False
    return DevSet(
        task=task,
        source=source,
        first=tuple(pair.first for pair in pairs),
        second=tuple(pair.second for pair in pairs),
        gold=gold,
        sha256=sha256_of(f"{pair.first}\t{pair.second}\t{pair.gold!r}" for pair in pairs),
    )


def _existing(task: DevTask, folder: Path) -> Path:
    path = folder / FILES[task].path
    if not path.is_file():
        raise DataError(
            f"{path}: no such file, and {task} dev is read from it; complete the folder in the "
            "SentEval layout, or set data: or CSE_DATA to `builtin` or `hub`"
        )
    return path


def _read_file(task: DevTask, folder: Path) -> list[Pair]:
    layout, path = FILES[task], _existing(task, folder)
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and layout.header:
            continue
        where, cells = f"{path}, line {number}", line.split("\t")
        if len(cells) < layout.columns:
            raise DataError(
                f"{where}: {len(cells)} columns, expected {layout.columns}, separated by tabs; "
                "fetch the file again"
            )
        if gold := cells[layout.gold].strip():
            pairs.append(_pair(cells[layout.first], cells[layout.second], gold, task, where))
    return _counted(pairs, layout.pairs, path)


def _read_table(task: DevTask) -> list[Pair]:
    from pyarrow import ArrowInvalid, parquet

    table = TABLES[task]
    path = table.file.fetch()
    columns = [table.first, table.second, table.gold]
    try:
        rows = parquet.read_table(path, columns=columns).to_pydict()
        cells = list(zip(*(rows[column] for column in columns), strict=True))
    except (ArrowInvalid, KeyError) as error:
        raise DataError(
            f"{path}: no parquet file with the columns {', '.join(columns)}; fetch it again"
        ) from error
    # The hub's scores are 32-bit: 3.7 is stored as 3.7000000477.
    pairs = [
        _pair(first, second, f"{gold:.4f}", task, f"{path}, row {number}")
        for number, (first, second, gold) in enumerate(cells, start=1)
        if gold is not None
    ]
    return _counted(pairs, table.pairs, path)


def _pair(first: str, second: str, gold: str, task: DevTask, where: str) -> Pair:
    try:
        score = float(gold)
    except ValueError:
        score = float("nan")
    if not LOWEST[task] <= score <= HIGHEST:
        raise DataError(
            f"{where}: gold score {gold!r} is no number from {LOWEST[task]:g} to {HIGHEST:g}; "
            "fetch the file again"
        )
    sentences = [" ".join(text.split()) for text in (first, second)]
    if not all(sentences):
        raise DataError(f"{where}: a sentence of the pair is empty; fetch the file again")
    return Pair(sentences[0], sentences[1], score)


def _counted(pairs: list[Pair], expected: int, path: Path) -> list[Pair]:
    if len(pairs) != expected:
        raise DataError(
            f"{path}: expected {expected} scored pairs, found {len(pairs)}; fetch the file again"
        )
    return pairs
