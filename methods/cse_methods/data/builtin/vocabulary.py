"""The words of the built-in corpus. Words in one row mean the same; the first is the row's key.

Small on purpose: sentences that share most of their words are the negatives that teach.
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
"""Say nothing about the event."""


@dataclass(frozen=True)
class Verb:
    """One way to word an action; `link` joins the other person."""

    base: str
    present: str
    participle: str
    progressive: str
    link: Literal["to", "from"]
    inward: bool = False
    """Whether its subject is the one in the event's role: who borrows is lent to."""
    two_objects: bool = False
    """Whether `lends the pilot a book` is English."""


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
