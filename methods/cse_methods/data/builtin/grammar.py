"""A small grammar of events: one meaning, many wordings, and a gold score for two meanings.

An event is a transfer: somebody (subject) does something (action) with a thing (object), another
person has a part in it (role), and it happens somewhere (place). A wording chooses synonyms, active
or passive voice, the verb's converse (`lend to` and `borrow from` describe one event), where place
and receiver stand, and an opening without meaning. Gold follows from the events, never from words.
"""

from dataclasses import dataclass
from typing import Literal

from cse_methods.data.builtin.vocabulary import ACTIONS, ANTONYMS, PEOPLE, PLACES, THINGS, Verb

Clause = Literal["active", "two_objects", "passive", "cleft"]

SLOTS: dict[str, tuple[str, ...]] = {
    "subject": tuple(words[0] for words in PEOPLE),
    "action": tuple(ACTIONS),
    "object": tuple(words[0] for words in THINGS),
    "role": tuple(words[0] for words in PEOPLE),
    "place": tuple(words[0] for words in PLACES),
}
"""The slots of an event, each with the concepts that can fill it."""


@dataclass(frozen=True)
class Scene:
    """A meaning: a concept for each slot, and whether the action is denied."""

    subject: str
    action: str
    object: str
    role: str
    place: str
    denied: bool = False


@dataclass(frozen=True)
class Lexicon:
    """The word that a speaker uses for every concept."""

    nouns: dict[str, str]
    verbs: dict[str, Verb]


@dataclass(frozen=True)
class Frame:
    """The shape of a sentence: `the` with the simple present, or `a` with the progressive."""

    clause: Clause = "active"
    place_first: bool = False
    progressive: bool = False
    opening: str = ""


def gold(first: Scene, second: Scene) -> float:
    """How far two events agree in meaning, 0 to 5, the same in either order.

    One point for each of subject, action, object, role and place that means the same. Opposite
    actions, denied or antonyms, earn no point and halve what the other slots earn, because the
    sentences then contradict each other. People who trade parts agree in neither subject nor role.
    """
    agreeing = {slot for slot in SLOTS if getattr(first, slot) == getattr(second, slot)}
    if opposed(first, second):
        return len(agreeing - {"action"}) / 2
    return float(len(agreeing))


def opposed(first: Scene, second: Scene) -> bool:
    """Whether one event affirms the action that the other denies, or does its antonym."""
    if first.action == second.action:
        return first.denied != second.denied
    return first.denied == second.denied and {first.action, second.action} in ANTONYMS


def sentence_of(event: Scene, lexicon: Lexicon, frame: Frame) -> str:
    """The event as one English sentence.

    A verb that does not take two objects is written in the active clause instead.
    """
    verb, place = lexicon.verbs[event.action], lexicon.nouns[event.place]
    clause = _clause(event, verb, lexicon, frame)
    placed = f"{place}, {clause}." if frame.place_first else f"{clause} {place}."
    sentence = frame.opening + placed
    return sentence[0].upper() + sentence[1:]


def _clause(event: Scene, verb: Verb, lexicon: Lexicon, frame: Frame) -> str:
    subject, other, thing = (
        _with_article(lexicon.nouns[key], frame)
        for key in (event.subject, event.role, event.object)
    )
    if verb.inward:
        subject, other = other, subject
    predicate = _predicate(verb, event, frame)
    if frame.clause == "passive":
        return f"{thing} {predicate} {verb.link} {other} by {subject}"
    if frame.clause == "two_objects" and verb.two_objects:
        return f"{subject} {predicate} {other} {thing}"
    rest = f"{predicate} {thing} {verb.link} {other}"
    return f"it is {subject} who {rest}" if frame.clause == "cleft" else f"{subject} {rest}"


def _with_article(noun: str, frame: Frame) -> str:
    if not frame.progressive:
        return f"the {noun}"
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _predicate(verb: Verb, event: Scene, frame: Frame) -> str:
    is_or_not = "is not" if event.denied else "is"
    if frame.clause == "passive":
        being = " being" if frame.progressive else ""
        return f"{is_or_not}{being} {verb.participle}"
    if frame.progressive:
        return f"{is_or_not} {verb.progressive}"
    return f"does not {verb.base}" if event.denied else verb.present
