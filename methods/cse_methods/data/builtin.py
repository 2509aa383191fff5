"""The built-in corpus and dev sets, drawn from the grammar with fixed seeds: no file, no network.

Five kinds of pairs make the dev sets. `graded` pairs agree in none to all slots, mostly in the same
words but in another sentence shape. `near` pairs share shape and every word they can, though up to
four slots differ; `far` pairs mean nearly the same and share no word of it. In `traded` pairs the
two people trade parts; in `opposed` pairs the action is denied or reversed; both in the same words.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from random import Random
from typing import Literal, NamedTuple, TypeVar

from cse_methods.contract import DevTask
from cse_methods.data.grammar import SLOTS, Clause, Event, Frame, Lexicon, gold, tell
from cse_methods.data.text import sha256_of
from cse_methods.data.vocabulary import ACTIONS, ANTONYMS, OPENINGS, PEOPLE, PLACES, THINGS
from cse_methods.errors import DataError

T = TypeVar("T")
Kind = Literal["graded", "near", "far", "traded", "opposed"]

CORPUS_SENTENCES = 6000
CORPUS_SEED, CORPUS_SHA256 = 20, "3564dd6e67be714a22e0e8ff4a37f9168125dbdbb534f4d1cfe72156e13a5f67"
SHA256: dict[DevTask, str] = {
    "stsb": "de663fa9d609393529855e214cb2c218e4698e1d7eaab0d9871d6b3cd75759d9",
    "sickr": "c1ce2b2c4ee805d2a1d1468aa8f9ce3fa77a3b69b07683ee660ddac37ade7ff9",
}
SEEDS: dict[DevTask, int] = {"stsb": 21, "sickr": 22}
MIXES: dict[DevTask, dict[Kind, int]] = {
    "stsb": {"graded": 330, "near": 40, "far": 10, "traded": 10, "opposed": 10},
    "sickr": {"graded": 200, "near": 25, "far": 5, "traded": 10, "opposed": 10},
}

DENIED, PLACE_FIRST, OPENED, REWORDED = 0.1, 0.3, 0.6, 0.2
"""Shares: of denied events, of sentences with the place in front or an opening, and of the words
that the second sentence of a graded pair draws anew."""
CLAUSES: tuple[Clause, ...] = ("active", "active", "two_objects", "passive", "cleft")


class Pair(NamedTuple):
    """Two sentences and how similar they are."""

    first: str
    second: str
    gold: float


@cache
def builtin_corpus() -> tuple[str, ...]:
    """6000 different sentences, in both styles of the dev sets; none stands in a dev set.

    Raises:
        DataError: if this machine draws other sentences than the known ones.
    """
    rng = Random(CORPUS_SEED)
    dev = {sentence for task in MIXES for pair in builtin_pairs(task) for sentence in pair[:2]}
    sentences: dict[str, None] = {}
    while len(sentences) < CORPUS_SENTENCES:
        frame = _frame(rng, progressive=rng.random() < 0.5)
        sentence = tell(_event(rng), _lexicon(rng), frame)
        if sentence not in dev:
            sentences[sentence] = None
    _check("corpus", sha256_of(sentences), CORPUS_SHA256)
    return tuple(sentences)


@cache
def builtin_pairs(task: DevTask) -> tuple[Pair, ...]:
    """400 pairs for stsb in the simple present, 250 for sickr in the progressive.

    Gold is that of the grammar: 0 to 5 for stsb, brought to 1 to 5 for sickr.

    Raises:
        DataError: if this machine draws other pairs than the known ones.
    """
    rng = Random(SEEDS[task])
    pairs: dict[tuple[str, str], Pair] = {}
    for kind, count in MIXES[task].items():
        wanted = len(pairs) + count
        while len(pairs) < wanted:
            pair = _pair(rng, kind, task)
            if pair.first != pair.second:
                pairs[pair.first, pair.second] = pair
    lines = (f"{pair.first}\t{pair.second}\t{pair.gold!r}" for pair in pairs.values())
    _check(f"{task} pairs", sha256_of(lines), SHA256[task])
    return tuple(pairs.values())


def _check(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise DataError(
            f"the built-in {what} came out with sha256 {found[:12]}, expected {expected[:12]}; "
            "the package is damaged or was edited: install it again"
        )


def _pair(rng: Random, kind: Kind, task: DevTask) -> Pair:
    progressive = task == "sickr"
    event, words, frame = _event(rng), _lexicon(rng), _frame(rng, progressive=progressive)
    other, other_words, other_frame = event, words, frame
    if kind == "graded":
        other = _changed(rng, event, slots=_below(rng, 6))
        other_words = _reworded(rng, words)
        other_frame = _frame(rng, progressive=progressive)
    elif kind == "near":
        other = _changed(rng, event, slots=1 + _below(rng, 4))
    elif kind == "far":
        other = _changed(rng, event, slots=_below(rng, 3))
        other_words = _contrary(rng, words)
        other_frame = _frame(rng, progressive=progressive)
    elif kind == "traded":
        traded = replace(event, subject=event.role, role=event.subject)
        other = _changed(rng, traded, slots=_below(rng, 2))
    else:
        other = _changed(rng, _opposite(rng, event), slots=_below(rng, 2))
    score = gold(event, other)
    return Pair(
        tell(event, words, frame),
        tell(other, other_words, other_frame),
        1 + score * 4 / 5 if task == "sickr" else score,
    )


def _below(rng: Random, bound: int) -> int:
    # Of all that Random offers, only random() is promised to stay the same across versions.
    return int(rng.random() * bound)


def _pick(rng: Random, items: Sequence[T]) -> T:
    return items[_below(rng, len(items))]


def _event(rng: Random) -> Event:
    subject = _pick(rng, SLOTS["subject"])
    return Event(
        subject=subject,
        action=_pick(rng, SLOTS["action"]),
        object=_pick(rng, SLOTS["object"]),
        role=_pick(rng, [person for person in SLOTS["role"] if person != subject]),
        place=_pick(rng, SLOTS["place"]),
        denied=rng.random() < DENIED,
    )


def _changed(rng: Random, event: Event, *, slots: int) -> Event:
    """The event with other concepts in that many slots."""
    left, concepts = list(SLOTS), asdict(event)
    for _ in range(slots):
        slot = left.pop(_below(rng, len(left)))
        taken = {concepts[slot], concepts["subject"], concepts["role"]}
        concepts[slot] = _pick(rng, [concept for concept in SLOTS[slot] if concept not in taken])
    return Event(**concepts)


def _opposite(rng: Random, event: Event) -> Event:
    antonyms = [a for pair in ANTONYMS if event.action in pair for a in pair - {event.action}]
    if antonyms and rng.random() < 0.5:
        return replace(event, action=antonyms[0])
    return replace(event, denied=not event.denied)


def _frame(rng: Random, *, progressive: bool) -> Frame:
    return Frame(
        clause=_pick(rng, CLAUSES),
        place_first=rng.random() < PLACE_FIRST,
        progressive=progressive,
        opening=_pick(rng, OPENINGS) if rng.random() < OPENED else "",
    )


def _lexicon(rng: Random) -> Lexicon:
    return Lexicon(
        nouns={words[0]: _pick(rng, words) for words in (*PEOPLE, *THINGS, *PLACES)},
        verbs={action: _pick(rng, verbs) for action, verbs in ACTIONS.items()},
    )


def _reworded(rng: Random, lexicon: Lexicon) -> Lexicon:
    """The lexicon of a speaker who shares most words."""
    new = _lexicon(rng)
    nouns, verbs = dict(lexicon.nouns), dict(lexicon.verbs)
    nouns.update({key: word for key, word in new.nouns.items() if rng.random() < REWORDED})
    verbs.update({key: verb for key, verb in new.verbs.items() if rng.random() < REWORDED})
    return Lexicon(nouns, verbs)


def _contrary(rng: Random, lexicon: Lexicon) -> Lexicon:
    """The lexicon of a speaker who shares no word."""
    nouns = {
        words[0]: _pick(rng, [word for word in words if word != lexicon.nouns[words[0]]])
        for words in (*PEOPLE, *THINGS, *PLACES)
    }
    verbs = {
        action: _pick(rng, [verb for verb in choices if verb != lexicon.verbs[action]])
        for action, choices in ACTIONS.items()
    }
    return Lexicon(nouns, verbs)
