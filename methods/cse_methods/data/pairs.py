"""Graded sentence pairs: how they are read in the SentEval layout, and their identity.

As in SentEval, text is split at white space and joined by single spaces.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.manifest import refuse_count
from cse_methods.errors import DataError
from cse_methods.files.text import read_lines, read_own_table, sha256_of

PairSource = Literal["builtin", "hub", "senteval", "file"]
"""Where pairs come from; `file` is a lab's own file."""
HIGHEST = 5.0
"""The highest gold score of every set."""


class GradedPair(NamedTuple):
    first: str
    second: str
    gold: float


@dataclass(frozen=True, eq=False)
class PairSet:
    """Sentence pairs with the similarity that annotators (or the grammar) gave them."""

    task: str
    source: PairSource
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: NDArray[np.float64]
    """Shape (pairs,); 0 to 5, for sickr 1 to 5; own files are rescaled to 0 to 5; read-only."""
    sha256: str
    """Checksum of the pairs and their gold scores; the leaderboard separates sets by it."""
    subsets: Mapping[str, int]
    """Number of pairs of each subset, in order; a task without subsets has a single entry."""

    @classmethod
    def of(cls, task: str, source: PairSource, subsets: Mapping[str, Sequence[GradedPair]]) -> Self:
        pairs = list(chain.from_iterable(subsets.values()))
        gold = np.array([pair.gold for pair in pairs], dtype=np.float64)
        gold.flags.writeable = False
        first, second = tuple(pair.first for pair in pairs), tuple(pair.second for pair in pairs)
        counts = {name: len(subset) for name, subset in subsets.items()}
        return cls(task, source, first, second, gold, sha256_of_pairs(pairs), counts)


class PairFile(NamedTuple):
    """A file of graded pairs in the SentEval layout: tab-separated, columns counted from 0."""

    path: str
    header: bool
    columns: int
    first: int
    second: int
    gold: int
    lowest: float
    """The lowest gold score."""
    sha256: str
    """Checksum of the known pairs, not of the file; it differs for another tokenisation."""


def read_pair_files(part: Literal["dev", "test"]) -> dict[str, PairFile]:
    """Read which files hold the pairs of STS Benchmark and SICK, by set."""
    return {
        row["set"]: PairFile(
            row["path"],
            row["header"] == "yes",
            int(row["columns"]),
            int(row["first"]),
            int(row["second"]),
            int(row["gold"]),
            float(row["lowest"]),
            row["sha256"],
        )
        for row in read_own_table(Path(__file__).with_name("pair_files.csv"))
        if row["part"] == part
    }


def existing_file(folder: Path, path: str, *, what: str) -> Path:
    """Return the path of the file that `what` is read from. Raises DataError if it is missing."""
    file = folder / path
    if not file.is_file():
        raise DataError(
            f"{file}: {what} is read from this file, which is missing; complete the folder in "
            "the SentEval layout, or set data: or CSE_DATA to `builtin` or `hub`"
        )
    return file


def read_pairs(folder: Path, file: PairFile, *, what: str) -> list[GradedPair]:
    """Read the pairs of a file and check their number; rows without a gold score are dropped.

    DataError if the file is missing or cannot be read, a row is malformed (the message names file
    and line), or the number of pairs is not the known one. `what` names the set.
    """
    path = existing_file(folder, file.path, what=what)
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and file.header:
            continue
        location = f"{path}, line {number}"
        cells = read_cells(line, location, columns=file.columns)
        if gold := cells[file.gold].strip():
            score = read_score(gold, location, lowest=file.lowest)
            pairs.append(read_pair(cells[file.first], cells[file.second], score, location))
    refuse_count(folder, file.path, found=len(pairs))
    return pairs


def read_cells(line: str, location: str, *, columns: int) -> list[str]:
    """Split a line into cells. Raises DataError if there are too few; `location` names the line."""
    cells = line.split("\t")
    if len(cells) < columns:
        raise DataError(
            f"{location}: {len(cells)} columns, expected {columns}, separated by tabs; "
            "fetch the file again"
        )
    return cells


def read_score(text: str, location: str, *, lowest: float) -> float:
    """Parse a gold score. Raises DataError if it is not a number from `lowest` to 5."""
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not lowest <= score <= HIGHEST:
        raise DataError(
            f"{location}: gold score {text!r} is not a number from {lowest:g} to {HIGHEST:g}; "
            "fetch the file again"
        )
    return score


def read_pair(first: str, second: str, gold: float, location: str) -> GradedPair:
    """Build a pair with normalised white space. Raises DataError if a sentence is empty."""
    sentences = [" ".join(text.split()) for text in (first, second)]
    if not all(sentences):
        raise DataError(f"{location}: a sentence of the pair is empty; fetch the file again")
    return GradedPair(sentences[0], sentences[1], gold)


def sha256_of_pairs(pairs: Iterable[GradedPair]) -> str:
    """Return the hex digest of the pairs and their gold scores, in order."""
    return sha256_of(f"{pair.first}\t{pair.second}\t{pair.gold!r}" for pair in pairs)
