from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from cse_methods.errors import DataError, TrainingError
from cse_methods.files.cache import cache_folder, written_once


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "words" / "a1.txt"


def read(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def test_the_folder_of_the_cache_may_have_a_tilde_or_a_variable(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAB", "lab")
    monkeypatch.setenv("CSE_CACHE", "~/${LAB}/cache")
    assert cache_folder("teachers") == tmp_path / "lab" / "cache" / "teachers"
    monkeypatch.setenv("CSE_CACHE", "${LACKING}/cache")
    with pytest.raises(DataError, match="LACKING"):
        cache_folder("teachers")


class Writer:
    """Writes a word, and counts how often."""

    def __init__(self, word: bytes = b"word") -> None:
        self.word = word
        self.calls = 0

    def __call__(self, stream: IO[bytes]) -> None:
        self.calls += 1
        stream.write(self.word)


def test_the_first_caller_writes_and_the_others_read(file: Path) -> None:
    write = Writer()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: written_once(file, read=read, write=write), range(8)))
    assert found == ["word"] * 8
    assert write.calls == 1


def test_a_failed_write_leaves_no_file(file: Path) -> None:
    def fail(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        written_once(file, read=read, write=fail)
    assert [left.suffix for left in file.parent.iterdir()] == [".lock"]
    assert written_once(file, read=read, write=Writer()) == "word"


def test_an_error_of_storing_names_the_content_and_the_ways_out(file: Path) -> None:
    def fill(stream: IO[bytes]) -> None:
        raise OSError(28, "No space left on device")

    told = f"cannot store the words in {file.parent}: No space left on device; .*CSE_CACHE"
    with pytest.raises(TrainingError, match=told):
        written_once(file, read=read, write=fill, what="the words", error=TrainingError)
