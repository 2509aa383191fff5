"""Random events, words and sentence shapes of the grammar.

Only `Random.random()` is used, because no other method of `Random` is guaranteed to give the same
numbers in all Python versions.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from random import Random
from typing import TypeVar

from cse_methods.data.builtin.grammar import SLOTS, Clause, Frame, Lexicon, Scene
from cse_methods.data.builtin.vocabulary import ACTIONS, ANTONYMS, OPENINGS, PEOPLE, PLACES, THINGS

_T = TypeVar("_T")

DENIED, PLACE_FIRST, OPENED, REWORDED = 0.1, 0.3, 0.6, 0.2
"""Probabilities that an event is denied, that a sentence has its place in front, that it has an
opening, and that the second sentence of a graded pair draws a word anew."""
CLAUSES: tuple[Clause, ...] = ("active", "active", "two_objects", "passive", "cleft")


def draw_integer(rng: Random, bound: int) -> int:
    """Draw an integer from 0 to bound - 1."""
    return int(rng.random() * bound)


def pick(rng: Random, items: Sequence[_T]) -> _T:
    return items[draw_integer(rng, len(items))]


def draw_scene(rng: Random) -> Scene:
    """Draw an event of two different people; one in ten is denied."""
    subject = pick(rng, SLOTS["subject"])
    return Scene(
        subject=subject,
        action=pick(rng, SLOTS["action"]),
        object=pick(rng, SLOTS["object"]),
        role=pick(rng, [person for person in SLOTS["role"] if person != subject]),
        place=pick(rng, SLOTS["place"]),
        denied=rng.random() < DENIED,
    )


def change_event(rng: Random, event: Scene, *, slots: int) -> Scene:
    """Replace the concepts of `slots` random slots of an event by other ones."""
    left, concepts = list(SLOTS), asdict(event)
    for _ in range(slots):
        slot = left.pop(draw_integer(rng, len(left)))
        taken = {concepts[slot], concepts["subject"], concepts["role"]}
        concepts[slot] = pick(rng, [concept for concept in SLOTS[slot] if concept not in taken])
    return Scene(**concepts)


def draw_opposite(rng: Random, event: Scene) -> Scene:
    """Return the event denied or affirmed, or with the antonym of its action."""
    antonyms = [a for pair in ANTONYMS if event.action in pair for a in pair - {event.action}]
    if antonyms and rng.random() < 0.5:
        return replace(event, action=antonyms[0])
    return replace(event, denied=not event.denied)


def draw_frame(rng: Random, *, progressive: bool) -> Frame:
    return Frame(
        clause=pick(rng, CLAUSES),
        place_first=rng.random() < PLACE_FIRST,
        progressive=progressive,
        opening=pick(rng, OPENINGS) if rng.random() < OPENED else "",
    )


def draw_lexicon(rng: Random) -> Lexicon:
    return Lexicon(
        nouns={words[0]: pick(rng, words) for words in (*PEOPLE, *THINGS, *PLACES)},
        verbs={action: pick(rng, verbs) for action, verbs in ACTIONS.items()},
    )


def reword_lexicon(rng: Random, lexicon: Lexicon) -> Lexicon:
    """Draw the lexicon of a speaker who shares most words with this one."""
    new = draw_lexicon(rng)
    nouns, verbs = dict(lexicon.nouns), dict(lexicon.verbs)
    nouns.update({key: word for key, word in new.nouns.items() if rng.random() < REWORDED})
    verbs.update({key: verb for key, verb in new.verbs.items() if rng.random() < REWORDED})
    return Lexicon(nouns, verbs)


def draw_contrary_lexicon(rng: Random, lexicon: Lexicon) -> Lexicon:
    """Draw the lexicon of a speaker who shares no word with this one."""
    nouns = {
        words[0]: pick(rng, [word for word in words if word != lexicon.nouns[words[0]]])
        for words in (*PEOPLE, *THINGS, *PLACES)
    }
    verbs = {
        action: pick(rng, [verb for verb in choices if verb != lexicon.verbs[action]])
        for action, choices in ACTIONS.items()
    }
    return Lexicon(nouns, verbs)
