"""The teacher cache: right vectors, encoded once, whole or absent, whatever happens."""

import logging
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from cse_methods.data.corpora import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

CORPUS = Corpus(
    "three", ["The nurse thanks the pilot.", "Rain!", "The nurse thanks the pilot."] * 20, "a1"
)


def encodings(caplog: pytest.LogCaptureFixture) -> int:
    """How often a corpus was begun."""
    return sum(": 0 of " in message for message in caplog.messages)


def files(cache: Path) -> list[str]:
    return sorted(file.suffix for file in cache.iterdir())


def test_a_bare_string_is_a_teacher() -> None:
    class Config(BaseModel):
        teachers: tuple[TeacherSpec, ...]

    config = Config.model_validate({"teachers": ["mini", {"model": "bert-base", "pooler": "cls"}]})
    assert config.teachers == (
        TeacherSpec(model="mini"),
        TeacherSpec(model="bert-base", pooler="cls"),
    )
    with pytest.raises(ValidationError, match="pooler"):
        TeacherSpec.model_validate({"model": "mini", "pooler": "max"})


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_vectors_are_the_teacher_s(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = str(request.getfixturevalue(family))
    teacher = TeacherSpec(model=folder, pooler="cls")
    vectors = teacher_vectors(teacher, CORPUS, max_length=6, cache=tmp_path)
    assert isinstance(vectors, np.memmap)
    assert vectors.shape == (60, 32)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert not vectors.flags.writeable
    expected = load_encoder(folder, pooler="cls").encode(CORPUS.sentences, max_length=6)
    np.testing.assert_array_equal(vectors, expected.numpy())


def test_a_corpus_of_several_chunks(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cse_methods.training.teachers._CHUNK", 7)
    teacher = TeacherSpec(model=str(tiny_bert))
    vectors = teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)
    expected = load_encoder(str(tiny_bert)).encode(CORPUS.sentences, max_length=16)
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_many_callers_one_encoding(
    tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cse_methods.training.teachers")
    teacher = TeacherSpec(model=str(tiny_bert))

    def ask(_: int) -> np.ndarray:
        return teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert encodings(caplog) == 1
    for vectors in found:
        np.testing.assert_array_equal(vectors, found[0])


def test_each_dependency_has_its_own_file(tiny_bert: Path, tmp_path: Path) -> None:
    cache, other_weights = tmp_path / "cache", shutil.copytree(tiny_bert, tmp_path / "other")
    config = other_weights / "config.json"
    config.write_text(config.read_text() + "\n")
    teacher, name = TeacherSpec(model=str(tiny_bert)), str(tiny_bert)
    renamed = shutil.copytree(tiny_bert, tmp_path / "renamed")
    asked = [
        (teacher, CORPUS, 16),
        (TeacherSpec(model=name, pooler="cls"), CORPUS, 16),
        (TeacherSpec(model=str(other_weights)), CORPUS, 16),
        (teacher, Corpus("three", CORPUS.sentences, "b2"), 16),
        (teacher, CORPUS, 8),
        (TeacherSpec(model=str(renamed), pooler="avg"), CORPUS, 16),  # the first one again
    ]
    for spec, corpus, max_length in asked:
        teacher_vectors(spec, corpus, max_length=max_length, cache=cache)
    assert files(cache).count(".npy") == 5


def test_the_cache_lies_where_cse_cache_says(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    teacher_vectors(TeacherSpec(model=str(tiny_bert)), CORPUS, max_length=16)
    assert len(list(tmp_path.glob("teachers/*.npy"))) == 1


def test_what_a_killed_process_left_is_overwritten(tiny_bert: Path, tmp_path: Path) -> None:
    teacher = TeacherSpec(model=str(tiny_bert))
    teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)
    (stored,) = tmp_path.glob("*.npy")
    whole = stored.read_bytes()
    stored.with_suffix(".partial").write_bytes(whole * 2)
    stored.unlink()
    teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)
    assert stored.read_bytes() == whole
    assert files(tmp_path) == [".lock", ".npy"]


@pytest.mark.parametrize("length", [0, 40, 1000])
def test_a_damaged_file_is_made_anew(tiny_bert: Path, tmp_path: Path, length: int) -> None:
    teacher = TeacherSpec(model=str(tiny_bert))
    teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)
    (stored,) = tmp_path.glob("*.npy")
    whole = stored.read_bytes()
    stored.write_bytes(whole[:length])
    teacher_vectors(teacher, CORPUS, max_length=16, cache=tmp_path)
    assert stored.read_bytes() == whole


def test_no_room_for_the_vectors(tiny_bert: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(
            BackboneError, match=rf"cannot store .+ in {tmp_path}: .+ set CSE_CACHE"
        ):
            teacher_vectors(
                TeacherSpec(model=str(tiny_bert)), CORPUS, max_length=16, cache=tmp_path
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == [".lock"]


def test_a_cache_that_cannot_be_a_folder(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    cache = tmp_path / "taken" / "cache"
    with pytest.raises(BackboneError, match=f"cannot store .+ in {cache}: Not a directory"):
        teacher_vectors(TeacherSpec(model=str(tiny_bert)), CORPUS, max_length=16, cache=cache)
