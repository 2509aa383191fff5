"""The teacher cache: right vectors, encoded once, whole or absent, whatever happens."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from cse_methods.data.corpora import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

CORPUS = Corpus(
    "three", ["The nurse thanks the pilot.", "Rain!", "The nurse thanks the pilot."] * 20, "a1"
)


def files(cache: Path) -> list[str]:
    return sorted(file.suffix for file in cache.iterdir())


@pytest.fixture
def teacher(tiny_bert: Path) -> TeacherSpec:
    return TeacherSpec(model=str(tiny_bert))


def test_vectors_are_the_teacher_s(tiny_folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    teacher, folder = TeacherSpec(model=str(tiny_folder), pooler="cls"), str(tiny_folder)
    vectors = teacher_vectors(teacher, CORPUS, max_length=6)
    assert len(list(tmp_path.glob("teachers/*.npy"))) == 1
    assert isinstance(vectors, np.memmap)
    assert (vectors.shape, vectors.dtype) == ((60, 32), np.float32)
    assert vectors.flags.c_contiguous
    assert not vectors.flags.writeable
    expected = load_encoder(folder, pooler="cls").encode(CORPUS.sentences, max_length=6)
    np.testing.assert_array_equal(vectors, expected.numpy())
    monkeypatch.setattr("cse_methods.training.teachers._CHUNK", 7)
    vectors = teacher_vectors(teacher, CORPUS, max_length=6, cache=tmp_path / "chunks")
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_each_dependency_has_its_own_file(teacher: TeacherSpec, tmp_path: Path) -> None:
    other_weights, renamed = (
        shutil.copytree(teacher.model, tmp_path / name) for name in ("other", "renamed")
    )
    cache, config = tmp_path / "cache", other_weights / "config.json"
    config.write_text(config.read_text() + "\n")
    asked = [
        (teacher, CORPUS, 16),
        (TeacherSpec(model=teacher.model, pooler="cls"), CORPUS, 16),
        (TeacherSpec(model=str(other_weights)), CORPUS, 16),
        (teacher, Corpus("three", CORPUS.sentences, "b2"), 16),
        (teacher, CORPUS, 8),
        (TeacherSpec(model=str(renamed), pooler="avg"), CORPUS, 16),  # the first one again
    ]
    for spec, corpus, max_length in asked:
        teacher_vectors(spec, corpus, max_length=max_length, cache=cache)
    assert files(cache).count(".npy") == 5


def test_a_damaged_file_and_what_a_killed_process_left_are_made_anew(teacher, tmp_path) -> None:
    def ask() -> None:
        teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)

    ask()
    (stored,) = tmp_path.glob("*.npy")
    whole = stored.read_bytes()
    for length in (0, 40, 1000):
        stored.write_bytes(whole[:length])
        ask()
        assert stored.read_bytes() == whole
    stored.with_suffix(".partial").write_bytes(whole * 2)
    stored.unlink()
    ask()
    assert stored.read_bytes() == whole
    assert files(tmp_path) == [".lock", ".npy"]
