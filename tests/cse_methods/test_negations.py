"""Negations: every rule by hand, the tagger on plain English, the file and the cache."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_methods.data.corpora import Corpus
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
def pairs_file(tmp_path: Path) -> Path:
    return tmp_path / "negations.tsv"


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


def test_rules_by_hand() -> None:
    table: list[tuple[str, list[tuple[str, str, str, WordRole]], str]] = [
        # An auxiliary before the ROOT.
        (
            "A man was seen.",
            [("was", "VBD", "be", "auxiliary"), ("seen", "VBN", "see", "root")],
            "A man was not seen.",
        ),
        (
            "He 'd have gone",
            [
                ("'d", "MD", "would", "auxiliary"),
                ("have", "VB", "have", "auxiliary"),
                ("gone", "VBN", "go", "root"),
            ],
            "He 'd not have gone",
        ),
        # An auxiliary after it does not count.
        (
            "He said it was seen",
            [("said", "VBD", "say", "root"), ("was", "VBD", "be", "auxiliary")],
            "He did not say it was seen",
        ),
        # A ROOT that is a form of be or a modal.
        ("It is red.", [("is", "VBZ", "be", "root")], "It is not red."),
        ("He can.", [("can", "MD", "can", "root")], "He can not."),
        # A ROOT in the present or past.
        ("We see it", [("see", "VBP", "see", "root")], "We do not see it"),
        ("He has it", [("has", "VBZ", "have", "root")], "He does not have it"),
        ("He went", [("went", "VBD", "go", "root")], "He did not go"),
        ("Has five rooms", [("Has", "VBZ", "have", "root")], "Does not have five rooms"),
        # Any other ROOT, or none.
        ("A small dog", [("dog", "NN", "dog", "root")], "Not A small dog"),
        ("A small dog", [], "Not A small dog"),
    ]
    for sentence, marked, expected in table:
        assert negate(sentence, parsed(sentence, *marked)) == expected


def test_the_first_not_is_dropped() -> None:
    table: list[tuple[str, str]] = [
        ("It is not red and not blue.", "It is red and not blue."),
        ("Not all are here", "all are here"),
        ("He cannot go", "He can go"),
        ("He can't go", "He can go"),
        ("They did n't go", "They did go"),
        ("Won't he?", "Will he?"),
        # No "not" of its own.
        ("A nothing knot", "Not A nothing knot"),
        ("A not-for-profit", "Not A not-for-profit"),
        ("not", "Not not"),
    ]
    for sentence, expected in table:
        assert negate(sentence, []) == expected


@settings(max_examples=10)
@given(sentence=st.text(min_size=1).map(str.strip).filter(bool))
def test_a_negation_is_another_sentence_on_one_line(sentence: str) -> None:
    tagger = LexiconTagger()
    denied = negate(sentence, next(tagger.read([sentence])))
    assert denied.strip()
    assert denied != sentence
    assert denied.count("\n") <= sentence.count("\n")


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


def test_words_of_a_spacy_document() -> None:
    # What a spaCy token offers, without spaCy.
    def token(at: int, text: str, tag: str, lemma: str, label: str) -> SimpleNamespace:
        return _Token(idx=at, text=text, tag_=tag, lemma_=lemma, dep_=label)

    document = [
        token(0, "It", "PRP", "it", "nsubjpass"),
        token(3, "was", "VBD", "be", "auxpass"),
        token(7, "seen", "VBN", "see", "ROOT"),
    ]
    words = words_of(document)
    assert words[1:] == [Word(3, 6, "VBD", "be", "auxiliary"), Word(7, 11, "VBN", "see", "root")]
    assert negate("It was seen", words) == "It was not seen"


class _Token(SimpleNamespace):
    text: str

    def __len__(self) -> int:
        return len(self.text)


def test_a_file_is_read(pairs_file: Path) -> None:
    pairs_file.write_text("It is red.\tIt is not red. \nA dog\tNo dog\nA dog\tNo dog\n")
    assert read_negations(pairs_file) == {"It is red.": "It is not red.", "A dog": "No dog"}


def test_a_line_that_is_no_pair_is_named(pairs_file: Path) -> None:
    for line in ("", "A dog", "A dog\t", "\tNo dog", "A\tdog\tbarks"):
        pairs_file.write_text(f"It is.\tIt is not.\n{line}\nA cat\tNo cat\n")
        match = (
            r"negations\.tsv, line 2: .* is not a sentence and its negation; expected .* one tab"
        )
        with pytest.raises(DataError, match=match):
            read_negations(pairs_file)


def test_a_sentence_has_one_negation(pairs_file: Path) -> None:
    pairs_file.write_text("A dog\tNo dog\nA dog\tNot a dog\n")
    with pytest.raises(DataError, match="line 2: 'A dog' has another negation on a line before"):
        read_negations(pairs_file)


def test_a_file_needs_no_tagger(corpus: Corpus, pairs_file: Path, absent: Absent) -> None:
    absent("spacy", "textblob")
    lines = [f"{sentence}\tno {i}\n" for i, sentence in enumerate(CORPUS_SENTENCES)]
    pairs_file.write_text("".join(reversed(lines)))
    assert negations_of(corpus, file=pairs_file) == ["no 0", "no 1", "no 2"]


def test_what_a_file_lacks_is_counted(corpus: Corpus, pairs_file: Path) -> None:
    pairs_file.write_text(f"{CORPUS_SENTENCES[0]}\tno\n")
    match = r"lacks 2 of the 3 sentences of corpus tales, the first is 'A dog is here\.'"
    with pytest.raises(DataError, match=match):
        negations_of(corpus, file=pairs_file)


def test_negations_are_computed_once(
    corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture, absent: Absent
) -> None:
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


def test_other_sentences_have_another_file(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: Absent
) -> None:
    """In the cache that the environment names; more sentences than are negated at once."""
    absent("spacy")
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    monkeypatch.setattr(negations, "_CHUNK", 2)
    assert negations_of(corpus, file=None) == DENIED
    fewer = Corpus("tales", CORPUS_SENTENCES[:2], sha256_of(CORPUS_SENTENCES[:2]))
    assert negations_of(fewer, file=None) == DENIED[:2]
    assert len(list((tmp_path / "negations").glob("*.txt"))) == 2


def test_a_cache_that_cannot_be_written_is_named(
    corpus: Corpus, tmp_path: Path, absent: Absent
) -> None:
    absent("spacy")
    (tmp_path / "file").touch()
    match = r"cannot store the negations of corpus tales in .*file.*set CSE_CACHE"
    with pytest.raises(DataError, match=match):
        negations_of(corpus, file=None, cache=tmp_path / "file" / "negations")


def test_the_model_wins_over_the_lexicon(absent: Absent) -> None:
    absent()
    assert type(find_tagger()).__name__ == "SpacyTagger"
    absent("en_core_web_sm")
    assert "textblob" in find_tagger().identity


@pytest.mark.parametrize("lacking", ["textblob", "lemminflect"])
def test_without_a_tagger_both_ways_out_are_told(
    corpus: Corpus, tmp_path: Path, absent: Absent, lacking: str
) -> None:
    absent("spacy", lacking)
    match = r"need a tagger, .*pip install 'cse-platform\[negation\]', or set negations: FILE"
    with pytest.raises(DataError, match=match):
        negations_of(corpus, file=None, cache=tmp_path)
