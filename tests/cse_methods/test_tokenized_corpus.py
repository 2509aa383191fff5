"""The word pieces of a corpus come from a file that is cut once, and are those of the tokenizer."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from cse_methods.data.corpora import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.files.cache import cache_files
from cse_methods.files.text import sha256_of
from cse_methods.training.student import Batch, Student
from cse_methods.training.tokenized_corpus import TokenizedCorpus

SENTENCES = ("The nurse thanks the pilot.", "Rain!", "A small dog runs over the green grass.", "…")
PROMPT = 'This one : " {} " means [MASK] .'
EVERY = np.array([2, 0, 3, 1, 0])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert))


def tokenized(encoder: Encoder, *, max_length: int = 12) -> TokenizedCorpus:
    corpus = Corpus("own", SENTENCES, sha256_of(SENTENCES))
    return TokenizedCorpus(encoder, corpus, max_length=max_length)


def test_rows_are_those_of_the_tokenizer(encoder: Encoder) -> None:
    texts = [SENTENCES[i] for i in EVERY]
    for template, max_length in (
        *((encoder.template, length) for length in (7, 12, 64)),
        *((encoder.prompt(PROMPT), length) for length in (20, 64)),
    ):
        expected = encoder.pieces(texts, template, max_length=max_length)
        for _ in range(2):  # written, then read
            assert tokenized(encoder, max_length=max_length).rows(EVERY, template) == expected


def test_it_is_cut_once_for_all_that_it_depends_on(encoder: Encoder, tiny_roberta: Path) -> None:
    expected = tokenized(encoder).rows(EVERY, encoder.template)
    assert tokenized(encoder).rows(EVERY, encoder.template) == expected
    (file,) = cache_files("tokenized")
    for damage in (b"", file.read_bytes()[:-9], b"\0" * 8):  # a damaged file is cut again
        file.write_bytes(damage)
        assert tokenized(encoder).rows(EVERY, encoder.template) == expected
    tokenized(encoder, max_length=9).rows(EVERY, encoder.template)
    other = load_encoder(str(tiny_roberta))
    tokenized(other).rows(EVERY, other.template)
    assert len(cache_files("tokenized")) == 3


@pytest.mark.parametrize("whole", [False, True])
def test_texts_beside_a_corpus_are_kept_as_its_own(encoder: Encoder, whole: bool) -> None:
    """Cut at the training row's length, or where the model's positions end."""
    long = " ".join(SENTENCES * 3)
    texts = Corpus("beside", [long, *SENTENCES], sha256_of([long, *SENTENCES]))
    student = Student(encoder, nn.Identity(), max_length=7)
    anew = student.pieces_at(EVERY, texts, encoder.template, whole=whole)
    assert anew == encoder.pieces(
        [texts.sentences[row] for row in EVERY], encoder.template, max_length=64 if whole else 7
    )
    student.tokenized = tokenized(encoder, max_length=7)
    assert student.pieces_at(EVERY, texts, encoder.template, whole=whole) == anew
    assert len(cache_files("tokenized")) == 1


def test_a_frozen_model_reads_the_batches_from_a_file_too(
    encoder: Encoder, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, other = Student(encoder, nn.Identity(), max_length=9), load_encoder(str(tiny_roberta))
    batch = Batch([SENTENCES[i] for i in EVERY], EVERY)
    expected = student.pieces_of(batch, other.template, encoder=other)
    assert expected == other.pieces(batch.sentences, other.template, max_length=9)
    student.tokenized = tokenized(encoder, max_length=9)
    student.pieces_of(batch, other.template, encoder=other)
    monkeypatch.setattr(Encoder, "pieces", None)  # cut once, whatever the number of steps
    assert student.pieces_of(batch, other.template, encoder=other) == expected
