import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.language.cutting import cut_sentences, load_tokenizer
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError
from cse_methods.files.cache import cache_files
from cse_methods.files.text import sha256_of
from cse_methods.training.student import Batch, Student
from cse_methods.training.tokenized_corpus import TokenizedCorpus

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)
TOKENS = ["a", "dog", "unbelievably", "fast,", "naïve", "–", "日本語", "🤷🏽", "x.y"]
WORDS = st.lists(st.sampled_from(TOKENS))


@pytest.fixture(scope="module")
def mini() -> Any:
    return load_tokenizer("mini")


@pytest.fixture(scope="module")
def both(mini: Any, tiny_roberta: Path) -> list[Any]:
    return [mini, load_tokenizer(str(tiny_roberta))]


def cut(tokenizer: Any, sentence: str, length: int) -> list[str]:
    return list(cut_sentences([sentence], tokenizer, length=length))


def squeezed(texts: Sequence[str]) -> str:
    return "".join("".join(text.split()) for text in texts)


def words(count: int) -> str:
    return " ".join(["dog"] * count)


def test_long_sentences_are_cut_at_words(mini: Any) -> None:
    # One piece a word; [CLS] and [SEP] leave room for three of five.
    assert cut(mini, "the dog and  the man", 5) == ["the dog and", "the man"]
    for count, expected in ((1, [1]), (30, [30]), (31, [30, 1]), (90, [30] * 3)):
        assert [len(one.split()) for one in cut(mini, words(count), 32)] == expected
    # Room for the dog and the word but for its last piece: it goes whole to the next segment.
    pieces = mini.tokenize("unbelievably")
    assert len(pieces) > 1
    assert cut(mini, "dog unbelievably", 2 + len(pieces)) == ["dog", "unbelievably"]
    # A word of too many pieces is cut inside.
    segments = cut(mini, "xqzxqzxqz", 4)
    assert len(segments) > 1
    assert "".join(segments) == "xqzxqzxqz"


def test_a_segment_that_grows_alone_is_cut_again(tiny_roberta: Path) -> None:
    # One piece behind a space, three without one, and room for two.
    tokenizer = load_tokenizer(str(tiny_roberta))
    assert [len(tokenizer.tokenize(text)) for text in (" pilot", "pilot")] == [1, 3]
    assert cut(tokenizer, "My pilot", 4) == ["My", "pilo", "t"]


@settings(max_examples=25, deadline=None)
@given(sentences=st.lists(TEXT | WORDS.map(" ".join), max_size=4), length=st.integers(4, 12))
def test_segments_lose_no_text_and_fit_the_length(
    both: list[Any], sentences: list[str], length: int
) -> None:
    stripped = [text for sentence in sentences if (text := sentence.strip())]
    for tokenizer in both:
        segments = list(cut_sentences(stripped, tokenizer, length=length))
        assert squeezed(segments) == squeezed(stripped)
        for segment in segments:
            assert segment == segment.strip() != ""
            fits = len(tokenizer(segment)["input_ids"]) <= length
            # Bytes of one character are never parted.
            assert fits or len(segment) == 1


def test_only_a_corpus_with_split_at_is_cut(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{words(4)}\ncat\n")
    specs = [
        CorpusSpec(name=str(tmp_path / "a.txt"), split_at=5),
        CorpusSpec(name=str(tmp_path / "b.txt")),
    ]
    corpus = load_corpus(specs, "builtin", backbone="mini")
    assert list(corpus.sentences) == [words(3), "dog", "cat", words(4), "cat"]
    assert corpus.name == "a.txt+b.txt"
    assert corpus.sha256 == sha256_of(corpus.sentences)


def test_a_backbone_is_needed_only_where_something_is_cut(tiny_bert: Path, tmp_path: Path) -> None:
    load_corpus([CorpusSpec(name="builtin")], "builtin", backbone="no such")
    cut_builtin = [CorpusSpec(name="builtin", split_at=8)]
    with pytest.raises(ValueError, match=r"'builtin' has split_at=8, .* pass backbone="):
        load_corpus(cut_builtin, "builtin")
    with pytest.raises(BackboneError, match="no encoder 'no such'"):
        load_corpus(cut_builtin, "builtin", backbone="no such")
    folder = shutil.copytree(tiny_bert, tmp_path / "copy")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BackboneError, match=r"encoder '.*' cannot be loaded from .*copy"):
        load_tokenizer(str(folder))


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


def test_a_corpus_is_tokenized_once_for_each_tokenizer_length_and_template(
    encoder: Encoder, tiny_roberta: Path
) -> None:
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
def test_texts_of_a_method_are_tokenized_to_a_file_too(encoder: Encoder, whole: bool) -> None:
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
