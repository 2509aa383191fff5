"""Test pairs: SentEval's reading rules, known counts, and where they come from."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.manifest import manifest
from cse_methods.data.pairs import PairSet
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.pairs import KNOWN_SHA256, load_pair_set
from cse_methods.tasks import STS_TASKS

STS13 = "downstream/STS/STS13-en-test"
STS16 = "downstream/STS/STS16-en-test"
COUNTS = dict(zip(STS_TASKS, (3108, 1500, 3750, 3000, 1186, 1379, 4927), strict=True))


def write_subset(folder: Path, golds: str, scores: list[str], *, end: str = "\n") -> None:
    """A subset with made-up sentences, `Left 1 .` and `Right 1 .` on line 1, and these scores."""
    lines = [f"Left  {number} .\tRight {number} ." for number in range(1, len(scores) + 1)]
    for path, content in ((golds, scores), (golds.replace("STS.gs.", "STS.input."), lines)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes("".join(line + end for line in content).encode())


def write_task(folder: Path, task_folder: str, *, end: str = "\n") -> Path:
    """All subsets of a task."""
    for file in manifest().values():
        if file.path.startswith(f"{task_folder}/STS.gs."):
            scored = set(Random(0).sample(range(file.lines), file.records))
            scores = [f"{n % 51 / 10}" if n in scored else "" for n in range(file.lines)]
            write_subset(folder, file.path, scores, end=end)
    return folder


def test_real_files(shared: Path, caplog: pytest.LogCaptureFixture) -> None:
    for task in STS_TASKS:
        pairs = load_pair_set(task, str(shared / "data"))
        assert (pairs.task, pairs.source, pairs.sha256) == (task, "senteval", KNOWN_SHA256[task])
        assert len(pairs.first) == len(pairs.second) == len(pairs.gold) == COUNTS[task]
        assert sum(pairs.subsets.values()) == COUNTS[task]
        assert (pairs.gold.dtype, pairs.gold.max()) == (np.float64, 5)
        assert not caplog.records


def test_scored_pairs_keep_their_order_and_score(tmp_path: Path) -> None:
    pairs = load_pair_set("sts16", str(write_task(tmp_path, STS16)))
    names = ["answer-answer", "headlines", "plagiarism", "postediting", "question-question"]
    assert dict(pairs.subsets) == dict(zip(names, (254, 249, 230, 244, 209), strict=True))
    numbers = [int(sentence.split()[1]) for sentence in pairs.first]
    assert [sentence.replace("Right", "Left") for sentence in pairs.second] == list(pairs.first)
    assert [(n - 1) % 51 / 10 for n in numbers] == list(pairs.gold)
    start = 0
    for size in pairs.subsets.values():
        assert numbers[start : start + size] == sorted(numbers[start : start + size])
        start += size


def test_line_ends_do_not_matter(tmp_path: Path) -> None:
    unix = load_pair_set("sts16", str(write_task(tmp_path / "unix", STS16)))
    windows = load_pair_set("sts16", str(write_task(tmp_path / "windows", STS16, end="\r\n")))
    assert unix.sha256 == windows.sha256


def test_other_pairs_of_the_right_number_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = load_pair_set("sts13", str(write_task(tmp_path, STS13)))
    assert pairs.sha256 != KNOWN_SHA256["sts13"]
    assert "not the known pairs of sts13, only as many" in caplog.text


def test_subsets_that_are_not_sentevals_are_left_alone(tmp_path: Path) -> None:
    write_task(tmp_path, STS13)
    write_subset(tmp_path, f"{STS13}/STS.gs.SMT.txt", ["1.0"] * 750)
    assert list(load_pair_set("sts13", str(tmp_path)).subsets) == ["FNWN", "OnWN", "headlines"]


def test_the_hub_is_a_folder_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_from_hub: Callable[[HubFile], Path]
) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    local = load_pair_set("sts13", str(write_task(tmp_path / "local", STS13)))
    with tarfile.open(kept_from_hub(ARCHIVE), "w") as tar:
        tar.add(tmp_path / "local" / "downstream", arcname=".")
    assert load_pair_set("sts13", "hub").sha256 == local.sha256
    with pytest.raises(DataError, match=r"SICK_test_annotated\.txt: no such file, and sickr is"):
        load_pair_set("sickr", "hub")


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(DataError, match=r"no test pairs 'sts17'; there are: sts12, .*, sickr"):
        load_pair_set("sts17", "builtin")


def test_gold_cannot_be_overwritten() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load_pair_set("sts12", "builtin").gold[0] = 3


def sentences(pairs: PairSet) -> set[str]:
    return {*pairs.first, *pairs.second}


def test_builtin() -> None:
    for task in STS_TASKS:
        pairs = load_pair_set(task, "builtin")
        assert (pairs.source, dict(pairs.subsets)) == ("builtin", {"contrast": 48, "graded": 72})
        assert len(set(zip(pairs.first, pairs.second, strict=True))) == len(pairs.gold) == 120
        assert pairs.gold.min() >= (1 if task == "sickr" else 0)
        assert len(set(pairs.gold)) > 4


def test_builtin_pairs_were_never_seen() -> None:
    sets = [load_pair_set(task, "builtin") for task in STS_TASKS]
    assert len({pairs.sha256 for pairs in sets}) == 7
    seen = set(builtin_corpus())
    for dev in (load_dev_set("stsb", "builtin"), load_dev_set("sickr", "builtin")):
        seen |= {*dev.first, *dev.second}
    assert not seen & set().union(*map(sentences, sets))
