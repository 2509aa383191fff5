"""What a node of a cluster has in another way than the driver, in words; from facts alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["version", "code", "data", "storage"]

WAYS_OUT: Mapping[Kind, str] = {
    "version": "install there what is installed here",
    "code": "install the same code there",
    "data": "put the same files there",
    "storage": "let `storage:` name a place that every node can read and write",
}
_MOST_NAMED = 3
"""Of one kind: a whole other version of a package has dozens of other modules."""


@dataclass(frozen=True)
class Fact:
    """One thing that numbers follow from, or that a trial needs, as it is on one machine."""

    kind: Kind
    value: str | None
    """A version, or a hash of what is there; None if it cannot be had."""
    problem: str = ""
    """Why it cannot be had."""


def differences(there: Mapping[str, Fact], here: Mapping[str, Fact]) -> dict[Kind, list[str]]:
    """What of the facts of the driver, `here`, is not so on a node, by kind, a few words each.

    What cannot be had here either is no difference.
    """
    found: dict[Kind, list[str]] = {}
    for name, fact in here.items():
        other = there.get(name, Fact(fact.kind, None, "not known there"))
        if fact.value is not None and other.value != fact.value:
            found.setdefault(fact.kind, []).append(_difference(name, other, fact))
    return found


def why_no_trials(node: str, found: Mapping[Kind, list[str]]) -> str:
    """The sentence that names the node, what differs there, and the way out."""
    what = "; ".join(_listed(words) for words in found.values())
    return f"{node} gets no trials: {what}; {', and '.join(WAYS_OUT[kind] for kind in found)}"


def _difference(name: str, there: Fact, here: Fact) -> str:
    if there.value is None:
        return f"{name}: {there.problem}"
    if here.kind == "version":
        return f"{name} is {there.value} and not {here.value}"
    return f"{name} is another one"


def _listed(words: list[str]) -> str:
    more = len(words) - _MOST_NAMED
    return "; ".join(words[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
