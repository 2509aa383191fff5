"""Loads dev sets, the graded sentence pairs that pick checkpoints and steer a search.

It opens no test file.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cse_methods.data.builtin.pairs import builtin_pairs
from cse_methods.data.dev_selection import DEV_TASKS, DevSelection, DevTask
from cse_methods.data.own.reading import load_own_pairs
from cse_methods.data.pairs import (
    GradedPair,
    PairSet,
    PairSource,
    existing_file,
    read_pair,
    read_pair_files,
    read_pairs,
    read_score,
)
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.source import HubFile, data_source
from cse_methods.data.transfer_sets import load_transfer_set, missing_transfer_sets
from cse_methods.errors import DataError
from cse_methods.files.text import read_columns, sha256_of
from cse_methods.guard import is_test_file
from cse_methods.own_pairs import OwnPairs
from cse_methods.referenced_tasks.snapshots import (
    library_version,
    missing_references,
    read_rows,
    with_snapshot,
)
from cse_methods.task_reference import RANKED_KINDS
from cse_methods.tasks import TRANSFER_TASKS, OwnSet

_log = logging.getLogger(__name__)


class _Table(NamedTuple):
    """A dev split on the hub.

    The hub's own conversion to parquet has one file for each split, so that no test split is
    fetched.
    """

    file: HubFile
    columns: tuple[str, str, str]
    """Columns of the first sentence, the second sentence and the gold score."""
    pairs: int


_SPLIT = "default/validation/0000.parquet"
_REVISION = "refs/convert/parquet"
DEV_PAIR_FILES = read_pair_files("dev")
# SICK on the hub is a later, corrected edition with 495 of the 500 trial pairs.
DEV_TABLES: dict[DevTask, _Table] = {
    "stsb": _Table(
        HubFile("mteb/stsbenchmark-sts", _SPLIT, _REVISION),
        ("sentence1", "sentence2", "score"),
        pairs=1500,
    ),
    "sickr": _Table(
        HubFile("RobZamp/sick", _SPLIT, _REVISION),
        ("sentence_A", "sentence_B", "relatedness_score"),
        pairs=495,
    ),
}


def load_dev_pairs(dev: DevSelection, name: str, data: str | None) -> PairSet:
    """Load the pairs of a dev set: one of the package's, or a lab's own file.

    DataError as `load_dev_set` and `load_own_pairs`; also if the set does not consist of pairs, or
    the file has the name of a test set.
    """
    own = dev.files.get(name)
    if isinstance(own, OwnPairs):
        refuse_test_files(own)
        return load_own_pairs(own)
    task = next((one for one in DEV_TASKS if one == name and one in DEV_TABLES), None)
    if task is None:
        raise DataError(f"the dev set {name!r} holds no pairs; expected {', '.join(DEV_TABLES)}")
    return load_dev_set(task, data)


def refuse_test_files(own: OwnSet) -> None:
    """Raise a DataError if a file of an own set has the name of a test set."""
    for path in own.paths:
        if is_test_file(path) or is_test_file(os.path.realpath(path)):
            raise DataError(f"{path}: its name is that of a test set, which training must not see")


def load_dev_set(task: DevTask, data: str | None) -> PairSet:
    """Load the dev pairs of `stsb` (1500) or `sickr` (SICK trial, 500; 495 on the hub).

    As in SentEval, text is split at white space and joined by single spaces, and rows without a
    gold score are dropped. A warning is logged if the pairs of a folder have another checksum than
    the known one.

    DataError if a file is missing or cannot be fetched, a row is malformed (the message names file
    and line), or the number of pairs is not the known one.
    """
    source = data_source(data)
    if source == "builtin":
        return PairSet.of(task, "builtin", {"all": builtin_pairs(task)})
    if source == "hub":
        return PairSet.of(task, "hub", {"all": _read_table(task)})
    file = DEV_PAIR_FILES[task]
    dev = PairSet.of(task, "senteval", {"all": read_pairs(source, file, what=f"{task} dev")})
    if dev.sha256 != file.sha256:
        _log.warning("%s: not the known pairs, only as many", source / file.path)
    return dev


def missing_dev_sets(tasks: Iterable[DevTask], data: str | None) -> list[str]:
    """Describe what `load_dev_set` would fetch. Raises DataError if a data folder lacks a file."""
    source = data_source(data)
    missing = []
    for task in tasks:
        if isinstance(source, Path):
            existing_file(source, DEV_PAIR_FILES[task].path, what=f"{task} dev")
        elif source == "hub" and not DEV_TABLES[task].file.cached:
            missing.append(f"dev set {task} ({DEV_TABLES[task].file.repository})")
    return missing


def _read_table(task: DevTask) -> list[GradedPair]:
    table = DEV_TABLES[task]
    path = table.file.fetch()
    pairs = []
    rows = read_columns(path, *table.columns)
    for number, (first, second, gold) in enumerate(rows, start=1):
        location = f"{path}, row {number}"
        if gold is not None:
            # Scores on the hub are 32-bit floats: 3.7 is stored as 3.7000000477.
            score = read_score(f"{gold:.4f}", location, lowest=DEV_PAIR_FILES[task].lowest)
            pairs.append(read_pair(first, second, score, location))
    if len(pairs) != table.pairs:
        raise DataError(
            f"{path}: expected {table.pairs} scored pairs, found {len(pairs)}; fetch the file again"
        )
    return pairs


def identify_dev_set(dev: DevSelection, name: str, data: str | None) -> tuple[str, str]:
    """Read a dev set and return its source and the checksum of its data.

    For `transfer_dev`, it is that of the checksums of the seven sets, and for a task that of its
    rows, with the version of the library that scores it. Raises the errors of its loader.
    """
    if reference := dev.references.get(name):
        pinned = with_snapshot(reference)
        read_rows(pinned)
        source: PairSource = "file" if reference.is_own else "hub"
        if reference.kind in RANKED_KINDS:
            return source, str(pinned.sha256)
        # The library has the parameters of its tasks.
        return source, sha256_of((str(pinned.sha256), f"mteb {library_version()}"))
    if name != "transfer_dev":
        pairs = load_dev_pairs(dev, name, data)
        return pairs.source, pairs.sha256
    sets = [load_transfer_set(one, data) for one in TRANSFER_TASKS]
    checksums = sha256_of(f"{one.task}\t{one.sha256}" for one in sets)
    return sets[0].source, checksums


def missing_dev_data(dev: DevSelection, data: str | None) -> list[str]:
    """Describe what must be fetched before these dev sets can be read.

    No set of the package is loaded, but a lab's own files are, and may raise a DataError.
    """
    references = dev.references
    for name, own in dev.files.items():
        refuse_test_files(own)
        if name not in references:
            load_dev_pairs(dev, name, data)
    known = [name for name in DEV_TASKS if name in dev.tasks]
    missing = missing_dev_sets([name for name in known if name != "transfer_dev"], data)
    missing += missing_references(references.values())
    if "transfer_dev" in known and missing_transfer_sets(data):
        missing.append(f"dev set transfer_dev ({ARCHIVE.repository})")
    return missing
