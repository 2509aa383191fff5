"""The words of the built-in corpus.

Words in one row are synonyms, and the first of them is the key of the row. The vocabulary is small
so that many sentences share most of their words: these are the negatives that teach most.
"""

from dataclasses import dataclass
from typing import Literal

PEOPLE = (
    ("doctor", "physician"),
    ("lawyer", "attorney"),
    ("teacher", "instructor"),
    ("child", "kid"),
    ("king", "monarch"),
    ("soldier", "trooper"),
    ("pilot", "aviator"),
    ("cook", "chef"),
    ("policeman", "cop"),
    ("priest", "clergyman"),
    ("writer", "author"),
    ("student", "pupil"),
)
THINGS = (
    ("book", "volume"),
    ("photograph", "picture"),
    ("car", "automobile"),
    ("bicycle", "bike"),
    ("coat", "jacket"),
    ("map", "chart"),
    ("bag", "sack"),
    ("phone", "telephone"),
    ("film", "movie"),
    ("jewel", "gem"),
)
PLACES = (
    ("in the garden", "in the yard"),
    ("at the market", "at the bazaar"),
    ("in the forest", "in the woods"),
    ("on the beach", "by the sea"),
    ("in the church", "in the chapel"),
    ("on the ship", "aboard the vessel"),
    ("in the hospital", "at the clinic"),
    ("in the street", "on the road"),
)
OPENINGS = (
    "as far as we know, ",
    "according to the report, ",
    "everybody can see that ",
    "it is said that ",
    "the people who live here say that ",
)
"""Openings of a sentence that say nothing about the event."""


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


ACTIONS = {
    "lend": (
        Verb("lend", "lends", "lent", "lending", "to", two_objects=True),
        Verb("loan", "loans", "loaned", "loaning", "to", two_objects=True),
        Verb("borrow", "borrows", "borrowed", "borrowing", "from", inward=True),
    ),
    "sell": (
        Verb("sell", "sells", "sold", "selling", "to", two_objects=True),
        Verb("buy", "buys", "bought", "buying", "from", inward=True),
        Verb("purchase", "purchases", "purchased", "purchasing", "from", inward=True),
    ),
    "give": (
        Verb("give", "gives", "given", "giving", "to", two_objects=True),
        Verb("donate", "donates", "donated", "donating", "to"),
        Verb("receive", "receives", "received", "receiving", "from", inward=True),
    ),
    "steal": (
        Verb("steal", "steals", "stolen", "stealing", "from"),
        Verb("snatch", "snatches", "snatched", "snatching", "from"),
    ),
    "show": (
        Verb("show", "shows", "shown", "showing", "to", two_objects=True),
        Verb("display", "displays", "displayed", "displaying", "to"),
    ),
    "hide": (
        Verb("hide", "hides", "hidden", "hiding", "from"),
        Verb("conceal", "conceals", "concealed", "concealing", "from"),
    ),
    "promise": (
        Verb("promise", "promises", "promised", "promising", "to", two_objects=True),
        Verb("pledge", "pledges", "pledged", "pledging", "to"),
    ),
    "refuse": (
        Verb("refuse", "refuses", "refused", "refusing", "to", two_objects=True),
        Verb("deny", "denies", "denied", "denying", "to", two_objects=True),
    ),
    "send": (
        Verb("send", "sends", "sent", "sending", "to", two_objects=True),
        Verb("ship", "ships", "shipped", "shipping", "to", two_objects=True),
    ),
    "return": (
        Verb("return", "returns", "returned", "returning", "to"),
        Verb("hand back", "hands back", "handed back", "handing back", "to"),
    ),
}
ANTONYMS = (
    frozenset({"give", "steal"}),
    frozenset({"show", "hide"}),
    frozenset({"promise", "refuse"}),
)
