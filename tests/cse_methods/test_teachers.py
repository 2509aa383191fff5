import functools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from started_papers import BUILTIN, ON_SICK
from torch import Tensor

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.encoders.loading import load_encoder
from cse_methods.registry import get_method
from cse_methods.training.neighbours import MOST_NEIGHBOURS, nearest_sentences, with_neighbours
from cse_methods.training.teachers import TeacherSpec, teacher_vectors, weigh_similarities

CORPUS = Corpus(
    "three", ["The nurse thanks the pilot.", "Rain!", "The nurse thanks the pilot."] * 20, "a1"
)


def files(cache: Path) -> list[str]:
    return sorted(file.suffix for file in cache.iterdir())


@pytest.fixture
def teacher(tiny_bert: Path) -> TeacherSpec:
    return TeacherSpec(model=str(tiny_bert))


def test_cached_vectors_are_the_teacher_s(tiny_folder, tmp_path, monkeypatch) -> None:
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


def test_damaged_and_unfinished_files_are_written_anew(teacher, tmp_path) -> None:
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


@functools.cache
def corpus() -> Corpus:
    return load_corpus([CorpusSpec(name="builtin", first=30)], "builtin")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    return tmp_path


def test_neighbours_are_the_nearest_by_the_teacher_s_cosines(tiny_bert, cache, monkeypatch) -> None:
    vectors = load_encoder(str(tiny_bert)).encode(corpus().sentences, max_length=16)
    unit = torch.nn.functional.normalize(vectors, dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(-2)
    best = cosines.sort(dim=1, descending=True).values[:, :MOST_NEIGHBOURS]
    for at_once in (1, 70, 2**26):
        monkeypatch.setenv("CSE_CACHE", str(cache / str(at_once)))
        monkeypatch.setattr("cse_methods.training.neighbours._COSINES_AT_ONCE", at_once)
        nearest = nearest_sentences(TeacherSpec(model=str(tiny_bert)), corpus(), max_length=16)
        assert nearest.shape == (30, MOST_NEIGHBOURS)
        found = cosines.gather(1, torch.from_numpy(nearest.astype(np.int64)))
        torch.testing.assert_close(found, best, rtol=0, atol=1e-5)


def test_a_batch_has_each_drawn_sentence_and_its_neighbours() -> None:
    nearest = np.array([[1, 2], [0, 2], [1, 0], [4, 5], [3, 5], [3, 4]], dtype=np.int32)
    assert with_neighbours(np.array([3, 0, 5, 1]), nearest).tolist() == [3, 4, 5, 0]
    assert with_neighbours(np.array([1, 0, 3, 4]), nearest[:, :1]).tolist() == [1, 0, 3, 4]


def test_rankcse_trains_on_neighbours(tiny_bert, cache, new_run, monkeypatch) -> None:
    batches = []

    def recorded(vectors: Any, weights: Any, rows: NDArray[np.int64]) -> Tensor:
        batches.append(rows.tolist())
        return weigh_similarities(vectors, weights, rows)

    monkeypatch.setattr("cse_methods.papers.rankcse.weigh_similarities", recorded)
    corpora = {"corpus": {"name": "builtin", "first": 30}, "teachers": [str(tiny_bert)]}
    steps = {"max_length": 16, "batch_size": 8, "max_steps": 2, "neighbours": 3}
    settings = BUILTIN | {"backbone": str(tiny_bert), "dev": ON_SICK} | corpora | steps
    method = get_method("rankcse")
    method.train(method.config.model_validate(settings), new_run(seed=5))
    nearest = nearest_sentences(TeacherSpec(model=str(tiny_bert)), corpus(), max_length=16)
    order = np.random.default_rng([5, 0]).permutation(30)
    expected = [with_neighbours(order[place : place + 8], nearest[:, :3]) for place in (0, 8)]
    assert batches == [batch.tolist() for batch in expected]
