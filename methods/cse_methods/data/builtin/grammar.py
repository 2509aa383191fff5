"""A small grammar of events: one meaning has many wordings, and two meanings have a gold score.

An event is a transfer: a person (subject) does something (action) with a thing (object), another
person takes part (role), and it happens somewhere (place). A wording chooses synonyms, active or
passive voice, the verb or its converse (`lend to` and `borrow from` describe one event), the
positions of place and receiver, and an opening without meaning. The gold score depends on the
events only, never on the words.
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
    """A meaning: one concept for each slot, and whether the action is denied."""

    subject: str
    action: str
    object: str
    role: str
    place: str
    denied: bool = False


@dataclass(frozen=True)
class Lexicon:
    """The word that a speaker uses for each concept."""

    nouns: dict[str, str]
    verbs: dict[str, Verb]


@dataclass(frozen=True)
class Frame:
    """The shape of a sentence.

    A progressive sentence has the article `a` and the present progressive, any other one `the` and
    the simple present.
    """

    clause: Clause = "active"
    place_first: bool = False
    progressive: bool = False
    opening: str = ""


def gold(first: Scene, second: Scene) -> float:
    """Return how far two events agree in meaning, 0 to 5; symmetric.

    Subject, action, object, role and place give one point each if they are the same. If the actions
    are opposite (one is denied, or they are antonyms), the sentences contradict each other: the
    action gives no point, and the points of the other slots are halved. If two people swap their
    parts, neither subject nor role gives a point.
    """
    agreeing = {slot for slot in SLOTS if getattr(first, slot) == getattr(second, slot)}
    opposed = first.denied != second.denied
    if first.action != second.action:
        opposed = not opposed and {first.action, second.action} in ANTONYMS
    return len(agreeing - {"action"}) / 2 if opposed else float(len(agreeing))


def sentence_of(event: Scene, lexicon: Lexicon, frame: Frame) -> str:
    """Word an event as one English sentence.

    If the clause has two objects but the verb does not take them, the active clause is used.
    """
    verb, place = lexicon.verbs[event.action], lexicon.nouns[event.place]
    clause = _word_clause(event, verb, lexicon, frame)
    placed = f"{place}, {clause}." if frame.place_first else f"{clause} {place}."
    sentence = frame.opening + placed
    return sentence[0].upper() + sentence[1:]


def _word_clause(event: Scene, verb: Verb, lexicon: Lexicon, frame: Frame) -> str:
    nouns = [lexicon.nouns[key] for key in (event.subject, event.role, event.object)]
    indefinite = ["an" if noun[0] in "aeiou" else "a" for noun in nouns]
    articles = indefinite if frame.progressive else ["the"] * 3
    subject, other, thing = map(" ".join, zip(articles, nouns, strict=True))
    if verb.inward:
        subject, other = other, subject
    is_or_not = "is not" if event.denied else "is"
    if frame.clause == "passive":
        being = " being" if frame.progressive else ""
        predicate = f"{is_or_not}{being} {verb.participle}"
    elif frame.progressive:
        predicate = f"{is_or_not} {verb.progressive}"
    else:
        predicate = f"does not {verb.base}" if event.denied else verb.present
    if frame.clause == "passive":
        return f"{thing} {predicate} {verb.link} {other} by {subject}"
    if frame.clause == "two_objects" and verb.two_objects:
        return f"{subject} {predicate} {other} {thing}"
    ending = f"{predicate} {thing} {verb.link} {other}"
    return f"it is {subject} who {ending}" if frame.clause == "cleft" else f"{subject} {ending}"
