"""Clean scores: STS test sets without the pairs that chose the encoder or stand in an earlier set.

STS-B was drawn from STS12 to STS16, so that its dev set, by which this field chooses checkpoints
and hyperparameters, holds pairs of five of the seven test sets; its test set holds more of them.
A task's clean score is Spearman's correlation over its rows whose pair stands neither in a dev set
that chose the encoder nor in a task before it, in the order STS12 to STS16, STS-B, SICK-R. What
counts as the same pair is said in `cse_methods.data.overlap`.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import PairKey, TrainingData, choosing_pairs, pair_key
from cse_methods.data.pairs import PairSet
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.metrics import spearman
from cse_methods.tasks import STS_TASKS

CLEAN = "clean"
"""The metric of a clean score."""
FEWEST_ROWS = 10
"""Of fewer, a correlation says nothing."""
COUNTED_DEV_SETS = ((), ("stsb",), ("sickr",), ("stsb", "sickr"), ("transfer_dev",))
"""The choices of dev sets that the manifest has counts for."""


def find_left_out(
    sets: Sequence[PairSet], chosen_on: AbstractSet[PairKey]
) -> dict[str, NDArray[np.bool_]]:
    """Find the rows of each task that its clean score leaves out.

    Args:
        sets: test sets of the STS tasks, all up to the last one that is asked for. A task whose
            earlier tasks are not all there is left out of the answer.
        chosen_on: keys of the pairs of the dev sets that chose the encoder.

    Returns:
        A mask by task, shape (pairs,), True where a row is left out. Pairs that repeat within one
        task stay.
    """
    by_task, seen = {pairs.task: pairs for pairs in sets}, set(chosen_on)
    masks: dict[str, NDArray[np.bool_]] = {}
    for task in STS_TASKS:
        if task not in by_task:
            break
        keys = list(map(pair_key, by_task[task].first, by_task[task].second))
        masks[task] = np.array([key in seen for key in keys], dtype=np.bool_)
        seen.update(keys)
    return masks


def clean_spearman(
    cosines: NDArray[np.float32], gold: NDArray[np.float64], left_out: NDArray[np.bool_]
) -> float:
    """Spearman's correlation over the rows that are not left out; nan of fewer than ten.

    Raises:
        ValueError: if the three, of shape (pairs,), differ in length.
    """
    kept = ~left_out
    return spearman(cosines[kept], gold[kept]) if kept.sum() >= FEWEST_ROWS else math.nan


class LeftOut(NamedTuple):
    """How many rows of a task a choice of dev sets leaves out, on the known data."""

    dev: str
    """The dev sets that choose, with `+` between; empty if none does."""
    task: str
    rows: int
    in_dev: int
    """Rows whose pair stands in these dev sets."""
    in_earlier: int
    """Rows whose pair stands in an earlier task."""
    left_out: int
    """Rows of either kind."""


def count_left_out(data: str | None) -> Iterator[LeftOut]:
    """Count the rows that are left out of each task, by dev sets. Opens all STS test sets.

    Raises:
        DataError: if a data set is missing or damaged.
    """
    sets = [load_pair_set(task, data) for task in STS_TASKS]
    earlier = find_left_out(sets, set())
    for names in COUNTED_DEV_SETS:
        training = TrainingData(dev=DevSelection(), chosen_on=names, data=data)
        dev = choosing_pairs(training)
        masks = find_left_out(sets, dev)
        for pairs in sets:
            in_dev = sum(key in dev for key in map(pair_key, pairs.first, pairs.second))
            repeated, left_out = (int(m[pairs.task].sum()) for m in (earlier, masks))
            yield LeftOut("+".join(names), pairs.task, len(pairs.gold), in_dev, repeated, left_out)


def known_left_out() -> Mapping[tuple[str, str], LeftOut]:
    """The counts on the known data, as the package's manifest has them, by dev sets and task."""
    table = Path(__file__).with_name("left_out.csv")
    with table.open(newline="", encoding="utf-8") as stream:
        counts = [
            LeftOut(row["dev"], row["task"], *(int(row[name]) for name in LeftOut._fields[2:]))
            for row in csv.DictReader(stream)
        ]
    return {(count.dev, count.task): count for count in counts}
