from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cse_methods.data.builtin.transfer import builtin_rows
from cse_methods.data.manifest import manifest
from cse_methods.data.transfer_sets import (
    DEV_FILES,
    FOLDED,
    TRAIN_FILES,
    load_transfer_set,
    missing_transfer_sets,
)
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.transfer import TEST_FILES, load_test_part
from cse_methods.tasks import TRANSFER_TASKS, TransferTask

LINES: dict[TransferTask, str] = {
    "mr": "a  fine {n} film",
    "cr": "good sound {n}",
    "subj": "he goes {n} home",
    "mpqa": "well {n}",
    "sst2": "a fine {n} film \t1",
    "trec": "NUM:date When was {n} ?",
    "mrpc": '1\t7\t8\tHe said {n} "yes .\tHe agreed {n} .',
}
Edit = Callable[[list[str]], list[str]]


def write(folder: Path, task: TransferTask, edit: Edit = list, *, end: str = "\n") -> str:
    """All files of a task with as many lines as are known, the first of them edited."""
    files = [*TRAIN_FILES[task], *DEV_FILES.get(task, ()), *TEST_FILES.get(task, ())]
    for place, file in enumerate(files):
        known = manifest()[file.path]
        lines = [LINES[task].format(n=number) for number in range(known.records)]
        if file.header:
            lines = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines]
        lines = edit(lines) if place == 0 else lines
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(f"{line}{end}" for line in lines).encode(file.encoding))
    return str(folder)


def edited(number: int, line: str) -> Edit:
    return lambda lines: [*lines[:number], line, *lines[number + 1 :]]


@pytest.mark.slow
def test_real_transfer_files_have_their_known_classes(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table: list[tuple[TransferTask, dict[int, int], int | None, int | None]] = [
        *(("mr", {0: 5331, 1: 5331}, None, None), ("cr", {0: 1368, 1: 2407}, None, None)),
        *(("subj", {0: 5000, 1: 5000}, None, None), ("mpqa", {0: 7294, 1: 3312}, None, None)),
        ("sst2", {0: 29780, 1: 37569}, 872, 1821),
        ("trec", {0: 86, 1: 1162, 2: 1250, 3: 1223, 4: 835, 5: 896}, None, 500),
        ("mrpc", {0: 1323, 1: 2753}, None, 1725),
    ]
    for task, train, dev, test in table:
        data = str(shared / "data")
        found, tested = load_transfer_set(task, data), load_test_part(task, data)
        assert dict(enumerate(np.bincount(found.train.labels))) == train
        assert (found.dev and len(found.dev.labels)) == dev
        assert (tested and len(tested.labels)) == test
        lengths = [len(sentence.split()) for sentence in found.train.first]
        assert lengths == sorted(lengths)
        assert found.train.first.count("") == {"cr": 4, "mpqa": 3}.get(task, 0)
        assert not caplog.records
        assert missing_transfer_sets(data) == []


def test_trec_is_read_despite_a_byte_that_is_no_utf8(shared: Path) -> None:
    train = load_transfer_set("trec", str(shared / "data")).train
    assert sum("sisterðcity" in sentence for sentence in train.first) == 1


@pytest.mark.parametrize("task", ["cr", "trec", "mrpc"])
def test_files_of_each_kind_are_read(tmp_path, task, caplog) -> None:
    """Line ends and blanks do not matter; another tokenisation is told, a missing line refused."""
    unix = load_transfer_set(task, write(tmp_path / "unix", task))
    assert "not the known sentences, only as many" in caplog.text
    windows = load_transfer_set(task, write(tmp_path / "windows", task, end="\r\n"))
    assert unix.sha256 == windows.sha256
    assert unix.train.first[0] == " ".join(unix.train.first[0].split())
    path, count = TRAIN_FILES[task][0].path, manifest()[TRAIN_FILES[task][0].path].records
    data = write(tmp_path / "short", task, lambda lines: lines[:-1])
    with pytest.raises(DataError, match=rf"{path}: expected {count} records, found {count - 1}"):
        load_transfer_set(task, data)


def test_sentences_are_sorted_by_words_then_class_then_file(tmp_path: Path) -> None:
    load = load_transfer_set("sst2", write(tmp_path, "sst2", edited(5, "last by class\t1")))
    assert load.train.first[0] == "last by class"
    edits = edited(7, "0\t7\t8\tHe said 7 .\tNo .")
    pairs = load_transfer_set("mrpc", write(tmp_path, "mrpc", edits)).train
    assert (pairs.first[0], pairs.labels[0]) == ("He said 7 .", 0)
    assert pairs.second is not None
    assert pairs.second[0] == "No ."
    assert 'He said 0 "yes .' in pairs.first
    blank = load_transfer_set("cr", write(tmp_path, "cr", edited(2406, ""))).train
    assert (blank.first[0], blank.labels[0], len(blank.labels)) == ("", 1, 3775)
    both = load_transfer_set("mr", write(tmp_path, "mr")).train
    assert both.labels.tolist() == [0] * 5331 + [1] * 5331
    assert both.first[:2] == ("a fine 0 film", "a fine 1 film")


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    table: list[tuple[TransferTask, int, str, str]] = [
        ("sst2", 3, "no class", "sentiment-train, line 4: 1 columns, expected 2"),
        ("sst2", 3, "fine\t2", "sentiment-train, line 4: class '2' is none of 0, 1"),
        ("sst2", 3, "\t1", "sentiment-train, line 4: the sentence is empty"),
        ("trec", 0, "HUMAN:ind Who ?", "train_5500.label, line 1: class 'HUMAN' is none of ABBR"),
        ("trec", 0, "", "train_5500.label, line 1: class '' is none of ABBR"),
        ("trec", 9, "HUM:ind ", "train_5500.label, line 10: the sentence is empty"),
        ("mrpc", 2, "1\t7\t8\tA .", "paraphrase_train.txt, line 3: 4 columns, expected 5"),
        ("mrpc", 2, "1\t7\t8\tA .\t", "paraphrase_train.txt, line 3: the second sentence is empty"),
    ]
    for task, number, line, message in table:
        data = write(tmp_path, task, edited(number, line))
        with pytest.raises(DataError, match=message):
            load_transfer_set(task, data)
    data, path = write(tmp_path, "sst2"), tmp_path / TRAIN_FILES["sst2"][0].path
    path.write_bytes(path.read_bytes().replace(b"fine 3 ", b"f\xffne 3 "))
    with pytest.raises(DataError, match=r"sentiment-train, line 4: byte 0xff is not UTF-8"):
        load_transfer_set("sst2", data)


def test_training_opens_no_test_file(tmp_path: Path) -> None:
    for task in TRANSFER_TASKS:
        data = write(tmp_path, task)
        whole = load_transfer_set(task, data)
        if task in FOLDED:
            assert load_test_part(task, data) is None
            continue
        (tmp_path / (path := TEST_FILES[task][0].path)).unlink()
        assert load_transfer_set(task, data).sha256 == whole.sha256
        with pytest.raises(DataError, match=rf"{path}: {task} is read from this file"):
            load_test_part(task, data)
    # What is missing of training is named before the start.
    assert missing_transfer_sets(str(tmp_path)) == []
    (tmp_path / DEV_FILES["sst2"][0].path).unlink()
    with pytest.raises(DataError, match=r"sentiment-dev: sst2 is read from this file"):
        missing_transfer_sets(str(tmp_path))


def test_parts_of_built_in_sets_share_no_sentence() -> None:
    for task in TRANSFER_TASKS:
        known, test = load_transfer_set(task, "builtin"), load_test_part(task, "builtin")
        parts = [part for part in (known.train, known.dev, test) if part is not None]
        assert len(parts) == 1 + (task == "sst2") + (task not in FOLDED)
        assert sum(len(part.labels) for part in parts) == len({s for p in parts for s in p.first})
        for part in parts:
            assert len(set(np.bincount(part.labels))) == 1
            assert (part.second is not None) == (task == "mrpc")
        assert builtin_rows.__wrapped__(task, "train") == builtin_rows(task, "train")
        assert not known.train.labels.flags.writeable
