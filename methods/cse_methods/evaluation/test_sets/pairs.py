"""Test sets of graded sentence pairs: STS12 to STS16, STS Benchmark and SICK-R.

Their texts, without gold scores, are stored for trials that train on them, as ConSERT and BERT-flow
do in their papers. A trial itself cannot open a test set.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import cache, partial
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path

from cse_methods.data.builtin.pairs import PairKind, draw_pairs, refuse_other_draw
from cse_methods.data.corpora import handed_out_texts
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.manifest import manifest, refuse_count
from cse_methods.data.pairs import (
    GradedPair,
    PairSet,
    existing_file,
    read_cells,
    read_pair,
    read_pair_files,
    read_pairs,
    read_score,
    sha256_of_pairs,
)
from cse_methods.data.senteval import fetch_senteval
from cse_methods.data.source import data_source
from cse_methods.errors import DataError
from cse_methods.files.cache import written_once
from cse_methods.files.text import read_lines
from cse_methods.tasks import STS_TASKS

_log = logging.getLogger(__name__)

TEST_PAIR_FILES = read_pair_files("test")
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
"""The checksum of each task's known pairs."""
# The built-in pairs only show whether an encoder has learned the grammar.
SUBSETS: dict[str, dict[PairKind, int]] = {
    "contrast": {"near": 18, "far": 6, "traded": 12, "opposed": 12},
    "graded": {"graded": 72},
}
# With these seeds, no sentence is in a built-in dev set or in the built-in corpus.
TEST_PAIR_SEEDS = dict(zip(STS_TASKS, range(31, 38), strict=True))


def load_pair_set(task: str, data: str | None) -> PairSet:
    """Load the test pairs of a task and check their number; built-in data has 120.

    The known numbers are sts12 3108, sts13 1500 (without the subset SMT, which is not public),
    sts14 3750, sts15 3000, sts16 1186, stsb 1379 and sickr 4927. Pairs with another checksum cause
    a warning. White space is replaced by single blanks; pairs without a gold score are dropped, as
    in SentEval. The subsets are SentEval's, sorted by name.

    DataError if the task is unknown, a file is missing or cannot be downloaded, a line is malformed
    or has an empty sentence (names file and line), or the number is wrong.
    """
    if task not in KNOWN_SHA256:
        raise DataError(f"no test pairs {task!r}; there are: {', '.join(KNOWN_SHA256)}")
    source = data_source(data)
    if source == "builtin":
        return PairSet.of(task, "builtin", builtin_test_pairs(task))
    folder = fetch_senteval() if source == "hub" else source
    if task in TEST_PAIR_FILES:
        subsets = {"test": read_pairs(folder, TEST_PAIR_FILES[task], what=task)}
    else:
        start, end = f"{STS_FOLDERS[task]}/STS.input.", ".txt"
        names = sorted(p[len(start) : -len(end)] for p in manifest() if p.startswith(start))
        subsets = {name: _read_subset(task, name, folder) for name in names}
    pairs = PairSet.of(task, "senteval", subsets)
    if pairs.sha256 != KNOWN_SHA256[task]:
        _log.warning("%s: not the known pairs of %s, only as many", folder, task)
    return pairs


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
            location = f"{input_file}, line {number}"
            first, second, *_ = read_cells(line, location, columns=2)
            pairs.append(read_pair(first, second, score, location))
    refuse_count(folder, golds, found=len(pairs))
    return pairs


@cache
def builtin_test_pairs(task: str) -> Mapping[str, tuple[GradedPair, ...]]:
    """Draw 120 pairs of a task, by subset.

    sickr uses the progressive with gold from 1 to 5, the others the simple present with gold from
    0 to 5. No sentence is in a built-in dev set or in the built-in corpus.
    """
    pairs = draw_pairs(
        {kind: count for mix in SUBSETS.values() for kind, count in mix.items()},
        like="sickr" if task == "sickr" else "stsb",
        seed=TEST_PAIR_SEEDS[task],
    )
    refuse_other_draw(f"{task} test pairs", sha256_of_pairs(pairs))
    remaining = iter(pairs)
    return {name: tuple(islice(remaining, sum(mix.values()))) for name, mix in SUBSETS.items()}


def hand_out_texts(corpora: Iterable[CorpusSpec], data: str | None) -> None:
    """Write the texts of the test sets among these corpora to where `load_corpus` reads them.

    Both sentences of each pair follow one another, pair by pair; repeats are kept. Texts that are
    already there are compared with the test sets, and replaced if they differ.

    DataError as in `load_pair_set`, or if the texts cannot be stored.
    """
    for spec in corpora:
        if spec.transductive:
            file = handed_out_texts(spec, data_source(data))
            sets = [load_pair_set(task, data) for task in spec.test_sets]
            pairs = chain.from_iterable(zip(one.first, one.second, strict=True) for one in sets)
            texts = "".join(f"{text}\n" for text in chain.from_iterable(pairs)).encode()
            written_once(
                file,
                read=partial(_read_same_texts, texts),
                write=methodcaller("write", texts),
                what="the texts of test sets",
            )


def _read_same_texts(texts: bytes, stored: Path) -> bytes | None:
    return texts if stored.is_file() and stored.read_bytes() == texts else None
