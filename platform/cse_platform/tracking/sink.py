"""What a store must offer to be filled from the journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cse_platform.tracking.events import Event


class Sink(Protocol):
    """A store that mirrors journals, each up to a position of its own.

    Called from one background thread only. Whatever it raises is retried later with the same
    entries, so `apply` is atomic or idempotent.
    """

    name: str
    """As people know it, e.g. `leaderboard`; it stands in messages."""

    def position(self, journal: str) -> int:
        """End offset of the last event applied from this journal; 0 when it is new here."""

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Take over (end offset, event) pairs, at least one; `position` is then the last offset."""


@dataclass(frozen=True)
class SinkHealth:
    """How far a sink has come."""

    name: str
    behind: int
    """Events of the journal that the sink does not have yet."""
    error: str | None
    """Why the last attempt failed; None while all is well."""
