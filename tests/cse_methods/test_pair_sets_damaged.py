"""Damaged files of test pairs: each kind of damage, and the file and line that are named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.pairs import TEST_PAIR_FILES, load_pair_set

Edit = Callable[[list[bytes]], list[bytes]]
GOLDS = "downstream/STS/STS13-en-test/STS.gs.{}.txt"
INPUTS = GOLDS.replace(".gs.", ".input.")
SUBSETS = {"FNWN": 189, "OnWN": 561, "headlines": 750}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """STS13, STS-B test and SICK test with made-up pairs."""
    for name, count in SUBSETS.items():
        write(tmp_path / INPUTS.format(name), ["A man .\tA dog ."] * count)
        write(tmp_path / GOLDS.format(name), ["2.5"] * count)
    write(
        tmp_path / TEST_PAIR_FILES["stsb"].path,
        ["\t".join("abcd") + "\t2.5\tA man .\tA dog ."] * 1379,
    )
    rows = [f"{number}\tA man .\tA dog .\t2.5\tNEUTRAL" for number in range(4927)]
    write(tmp_path / TEST_PAIR_FILES["sickr"].path, ["\t".join("abcde"), *rows], end="\r\n")
    return tmp_path


def write(path: Path, lines: list[str], *, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())


def edit(path: Path, change: Edit) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))


def line(number: int, content: bytes) -> Edit:
    """Puts another line in the place of one; the first is 1."""
    return lambda lines: [*lines[: number - 1], content + b"\n", *lines[number:]]


def refuses(folder: Path, task: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        load_pair_set(task, str(folder))


def test_before_the_damage(folder: Path) -> None:
    for task, count in (("sts13", 1500), ("stsb", 1379), ("sickr", 4927)):
        assert len(load_pair_set(task, str(folder)).gold) == count


@pytest.mark.parametrize("path", [INPUTS, GOLDS])
def test_a_missing_subset(folder: Path, path: str) -> None:
    missing = folder / path.format("OnWN")
    missing.unlink()
    refuses(folder, "sts13", f"{missing.name}: no such file, and sts13 is read from it; complete")


@pytest.mark.parametrize("path", [INPUTS, GOLDS])
def test_input_and_gold_of_other_lengths(folder: Path, path: str) -> None:
    edit(folder / path.format("OnWN"), lambda lines: lines[:-1])
    counts = "561 lines, but STS.input.OnWN.txt beside it has 560"
    if path == GOLDS:
        counts = "560 lines, but STS.input.OnWN.txt beside it has 561"
    refuses(folder, "sts13", rf"STS\.gs\.OnWN\.txt: {counts};")


@pytest.mark.parametrize(("task", "known"), [("stsb", 1379), ("sickr", 4927)])
def test_a_file_cut_short(folder: Path, task: str, known: int) -> None:
    path = folder / TEST_PAIR_FILES[task].path
    edit(path, lambda lines: lines[:-1])
    refuses(folder, task, f"{path.name}: expected {known} records, found {known - 1};")


def test_a_score_that_is_gone_is_an_unscored_pair_too_many(folder: Path) -> None:
    edit(folder / GOLDS.format("FNWN"), line(3, b""))
    refuses(folder, "sts13", r"STS\.gs\.FNWN\.txt: expected 189 records, found 188;")


def test_a_score_off_the_scale(folder: Path) -> None:
    for score in ("5.1", "-1", "nan", "inf", "high", "1,5"):
        edit(folder / GOLDS.format("FNWN"), line(3, score.encode()))
        match = rf"STS\.gs\.FNWN\.txt, line 3: gold score '{score}' is not a number from 0 to 5;"
        refuses(folder, "sts13", match)


def test_the_scale_of_sick_begins_at_one(folder: Path) -> None:
    edit(folder / TEST_PAIR_FILES["sickr"].path, line(2, b"1\tA man .\tA dog .\t0.9\tNEUTRAL"))
    refuses(folder, "sickr", r"annotated\.txt, line 2: gold score '0.9' is not a number from 1")


def test_a_scored_line_that_is_no_pair(folder: Path) -> None:
    table: list[tuple[bytes, str]] = [
        (b"A man .", "1 columns, expected 2, separated by tabs"),
        (b"", "1 columns, expected 2, separated by tabs"),
        (b" \tA man .", "a sentence of the pair is empty"),
        (b"A man .\t", "a sentence of the pair is empty"),
        (b"A man .\tA caf\xe9 .", "byte 0xe9 is not UTF-8"),
    ]
    for content, problem in table:
        edit(folder / INPUTS.format("headlines"), line(7, content))
        refuses(folder, "sts13", rf"STS\.input\.headlines\.txt, line 7: {problem}")


def test_a_row_of_too_few_columns(folder: Path) -> None:
    table: list[tuple[str, int]] = [("stsb", 7), ("sickr", 5)]
    for task, columns in table:
        edit(folder / TEST_PAIR_FILES[task].path, line(9, b"one\ttwo"))
        refuses(folder, task, f", line 9: 2 columns, expected {columns}, separated by tabs")


def test_sick_without_its_header(folder: Path) -> None:
    edit(folder / TEST_PAIR_FILES["sickr"].path, lambda lines: lines[1:])
    refuses(folder, "sickr", r"annotated\.txt: expected 4927 records, found 4926;")


def test_an_unscored_line_need_not_be_a_pair(folder: Path) -> None:
    for path, content in ((INPUTS, b"no pair\n"), (GOLDS, b"\n")):
        edit(folder / path.format("FNWN"), lambda lines, content=content: [*lines, content])
    assert load_pair_set("sts13", str(folder)).subsets["FNWN"] == 189
