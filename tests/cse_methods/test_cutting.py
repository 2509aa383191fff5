"""Corpora cut at a number of word pieces: nothing is lost, everything fits."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.language.cutting import cut_sentences, load_tokenizer
from cse_methods.errors import BackboneError
from cse_methods.files.text import sha256_of

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


def test_by_hand(mini: Any) -> None:
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
    assert cut(tokenizer, "She pilot", 4) == ["She", "pilo", "t"]


@settings(max_examples=25, deadline=None)
@given(sentences=st.lists(TEXT | WORDS.map(" ".join), max_size=4), length=st.integers(4, 12))
def test_nothing_is_lost_and_all_fits(both: list[Any], sentences: list[str], length: int) -> None:
    stripped = [text for sentence in sentences if (text := sentence.strip())]
    for tokenizer in both:
        segments = list(cut_sentences(stripped, tokenizer, length=length))
        assert squeezed(segments) == squeezed(stripped)
        for segment in segments:
            assert segment == segment.strip() != ""
            fits = len(tokenizer(segment)["input_ids"]) <= length
            # Bytes of one character are never parted.
            assert fits or len(segment) == 1


def test_a_corpus_is_cut_where_it_says_so(tmp_path: Path) -> None:
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
    with pytest.raises(BackboneError, match="no backbone 'no such'"):
        load_corpus(cut_builtin, "builtin", backbone="no such")
    folder = shutil.copytree(tiny_bert, tmp_path / "copy")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BackboneError, match=r"backbone '.*' cannot be loaded from .*copy"):
        load_tokenizer(str(folder))
