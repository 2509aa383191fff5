"""Phrases and their pairs: by hand, and as CompCSE's expanded training set."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.data.corpora import Corpus
from cse_methods.data.language.phrases import (
    Subsampling,
    composition_examples,
    read_phrases,
    split_clauses,
    subsamples,
)
from cse_methods.errors import DataError
from cse_methods.files.text import sha256_of

STRATEGIES: tuple[Subsampling, ...] = ("none", "adjacent", "overlapping", "subsuming")
LETTERS = ("a", "b", "c", "d", "e")
TOKENS = st.sampled_from(["and", "in", "who", "dog", "runs,", "“But", "—", ";", "x"])
SENTENCES = st.lists(TOKENS, max_size=20).map("  ".join) | st.text()


@pytest.fixture
def phrase_file(tmp_path: Path) -> Path:
    return tmp_path / "phrases.tsv"


def corpus_of(*sentences: str) -> Corpus:
    return Corpus("tales", sentences, sha256_of(sentences))


def test_clauses_by_hand() -> None:
    table: list[tuple[str, tuple[str, ...]]] = [
        ("A man lifts weights in a garage", ("A man lifts weights", "in a garage")),
        ("When he came home, all were asleep", ("When he came home,", "all were asleep")),
        ("The man who sings here is tall", ("The man who sings here is tall",)),
        ("The old man who sings here is tall", ("The old man", "who sings here is tall")),
        ("It was late ; they all slept", ("It was late ;", "they all slept")),
        # Two words stay with their neighbours; of and to bind.
        ("The capital of France is a city to see", ("The capital of France is a city to see",)),
        ("He came home and slept", ("He came home and slept",)),
        ("He came home (and he slept)", ("He came home", "(and he slept)")),
        ("dog", ("dog",)),
        (" ", ()),
    ]
    for sentence, phrases in table:
        assert split_clauses(sentence) == phrases


@given(sentence=SENTENCES)
def test_clauses_give_the_sentence_back(sentence: str) -> None:
    phrases = split_clauses(sentence)
    assert " ".join(phrases) == " ".join(sentence.split())
    if len(phrases) > 1:
        assert min(len(phrase.split()) for phrase in phrases) >= 3


def test_subsamples_of_five() -> None:
    table: list[tuple[Subsampling, list[tuple[str, str]]]] = [
        ("none", []),
        ("adjacent", [("a", "b"), ("c", "d")]),
        ("overlapping", [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]),
        ("subsuming", [("a b c", "d e"), ("a b", "c"), ("a", "b"), ("d", "e")]),
    ]
    for strategy, pairs in table:
        assert subsamples(LETTERS, strategy) == pairs


def test_a_corpus_is_expanded_by_rules() -> None:
    garage, short = "A man  lifts weights in a garage", "A dog"
    expanded, parts = composition_examples(corpus_of(garage, short), "subsuming", None)
    assert parts == [(garage,), ("A man lifts weights", "in a garage"), (short,)]
    assert list(expanded.sentences) == [garage, "A man lifts weights in a garage", short]
    assert (expanded.name, expanded.sha256) == ("tales", sha256_of(expanded.sentences))


def test_without_subsampling_nothing_is_added(phrase_file: Path) -> None:
    corpus = corpus_of("A man lifts weights in a garage", "A dog")
    assert composition_examples(corpus, "none", phrase_file) == (
        corpus,
        [(sentence,) for sentence in corpus.sentences],
    )


def test_a_file_cuts_as_it_says(phrase_file: Path) -> None:
    phrase_file.write_text("A dog\truns\tin  here\nHello\n")
    assert read_phrases(phrase_file) == {
        "A dog runs in here": ("A dog", "runs", "in here"),
        "Hello": ("Hello",),
    }
    _, parts = composition_examples(
        corpus_of("Hello", "A  dog runs in here"), "adjacent", phrase_file
    )
    assert parts == [("Hello",), ("A  dog runs in here",), ("A dog", "runs")]


def test_an_empty_phrase_is_refused(phrase_file: Path) -> None:
    for line in ("", "A dog\t\truns", "A dog\t", " \t "):
        phrase_file.write_text(f"Hello\n{line}\nBye\n")
        with pytest.raises(DataError, match=r"phrases\.tsv, line 2: an empty phrase in .* one tab"):
            read_phrases(phrase_file)


def test_a_sentence_is_cut_in_one_way(phrase_file: Path) -> None:
    phrase_file.write_text("A dog\truns\nA dog\truns\nA\tdog runs\n")
    with pytest.raises(DataError, match=r"line 3: 'A dog runs' is cut otherwise on a line before"):
        read_phrases(phrase_file)


def test_what_a_file_lacks_is_counted(phrase_file: Path) -> None:
    phrase_file.write_text("Hello\n")
    corpus = corpus_of("Hello", "A dog", "A cat")
    match = (
        r"lacks 2 of the 3 sentences of corpus tales, the first is 'A dog'; .* leave the file out"
    )
    with pytest.raises(DataError, match=match):
        composition_examples(corpus, "overlapping", phrase_file)


def test_a_file_that_is_not_there_is_named(phrase_file: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*phrases\.tsv"):
        composition_examples(corpus_of("Hello"), "adjacent", phrase_file)
