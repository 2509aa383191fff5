"""The words of the built-in corpus, from `vocabulary.json` beside this file.

Words in one row are synonyms, and the first of them is the key of the row. The vocabulary is small
so that many sentences share most of their words: these are the negatives that teach most.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Verb:
    """A verb that expresses an action; `link` is its preposition before the other person."""

    base: str
    present: str
    participle: str
    progressive: str
    link: Literal["to", "from"]
    inward: bool = False
    """Whether its subject is the person in the event's role: who borrows is the one lent to."""
    two_objects: bool = False
    """Whether it takes two objects, as in `lends the pilot a book`."""


Words = tuple[tuple[str, ...], ...]
_STORED: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
PEOPLE: Words = tuple(map(tuple, _STORED["people"]))
THINGS: Words = tuple(map(tuple, _STORED["things"]))
PLACES: Words = tuple(map(tuple, _STORED["places"]))
OPENINGS: tuple[str, ...] = tuple(_STORED["openings"])
"""Openings of a sentence that say nothing about the event."""
ANTONYMS: tuple[frozenset[str], ...] = tuple(map(frozenset, _STORED["antonyms"]))
ACTIONS = {
    action: tuple(Verb(**verb) for verb in verbs) for action, verbs in _STORED["actions"].items()
}
