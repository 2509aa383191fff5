"""Test sets of graded sentence pairs: STS12 to STS16, STS Benchmark and SICK-R."""

import logging
from pathlib import Path

from cse_methods.data.dev_sets import DEV_PAIR_FILES as DEV_FILES
from cse_methods.data.manifest import manifest, refuse_count
from cse_methods.data.pairs import (
    GradedPair,
    PairSet,
    existing_file,
    read_cells,
    read_pair,
    read_pairs,
    read_score,
)
from cse_methods.data.senteval import fetch_senteval
from cse_methods.data.source import data_source
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.builtin_pairs import builtin_test_pairs
from cse_methods.files.text import read_lines

_log = logging.getLogger(__name__)

TEST_PAIR_FILES = {
    "stsb": DEV_FILES["stsb"]._replace(
        path="downstream/STS/STSBenchmark/sts-test.csv",
        sha256="59d8279de50656aeaa7de3acc122950c8790c8c28b7132a39234bd620be418c2",
    ),
    "sickr": DEV_FILES["sickr"]._replace(
        path="downstream/SICK/SICK_test_annotated.txt",
        sha256="37371c77d2b7071d0a2b78f0509ba8e0c4730ba9da87eafde99656d075fcbd74",
    ),
}
LOWEST_STS_GOLD = 0.0
"""The lowest gold score of STS12 to STS16."""
STS_FOLDERS = {f"sts{year}": f"downstream/STS/STS{year}-en-test" for year in range(12, 17)}
KNOWN_SHA256 = {
    "sts12": "86733c63af6a4d623467ccde9c5c737df1ae520480df19feaed5baf057d6ceba",
    "sts13": "4b9c1f8b03c62c62469281b94213fe750cce3a031b60fbc8931e651632a7f5a1",
    "sts14": "ece77445e6afa61a961ce999bd1c3515ec2d3b19abae9069321f80859b3ed36f",
    "sts15": "90d0b1f92c830fe7e0d2c64ee4852fe366f4bbad7d126b4789977ab7fc3a1467",
    "sts16": "69ebf5aff367d881fd498b4dea506a954965607ae13f4f86e1bbb5e742ae6dd8",
    **{task: file.sha256 for task, file in TEST_PAIR_FILES.items()},
}
"""Checksum of the known pairs of each task."""


def load_pair_set(task: str, data: str | None) -> PairSet:
    """The test pairs of a task, counted and checksummed; 120 of the built-in data.

    The known counts are sts12 3108, sts13 1500 (without the subset SMT, which is not public), sts14
    3750, sts15 3000, sts16 1186, stsb 1379 and sickr 4927. Text is split at white space and joined
    by single blanks; pairs without a gold score are dropped, as SentEval does. The subsets are
    SentEval's, in sorted order of name. A pair with an empty sentence is refused.

    Raises:
        DataError: if the task is unknown, a file is missing or cannot be fetched, a line is
            malformed (names file and line), or a file has not the known number of pairs.
    """
    if task not in KNOWN_SHA256:
        raise DataError(f"no test pairs {task!r}; there are: {', '.join(KNOWN_SHA256)}")
    source = data_source(data)
    if source == "builtin":
        return PairSet.of(task, "builtin", builtin_test_pairs(task))
    folder = fetch_senteval() if source == "hub" else source
    pairs = PairSet.of(task, "senteval", _read(task, folder))
    if pairs.sha256 != KNOWN_SHA256[task]:
        _log.warning("%s: not the known pairs of %s, only as many", folder, task)
    return pairs


def _read(task: str, folder: Path) -> dict[str, list[GradedPair]]:
    if task in TEST_PAIR_FILES:
        return {"test": read_pairs(folder, TEST_PAIR_FILES[task], what=task)}
    start, end = f"{STS_FOLDERS[task]}/STS.input.", ".txt"
    names = [path[len(start) : -len(end)] for path in manifest() if path.startswith(start)]
    return {name: _read_subset(task, name, folder) for name in sorted(names)}


def _read_subset(task: str, name: str, folder: Path) -> list[GradedPair]:
    inputs, golds = (f"{STS_FOLDERS[task]}/STS.{part}.{name}.txt" for part in ("input", "gs"))
    input_file, gold_file = (existing_file(folder, path, what=task) for path in (inputs, golds))
    lines, scores = read_lines(input_file), read_lines(gold_file)
    if len(lines) != len(scores):
        raise DataError(
            f"{gold_file}: {len(scores)} lines, but {input_file.name} beside it has {len(lines)}; "
            "fetch both files again"
        )
    pairs = []
    for number, (line, gold) in enumerate(zip(lines, scores, strict=True), start=1):
        if gold := gold.strip():
            score = read_score(gold, f"{gold_file}, line {number}", lowest=LOWEST_STS_GOLD)
            where = f"{input_file}, line {number}"
            first, second, *_ = read_cells(line, where, columns=2)
            pairs.append(read_pair(first, second, score, where))
    refuse_count(folder, golds, found=len(pairs))
    return pairs
