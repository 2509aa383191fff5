import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cse_methods.data.corpus import Corpus
from cse_methods.data.language import negations
from cse_methods.data.language.lexicon_tagger import LexiconTagger
from cse_methods.data.language.negations import find_tagger, negate, negations_of, read_negations
from cse_methods.data.language.tagging import Word, WordRole, words_of
from cse_methods.errors import DataError
from cse_methods.files.text import sha256_of

CORPUS_SENTENCES = ("He works in London.", "A dog is here.", "She did not go.")
DENIED = ["He does not work in London.", "A dog is not here.", "She did go."]

Absent = Callable[..., None]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus("tales", CORPUS_SENTENCES, sha256_of(CORPUS_SENTENCES))


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Absent:
    """Makes packages look as if they were not installed."""

    def hide(*packages: str) -> None:
        monkeypatch.setattr(negations, "find_spec", lambda name: name not in packages or None)

    return hide


def parsed(sentence: str, *marked: tuple[str, str, str, WordRole]) -> list[Word]:
    """The words of a sentence of which (word, tag, lemma, role) are known."""
    return [
        Word(sentence.index(text), sentence.index(text) + len(text), tag, lemma, role)
        for text, tag, lemma, role in marked
    ]


def test_sentences_are_negated_by_the_first_rule_that_applies() -> None:
    is_, did = ("is", "VBZ", "be", "root"), ("said", "VBD", "say", "root")
    was, have = ("was", "VBD", "be", "auxiliary"), ("have", "VB", "have", "auxiliary")
    seen, gone = ("seen", "VBN", "see", "root"), ("gone", "VBN", "go", "root")
    table: list[tuple[str, list[tuple[str, str, str, WordRole]], str]] = [
        # An auxiliary before the ROOT; one after it does not count.
        ("A man was seen.", [was, seen], "A man was not seen."),
        (
            "He 'd have gone",
            [("'d", "MD", "would", "auxiliary"), have, gone],
            "He 'd not have gone",
        ),
        ("He said it was seen", [did, was], "He did not say it was seen"),
        # A ROOT that is a form of be or a modal.
        ("It is red.", [is_], "It is not red."),
        ("He can.", [("can", "MD", "can", "root")], "He can not."),
        # A ROOT in the present or past.
        ("We see it", [("see", "VBP", "see", "root")], "We do not see it"),
        ("He has it", [("has", "VBZ", "have", "root")], "He does not have it"),
        ("He went", [("went", "VBD", "go", "root")], "He did not go"),
        ("Has five rooms", [("Has", "VBZ", "have", "root")], "Does not have five rooms"),
        # Any other ROOT, or none.
        ("A small dog", [("dog", "NN", "dog", "root")], "Not A small dog"),
        ("A small dog", [], "Not A small dog"),
        # The first "not" is dropped, where it is one of its own.
        ("It is not red and not blue.", [], "It is red and not blue."),
        ("Not all are here", [], "all are here"),
        *((f"He {no} go", [], "He can go") for no in ("cannot", "can't")),
        ("They did n't go", [], "They did go"),
        ("Won't he?", [], "Will he?"),
        *((text, [], f"Not {text}") for text in ("A nothing knot", "A not-for-profit", "not")),
    ]
    for sentence, marked, expected in table:
        assert negate(sentence, parsed(sentence, *marked)) == expected


def test_the_lexicon_finds_the_verb() -> None:
    table: list[tuple[str, str]] = [
        ("He works in London.", "He does not work in London."),
        ("Romano painted the covers and left.", "Romano did not paint the covers and left."),
        ("The company also produced boilers.", "The company also did not produce boilers."),
        ("Six people killed by a bomb.", "Not Six people killed by a bomb."),
        ("He’s gone home.", "He’s not gone home."),
        ("Smith's dog barks.", "Smith's dog does not bark."),
        ("They have gone.", "They have not gone."),
        ("The bridge was often closed.", "The bridge was not often closed."),
        # Verbs of a clause inside are passed over.
        ("The man who wrote it sleeps.", "The man who wrote it does not sleep."),
        ("Although it was late, he stayed.", "Although it was late, he did not stay."),
        ("A component of the group.", "Not A component of the group."),
    ]
    for sentence, expected in table:
        assert negate(sentence, next(LexiconTagger().read([sentence]))) == expected


def test_words_are_read_from_a_spacy_document() -> None:
    class Token(SimpleNamespace):
        """What a spaCy token offers, without spaCy."""

        def __len__(self) -> int:
            return len(self.text)

    document: list[Any] = [
        Token(idx=at, text=text, tag_=tag, lemma_=lemma, dep_=label)
        for at, text, tag, lemma, label in (
            *((0, "It", "PRP", "it", "nsubjpass"), (3, "was", "VBD", "be", "auxpass")),
            (7, "seen", "VBN", "see", "ROOT"),
        )
    ]
    words = words_of(document)
    assert words[1:] == [Word(3, 6, "VBD", "be", "auxiliary"), Word(7, 11, "VBN", "see", "root")]
    assert negate("It was seen", words) == "It was not seen"


def test_a_malformed_file_of_negations_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "negations.tsv"
    file.write_text("It is red.\tIt is not red. \nA dog\tNo dog\nA dog\tNo dog\n")
    assert read_negations(file) == {"It is red.": "It is not red.", "A dog": "No dog"}
    no_pair = "is not a sentence and its negation; expected .* one tab"
    for line, problem in (
        *((line, no_pair) for line in ("", "A dog", "A dog\t", "\tNo dog", "A\tdog\tbarks")),
        ("It is.\tNot a dog", "'It is.' has another negation on a line before"),
    ):
        file.write_text(f"It is.\tIt is not.\n{line}\nA cat\tNo cat\n")
        with pytest.raises(DataError, match=rf"negations\.tsv, line 2: .*{problem}"):
            read_negations(file)


def test_a_file_of_negations_needs_no_tagger_but_every_sentence(corpus, tmp_path, absent) -> None:
    absent("spacy", "textblob")
    file = tmp_path / "negations.tsv"
    lines = [f"{sentence}\tno {i}\n" for i, sentence in enumerate(CORPUS_SENTENCES)]
    file.write_text("".join(reversed(lines)))
    assert negations_of(corpus, file=file) == ["no 0", "no 1", "no 2"]
    file.write_text(lines[0])
    match = r"lacks 2 of the 3 sentences of corpus tales, the first is 'A dog is here\.'"
    with pytest.raises(DataError, match=match):
        negations_of(corpus, file=file)


def test_negations_are_computed_once(corpus, tmp_path, caplog, absent) -> None:
    absent("spacy")
    caplog.set_level(logging.INFO)
    assert negations_of(corpus, file=None, cache=tmp_path) == DENIED
    assert "negations of tales: 0 of 3 sentences" in caplog.text
    (stored,) = tmp_path.glob("*.txt")
    assert not list(tmp_path.glob("*.partial"))

    stored.write_text("one\ntwo\nthree\n")  # what is there is taken
    assert negations_of(corpus, file=None, cache=tmp_path) == ["one", "two", "three"]
    stored.write_text("one\n")  # unless it was damaged
    assert negations_of(corpus, file=None, cache=tmp_path) == DENIED
    match = r"cannot store the negations of corpus tales in .*txt.*set CSE_CACHE"
    with pytest.raises(DataError, match=match):
        negations_of(corpus, file=None, cache=stored / "negations")


def test_spacy_wins_over_the_lexicon_and_without_both_the_error_says_what_to_do(
    corpus: Corpus, tmp_path: Path, absent: Absent
) -> None:
    absent()
    assert type(find_tagger()).__name__ == "SpacyTagger"
    absent("en_core_web_sm")
    assert "textblob" in find_tagger().identity
    match = r"need a tagger, .*pip install 'cse-platform\[negation\]', or set negations: FILE"
    for lacking in ("textblob", "lemminflect"):
        absent("spacy", lacking)
        with pytest.raises(DataError, match=match):
            negations_of(corpus, file=None, cache=tmp_path)
