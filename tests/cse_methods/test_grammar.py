"""The built-in corpus and dev sets: sound English, sound gold, no leak, the same everywhere."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.data.builtin import drawing
from cse_methods.data.builtin.grammar import (
    SLOTS,
    Frame,
    Lexicon,
    Scene,
    gold,
    opposed,
    sentence_of,
)
from cse_methods.data.builtin.pairs import builtin_corpus, builtin_pairs
from cse_methods.data.builtin.vocabulary import ACTIONS, ANTONYMS, PEOPLE, PLACES, THINGS
from cse_methods.data.dev_selection import DevTask
from cse_methods.errors import DataError

TASKS: tuple[DevTask, ...] = ("stsb", "sickr")
NOUNS = {words[0]: words[0] for words in (*PEOPLE, *THINGS, *PLACES)}
FIRST_WORDS = Lexicon(NOUNS, {action: verbs[0] for action, verbs in ACTIONS.items()})
LAST_WORDS = Lexicon(
    {words[0]: words[-1] for words in (*PEOPLE, *THINGS, *PLACES)},
    {action: verbs[-1] for action, verbs in ACTIONS.items()},
)
LOAN = Scene("doctor", "lend", "book", "pilot", "in the garden")

events = st.builds(
    Scene, **{slot: st.sampled_from(keys) for slot, keys in SLOTS.items()}, denied=st.booleans()
)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (LOAN, 5),
        (replace(LOAN, place="on the ship"), 4),
        (replace(LOAN, action="sell"), 4),
        (replace(LOAN, subject="pilot", role="doctor"), 3),
        (replace(LOAN, denied=True), 2),
        (replace(LOAN, denied=True, object="car"), 1.5),
        (replace(LOAN, action="sell", denied=True), 4),
        (Scene("king", "hide", "car", "cook", "on the ship"), 0),
    ],
)
def test_gold_by_hand(other: Scene, expected: float) -> None:
    assert gold(LOAN, other) == expected


@pytest.mark.parametrize(("one", "other"), [("give", "steal"), ("show", "hide")])
def test_antonyms_contradict(one: str, other: str) -> None:
    first, second = replace(LOAN, action=one), replace(LOAN, action=other)
    assert gold(first, second) == 2  # four slots agree, halved
    # Not hiding is not showing: the actions differ and contradict nothing.
    assert gold(first, replace(second, denied=True)) == 4


@given(events, events)
def test_gold_is_symmetric_and_bounded(first: Scene, second: Scene) -> None:
    assert gold(first, second) == gold(second, first)
    assert 0 <= gold(first, second) <= 5
    assert (gold(first, second) == 5) == (first == second)
    assert not opposed(first, first)


@pytest.mark.parametrize(
    ("frame", "words", "sentence"),
    [
        (Frame(), FIRST_WORDS, "The doctor lends the book to the pilot in the garden."),
        (Frame(), LAST_WORDS, "The aviator borrows the volume from the physician in the yard."),
        (
            Frame("two_objects", place_first=True),
            FIRST_WORDS,
            "In the garden, the doctor lends the pilot the book.",
        ),
        (
            Frame("passive", progressive=True),
            LAST_WORDS,
            "A volume is being borrowed from a physician by an aviator in the yard.",
        ),
        (
            Frame("cleft", progressive=True, opening="it is said that "),
            FIRST_WORDS,
            "It is said that it is a doctor who is lending a book to a pilot in the garden.",
        ),
    ],
)
def test_wordings_by_hand(frame: Frame, words: Lexicon, sentence: str) -> None:
    assert sentence_of(LOAN, words, frame) == sentence


@pytest.mark.parametrize(
    ("frame", "predicate"),
    [
        (Frame(), "does not lend"),
        (Frame(progressive=True), "is not lending"),
        (Frame("passive"), "is not lent"),
        (Frame("passive", progressive=True), "is not being lent"),
    ],
)
def test_denial_by_hand(frame: Frame, predicate: str) -> None:
    assert predicate in sentence_of(replace(LOAN, denied=True), FIRST_WORDS, frame)


def test_a_verb_without_two_objects_stays_active() -> None:
    told = sentence_of(replace(LOAN, action="hide"), FIRST_WORDS, Frame("two_objects"))
    assert told == "The doctor hides the book from the pilot in the garden."


def test_no_word_has_two_meanings() -> None:
    words = [word for words in (*PEOPLE, *THINGS, *PLACES) for word in words]
    words += [verb.base for verbs in ACTIONS.values() for verb in verbs]
    assert len(words) == len(set(words))
    assert all(pair <= ACTIONS.keys() for pair in ANTONYMS)


def test_corpus_is_all_different_and_none_of_dev() -> None:
    corpus = builtin_corpus()
    assert len(set(corpus)) == len(corpus) == 6000
    dev = {sentence for task in TASKS for pair in builtin_pairs(task) for sentence in pair[:2]}
    assert not dev & set(corpus)


def test_dev_sets_share_no_sentence() -> None:
    stsb, sickr = (
        {sentence for pair in builtin_pairs(task) for sentence in pair[:2]} for task in TASKS
    )
    assert not stsb & sickr


@pytest.mark.parametrize(("task", "count", "lowest"), [("stsb", 400, 0), ("sickr", 250, 1)])
def test_pairs_are_different_and_span_the_scale(task: DevTask, count: int, lowest: int) -> None:
    pairs = builtin_pairs(task)
    assert len({pair[:2] for pair in pairs}) == len(pairs) == count
    assert all(pair.first != pair.second for pair in pairs)
    assert (min(pair.gold for pair in pairs), max(pair.gold for pair in pairs)) == (lowest, 5)


def test_the_same_words_can_mean_little_and_other_words_the_same() -> None:
    def overlap(first: str, second: str) -> float:
        one, other = (set(re.findall(r"\w+", sentence.lower())) for sentence in (first, second))
        return len(one & other) / len(one | other)

    pairs = builtin_pairs("stsb")
    assert sum(overlap(*pair[:2]) > 0.8 and pair.gold <= 3 for pair in pairs) >= 10
    assert sum(overlap(*pair[:2]) < 0.3 and pair.gold >= 4 for pair in pairs) >= 5


def test_drawing_again_gives_the_same() -> None:
    assert builtin_corpus.__wrapped__() == builtin_corpus()
    assert builtin_pairs.__wrapped__("stsb") == builtin_pairs("stsb")


def test_an_edited_vocabulary_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "OPENINGS", ("surely, ",))
    with pytest.raises(DataError, match=r"built-in stsb pairs came out with sha256 \w+, expected"):
        builtin_pairs.__wrapped__("stsb")
