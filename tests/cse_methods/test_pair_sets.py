import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.manifest import manifest
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.shared_sentences import group_by_sentence, known_groups, number_by_appearance
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.pairs import KNOWN_SHA256, TEST_PAIR_FILES, load_pair_set
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


def test_real_test_files_have_their_known_checksums(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for task in STS_TASKS:
        pairs = load_pair_set(task, str(shared / "data"))
        assert (pairs.task, pairs.source, pairs.sha256) == (task, "senteval", KNOWN_SHA256[task])
        assert len(pairs.first) == len(pairs.second) == len(pairs.gold) == COUNTS[task]
        assert sum(pairs.subsets.values()) == COUNTS[task]
        assert (pairs.gold.dtype, pairs.gold.max()) == (np.float64, 5)
        assert not caplog.records


def test_pairs_are_read_in_order_with_any_line_ends(tmp_path, caplog) -> None:
    pairs = load_pair_set("sts16", str(write_task(tmp_path / "unix", STS16)))
    names = ["answer-answer", "headlines", "plagiarism", "postediting", "question-question"]
    assert dict(pairs.subsets) == dict(zip(names, (254, 249, 230, 244, 209), strict=True))
    numbers = [int(sentence.split()[1]) for sentence in pairs.first]
    assert [sentence.replace("Right", "Left") for sentence in pairs.second] == list(pairs.first)
    assert [(n - 1) % 51 / 10 for n in numbers] == list(pairs.gold)
    start = 0
    for size in pairs.subsets.values():
        assert numbers[start : start + size] == sorted(numbers[start : start + size])
        start += size
    assert pairs.sha256 != KNOWN_SHA256["sts16"]
    assert "not the known pairs of sts16, only as many" in caplog.text
    windows = load_pair_set("sts16", str(write_task(tmp_path / "windows", STS16, end="\r\n")))
    assert pairs.sha256 == windows.sha256


def test_subsets_that_senteval_lacks_are_ignored(tmp_path: Path) -> None:
    write_task(tmp_path, STS13)
    write_subset(tmp_path, f"{STS13}/STS.gs.SMT.txt", ["1.0"] * 750)
    assert list(load_pair_set("sts13", str(tmp_path)).subsets) == ["FNWN", "OnWN", "headlines"]


def test_data_of_the_hub_is_read_from_a_folder_of_the_cache(
    tmp_path, monkeypatch, kept_from_hub
) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    local = load_pair_set("sts13", str(write_task(tmp_path / "local", STS13)))
    with tarfile.open(kept_from_hub(ARCHIVE), "w") as tar:
        tar.add(tmp_path / "local" / "downstream", arcname=".")
    assert load_pair_set("sts13", "hub").sha256 == local.sha256
    with pytest.raises(DataError, match=r"SICK_test_annotated\.txt: sickr is"):
        load_pair_set("sickr", "hub")


def test_built_in_test_pairs_share_no_sentence_with_training_data() -> None:
    seen, hashes = set(builtin_corpus()), set()
    for dev in (load_dev_set("stsb", "builtin"), load_dev_set("sickr", "builtin")):
        seen |= {*dev.first, *dev.second}
    for task in STS_TASKS:
        pairs = load_pair_set(task, "builtin")
        assert (pairs.source, dict(pairs.subsets)) == ("builtin", {"contrast": 48, "graded": 72})
        assert len(set(zip(pairs.first, pairs.second, strict=True))) == len(pairs.gold) == 120
        assert pairs.gold.min() >= (1 if task == "sickr" else 0)
        assert len(set(pairs.gold)) > 4
        assert not seen & {*pairs.first, *pairs.second}
        hashes.add(pairs.sha256)
        with pytest.raises(ValueError, match="read-only"):
            pairs.gold[0] = 3
    assert len(hashes) == 7
    with pytest.raises(DataError, match=r"no test pairs 'sts17'; there are: sts12, .*, sickr"):
        load_pair_set("sts17", "builtin")


Edit = Callable[[list[bytes]], list[bytes]]
GOLDS = "downstream/STS/STS13-en-test/STS.gs.{}.txt"
INPUTS = GOLDS.replace(".gs.", ".input.")
STSB, SICK = (TEST_PAIR_FILES[task].path for task in ("stsb", "sickr"))
SUBSETS = {"FNWN": 189, "OnWN": 561, "headlines": 750}
CONTENTS: dict[str, list[bytes]] = {
    STSB: [b"a\tb\tc\td\t2.5\tA man .\tA dog .\n"] * 1379,
    SICK: [
        b"a\tb\tc\td\te\r\n",
        *(b"%d\tA man .\tA dog .\t2.5\tNEUTRAL\r\n" % n for n in range(4927)),
    ],
    **{INPUTS.format(n): [b"A man .\tA dog .\n"] * count for n, count in SUBSETS.items()},
    **{GOLDS.format(n): [b"2.5\n"] * count for n, count in SUBSETS.items()},
}
"""STS13, STS-B test and SICK test with made-up pairs."""


def line(number: int, content: bytes) -> Edit:
    """Puts another line in the place of one; the first is 1."""
    return lambda lines: [*lines[: number - 1], content + b"\n", *lines[number:]]


def shorter(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


COLUMNS = "columns, expected {}, separated by tabs"
OF_INPUT = r"STS\.input\.headlines\.txt, line 7: "
DAMAGED: list[tuple[str, str, Edit, str]] = [
    (
        "sts13",
        INPUTS.format("OnWN"),
        shorter,
        "561 lines, but STS.input.OnWN.txt beside it has 560",
    ),
    ("sts13", GOLDS.format("OnWN"), shorter, "560 lines, but STS.input.OnWN.txt beside it has 561"),
    ("stsb", STSB, shorter, r"sts-test\.csv: expected 1379 records, found 1378;"),
    *(
        ("sickr", SICK, edit, r"annotated\.txt: expected 4927 records, found 4926;")
        for edit in (shorter, lambda lines: lines[1:])  # without its header, too
    ),
    # A score that is gone is an unscored pair too many.
    ("sts13", GOLDS.format("FNWN"), line(3, b""), r"FNWN\.txt: expected 189 records, found 188;"),
    *(
        (
            *("sts13", GOLDS.format("FNWN"), line(3, score.encode())),
            rf"STS\.gs\.FNWN\.txt, line 3: gold score '{score}' is not a number from 0 to 5;",
        )
        for score in ("5.1", "-1", "nan", "inf", "high", "1,5")
    ),
    (
        *("sickr", SICK, line(2, b"1\tA man .\tA dog .\t0.9\tNEUTRAL")),
        r"annotated\.txt, line 2: gold score '0.9' is not a number from 1",
    ),
    *(
        ("sts13", INPUTS.format("headlines"), line(7, content), OF_INPUT + problem)
        for content, problem in (
            *((blank, "1 " + COLUMNS.format(2)) for blank in (b"A man .", b"")),
            *((one, "a sentence of the pair is empty") for one in (b" \tA man .", b"A man .\t")),
            (b"A man .\tA caf\xe9 .", "byte 0xe9 is not UTF-8"),
        )
    ),
    ("stsb", STSB, line(9, b"one\ttwo"), f", line 9: 2 {COLUMNS.format(7)}"),
    ("sickr", SICK, line(9, b"one\ttwo"), f", line 9: 2 {COLUMNS.format(5)}"),
]


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    for path, lines in CONTENTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"".join(lines))
    for task in ("sts13", "stsb", "sickr"):
        assert len(load_pair_set(task, str(tmp_path)).gold) == COUNTS[task]
    for task, path, edit, match in DAMAGED:
        (tmp_path / path).write_bytes(b"".join(edit(CONTENTS[path])))
        with pytest.raises(DataError, match=match):
            load_pair_set(task, str(tmp_path))
        (tmp_path / path).write_bytes(b"".join(CONTENTS[path]))
    for path, content in ((INPUTS, b"no pair\n"), (GOLDS, b"\n")):  # an unscored line is no pair
        with (tmp_path / path.format("FNWN")).open("ab") as file:
            file.write(content)
    assert load_pair_set("sts13", str(tmp_path)).subsets["FNWN"] == 189
    for path in (INPUTS, GOLDS):
        missing = tmp_path / path.format("OnWN")
        kept = missing.rename(missing.with_suffix(".kept"))
        match = f"{missing.name}: sts13 is read from this file, which is missing; complete"
        with pytest.raises(DataError, match=match):
            load_pair_set("sts13", str(tmp_path))
        kept.rename(missing)


PAIRS = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=30)


@given(PAIRS)
def test_groups_are_the_connected_components_of_shared_sentences(pairs) -> None:
    groups = group_by_sentence([a for a, _ in pairs], [b for _, b in pairs])
    merged: list[set[str]] = []  # sentences, pair by pair
    for pair in pairs:
        touched = [sentences for sentences in merged if sentences & set(pair)]
        merged = [sentences for sentences in merged if sentences not in touched]
        merged.append(set(pair).union(*touched))
    place = [next(i for i, sentences in enumerate(merged) if a in sentences) for a, _ in pairs]
    assert np.array_equal(groups, number_by_appearance(np.array(place, dtype=np.intp)))


@pytest.mark.parametrize("source", ["builtin", "senteval"])
def test_the_table_has_the_groups_of_the_test_sets(source, request) -> None:
    data = "builtin" if source == "builtin" else str(request.getfixturevalue("shared") / "data")
    for task in STS_TASKS:
        pairs = load_pair_set(task, data)
        groups = known_groups(pairs.gold)
        assert groups is not None
        assert np.array_equal(groups, group_by_sentence(pairs.first, pairs.second)), task
    assert known_groups(np.arange(120.0)) is None  # another gold is not known
