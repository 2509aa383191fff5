from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.data.corpus import Corpus
from cse_methods.data.language.phrases import (
    Subsampling,
    composition_examples,
    read_phrases,
    split_clauses,
    subsamples,
)
from cse_methods.errors import DataError
from cse_methods.files.text import sha256_of

TOKENS = st.sampled_from(["and", "in", "who", "dog", "runs,", "“But", "—", ";", "x"])
SENTENCES = st.lists(TOKENS, max_size=20).map("  ".join) | st.text()


@pytest.fixture
def phrase_file(tmp_path: Path) -> Path:
    return tmp_path / "phrases.tsv"


def corpus_of(*sentences: str) -> Corpus:
    return Corpus("tales", sentences, sha256_of(sentences))


def test_sentences_are_split_into_clauses() -> None:
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
def test_joined_clauses_are_the_sentence(sentence: str) -> None:
    phrases = split_clauses(sentence)
    assert " ".join(phrases) == " ".join(sentence.split())
    if len(phrases) > 1:
        assert min(len(phrase.split()) for phrase in phrases) >= 3


def test_five_phrases_give_the_pairs_of_each_strategy() -> None:
    table: list[tuple[Subsampling, list[tuple[str, str]]]] = [
        ("none", []),
        ("adjacent", [("a", "b"), ("c", "d")]),
        ("overlapping", [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]),
        ("subsuming", [("a b c", "d e"), ("a b", "c"), ("a", "b"), ("d", "e")]),
    ]
    for strategy, pairs in table:
        assert subsamples(tuple("abcde"), strategy) == pairs


def test_a_corpus_is_expanded_by_rules() -> None:
    garage, short = "A man  lifts weights in a garage", "A dog"
    expanded, parts = composition_examples(corpus_of(garage, short), "subsuming", None)
    assert parts == [(garage,), ("A man lifts weights", "in a garage"), (short,)]
    assert list(expanded.sentences) == [garage, "A man lifts weights in a garage", short]
    assert (expanded.name, expanded.sha256) == ("tales", sha256_of(expanded.sentences))


def test_a_file_of_phrases_cuts_the_corpus(phrase_file: Path) -> None:
    corpus = corpus_of("Hello", "A  dog runs in here")
    uncut = [(sentence,) for sentence in corpus.sentences]
    assert composition_examples(corpus, "none", phrase_file) == (corpus, uncut)
    phrase_file.write_text("A dog\truns\tin  here\nHello\n")
    cut = {"A dog runs in here": ("A dog", "runs", "in here"), "Hello": ("Hello",)}
    assert read_phrases(phrase_file) == cut
    _, parts = composition_examples(corpus, "adjacent", phrase_file)
    assert parts == [*uncut, ("A dog", "runs")]


def test_a_malformed_file_of_phrases_is_refused(phrase_file: Path) -> None:
    corpus = corpus_of("Hello", "A dog", "A cat")
    with pytest.raises(DataError, match=r"cannot read .*phrases\.tsv"):
        composition_examples(corpus, "adjacent", phrase_file)
    empty = r"phrases\.tsv, line 2: an empty phrase in .* one tab"
    table: list[tuple[str, str]] = [
        *((f"Hello\n{line}\n", empty) for line in ("", "A dog\t\truns", "A dog\t", " \t ")),
        ("A dog\truns\nA\tdog runs\n", "line 2: 'A dog runs' is cut otherwise on a line before"),
        ("Hello\n", "lacks 2 of the 3 sentences of corpus tales, .* is 'A dog'; .* leave the file"),
    ]
    for text, match in table:
        phrase_file.write_text(text)
        with pytest.raises(DataError, match=match):
            composition_examples(corpus, "overlapping", phrase_file)
