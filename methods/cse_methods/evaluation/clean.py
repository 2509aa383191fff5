"""Clean scores: on STS test sets without pairs of the selecting dev sets or of an earlier test set.

STS-B was drawn from STS12 to STS16. So its dev set, by which the field selects checkpoints and
hyperparameters, contains pairs of five of the seven test sets, and its test set contains more. The
clean score of a task is Spearman's correlation over the rows whose pair is neither in a dev set by
which the encoder was selected nor in an earlier task, in the order STS12 to STS16, STS-B, SICK-R.
`cse_methods.data.overlap` defines when two pairs are the same.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.overlap import PairKey, pair_key
from cse_methods.data.pairs import PairSet
from cse_methods.files.text import read_own_table
from cse_methods.metrics import spearman
from cse_methods.tasks import STS_TASKS

CLEAN = "clean"
"""The name of the metric."""
FEWEST_ROWS = 10
"""The fewest rows for which a correlation is computed."""


def find_left_out(
    sets: Sequence[PairSet], chosen_on: AbstractSet[PairKey]
) -> dict[str, NDArray[np.bool_]]:
    """Find the rows of each task that its clean score leaves out.

    Args:
        sets: test sets of the STS tasks. A task is only in the result if it and all earlier tasks
            are among them.
        chosen_on: keys of the pairs of the dev sets by which the encoder was selected.

    Returns:
        A mask by task, shape (pairs,), True for rows that are left out. Pairs that repeat within
        one task are kept.
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
    """Compute Spearman's correlation over the rows that are kept; nan if fewer than ten are.

    ValueError if the three, of shape (pairs,), differ in length.
    """
    kept = ~left_out
    return spearman(cosines[kept], gold[kept]) if kept.sum() >= FEWEST_ROWS else math.nan


class LeftOut(NamedTuple):
    """How many rows of a task are left out for a set of dev sets, on the known data."""

    dev: str
    """The selecting dev sets, joined by `+`; empty if there are none."""
    task: str
    rows: int
    in_dev: int
    """Rows whose pair is in one of these dev sets."""
    in_earlier: int
    """Rows whose pair is in an earlier task."""
    left_out: int
    """Rows of either kind."""


def known_left_out() -> Mapping[tuple[str, str], LeftOut]:
    """Read the counts for the known data from the package's manifest, by dev sets and task."""
    counts = [
        LeftOut(row["dev"], row["task"], *(int(row[name]) for name in LeftOut._fields[2:]))
        for row in read_own_table(Path(__file__).with_name("left_out.csv"))
    ]
    return {(count.dev, count.task): count for count in counts}
