"""The check of a data folder: every way in which a file can differ from the known one."""

from pathlib import Path

import pytest

from cse_methods.data.check import FileCheck, check_folder
from cse_methods.data.manifest import manifest
from cse_methods.errors import DataError

GOLD = "downstream/STS/STS15-en-test/STS.gs.images.txt"
INPUT = "downstream/STS/STS12-en-test/STS.input.MSRpar.txt"


def checks(folder: Path) -> dict[str, FileCheck]:
    return {check.path: check for check in check_folder(folder)}


def test_the_real_folder_is_whole(shared: Path) -> None:
    found = check_folder(shared / "data")
    assert {check.state for check in found} == {"ok"}
    names = [check.path for check in found]
    corpora = ["corpus/wiki1m_slice.txt", "corpus/wiki_sentences.txt"]
    assert names == [*manifest(), *corpora]


def test_other_bytes_of_the_right_count_are_only_pointed_out(counted_data: Path) -> None:
    found = checks(counted_data)
    assert {check.state for check in found.values()} == {"other checksum"}
    assert not any(check.lacking for check in found.values())
    assert found[INPUT].expected == manifest()[INPUT].sha256[:12]
    assert found[INPUT].found != found[INPUT].expected


def test_a_wrong_count(counted_data: Path) -> None:
    scored = (counted_data / GOLD).read_bytes()
    whole = (counted_data / INPUT).read_bytes()
    one_less, both = scored.replace(b"2.5\n", b"\n", 1), "1500 lines, {} scored".format
    for path, content, expected, found in (
        (INPUT, whole[: whole[:-1].rindex(b"\n") + 1], "750 lines", "749 lines"),
        (INPUT, whole + b"2.5", "750 lines", "751 lines"),
        (INPUT, b"", "750 lines", "0 lines"),
        (GOLD, one_less, both(750), both(749)),
    ):
        (counted_data / path).write_bytes(content)
        assert checks(counted_data)[path] == FileCheck(path, "wrong count", expected, found)


def test_a_missing_file(counted_data: Path) -> None:
    (counted_data / GOLD).unlink()
    expected = FileCheck(GOLD, "missing", "1500 lines, 750 scored", "")
    assert checks(counted_data)[GOLD] == expected
    assert expected.lacking


def test_corpora_that_are_there_are_counted(counted_data: Path) -> None:
    (counted_data / "corpus").mkdir()
    (counted_data / "corpus" / "wiki1m.txt").write_text("One.\n")
    (counted_data / "corpus" / "own.txt").write_text("One.\nTwo.")
    *_, own, known = check_folder(counted_data)
    assert own == FileCheck("corpus/own.txt", "ok", "2 lines", "2 lines")
    assert known == FileCheck("corpus/wiki1m.txt", "wrong count", "1000000 lines", "1 lines")


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(DataError, match=rf"{path.name}: no such folder; name one in the Sent"):
            check_folder(path)
