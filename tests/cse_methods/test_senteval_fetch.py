import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cse_methods.data.check import FileCheck, check_files, check_folder
from cse_methods.data.corpora import KNOWN
from cse_methods.data.manifest import manifest
from cse_methods.data.senteval import ARCHIVE, fetch_corpus, fetch_senteval, missing_senteval
from cse_methods.data.source import HubFile
from cse_methods.errors import DataError

Place = Callable[[HubFile], Path]
CR = "downstream/CR/custrev.pos"
MR = "downstream/MR/rt-polarity.neg"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(kept_from_hub: Place, counted_data: Path) -> Path:
    """The hub's archive with all files, as the SimCSE group publishes it."""
    path = kept_from_hub(ARCHIVE)
    with tarfile.open(path, "w") as tar:
        tar.add(counted_data / "downstream", arcname=".")
    return path


def states(folder: Path) -> set[str]:
    return {check.state for check in check_files(folder)}


def test_a_fetch_replaces_missing_and_short_files_only(archive: Path, tmp_path: Path) -> None:
    folder = fetch_senteval(tmp_path / "own")
    (folder / MR).write_text("mine\n" * manifest()[MR].lines)
    (folder / CR).write_text("half")
    (folder / "downstream/TREC/TREC_10.label").unlink()
    fetch_senteval(folder)
    assert states(folder) == {"other checksum"}
    assert (folder / MR).read_text().startswith("mine"), "a right count is kept"
    assert not (folder / ".partial").exists()


def test_no_member_lands_outside_the_folder(kept_from_hub: Place, tmp_path: Path) -> None:
    def member(name: str, size: int = 0) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.size = size
        return info

    link = member("CR/custrev.pos")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"

    with tarfile.open(kept_from_hub(ARCHIVE), "w") as tar, Path(__file__).open("rb") as content:
        tar.addfile(member("../../evil"))
        tar.addfile(member(f"/{tmp_path}/evil"))
        tar.addfile(link)
        tar.addfile(member("../../CR/custrev.pos", size=10), content)
        tar.addfile(member("again/CR/custrev.pos", size=20), content)
    folder = fetch_senteval(tmp_path / "own")
    files = [path.relative_to(tmp_path / "own") for path in folder.rglob("*") if path.is_file()]
    assert sorted(map(str, files)) == [".lock", CR]
    assert (folder / CR).read_bytes() == Path(__file__).read_bytes()[:10]
    assert not list(tmp_path.glob("**/evil"))
    tarfile.open(kept_from_hub(ARCHIVE), "w").close()  # what the archive lacks stays missing
    assert states(fetch_senteval(tmp_path / "other")) == {"missing"}


def test_a_damaged_archive_or_a_folder_that_cannot_be_made_is_named(archive, tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write to .*file: File exists; free space there"):
        fetch_senteval(tmp_path / "file")
    content = archive.read_bytes()
    for damaged in (b"<html>", content[: len(content) // 2]):
        archive.write_bytes(damaged)
        with pytest.raises(
            DataError, match=r"senteval\.tar: incomplete tar file \(.*delete it and"
        ):
            fetch_senteval(tmp_path / "own")
        assert states(tmp_path / "own") <= {"missing", "other checksum"}, "no half-written file"


def test_offline_the_archive_is_missing_and_a_fetch_is_refused(
    kept_from_hub: Place, tmp_path: Path
) -> None:
    kept_from_hub(KNOWN["wiki1m"].hub[0])
    assert missing_senteval() == ["SentEval's files (princeton-nlp/datasets-for-simcse)"]
    with pytest.raises(DataError, match=r"cannot fetch senteval\.tar of princeton-nlp/datasets"):
        fetch_senteval(tmp_path / "own")


def test_the_corpus_is_fetched_unless_it_is_complete(kept_from_hub: Place, tmp_path: Path) -> None:
    kept_from_hub(KNOWN["wiki1m"].hub[0]).write_text("One.\n" * 1_000_000)
    file = tmp_path / "corpus" / "wiki1m.txt"
    file.parent.mkdir()
    file.write_text("One.\n")
    assert fetch_corpus(tmp_path) == file
    assert len(file.read_bytes()) == 5_000_000
    other = file.rename(file.with_name(KNOWN["wiki1m"].local_names[-1]))
    assert fetch_corpus(tmp_path) == other  # a whole one is kept under its other name
    assert list(file.parent.iterdir()) == [other]


GOLD = "downstream/STS/STS15-en-test/STS.gs.images.txt"
INPUT = "downstream/STS/STS12-en-test/STS.input.MSRpar.txt"


def checks(folder: Path) -> dict[str, FileCheck]:
    return {check.path: check for check in check_folder(folder)}


def test_a_check_reports_other_checksums_and_missing_files(counted_data: Path) -> None:
    found = checks(counted_data)
    assert {check.state for check in found.values()} == {"other checksum"}
    assert not any(check.lacking for check in found.values())
    assert found[INPUT].expected == manifest()[INPUT].sha256[:12]
    assert found[INPUT].found != found[INPUT].expected
    (counted_data / GOLD).unlink()
    expected = FileCheck(GOLD, "missing", "1500 lines, 750 scored", "")
    assert checks(counted_data)[GOLD] == expected
    assert expected.lacking


def test_a_check_reports_wrong_counts_and_the_corpora(counted_data: Path) -> None:
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
    (counted_data / "corpus").mkdir()
    (counted_data / "corpus" / "wiki1m.txt").write_text("One.\n")
    (counted_data / "corpus" / "own.txt").write_text("One.\nTwo.")
    *_, own, known = check_folder(counted_data)
    assert own == FileCheck("corpus/own.txt", "ok", "2 lines", "2 lines")
    assert known == FileCheck("corpus/wiki1m.txt", "wrong count", "1000000 lines", "1 lines")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(DataError, match=rf"{path.name}: no such folder; name one in the Sent"):
            check_folder(path)
