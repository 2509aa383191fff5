"""Which nodes of a cluster fail trials while other nodes do not."""

from collections import defaultdict
from dataclasses import dataclass, field

SURE = 0.00001
"""A node is bad once its failures in a row would be as unlikely as this on the other nodes. Of
sweeps in which every third trial fails by chance, not one in a hundred loses a node."""


@dataclass
class _Node:
    """How trials did on one node."""

    well: set[str] = field(default_factory=set)
    """Trials that have reported a trained step there."""
    failed: set[str] = field(default_factory=set)
    in_a_row: list[str] = field(default_factory=list)
    """Trials that have failed there since the last one that did well, each once."""


class BadNodes:
    """Follows on which node each trial runs. All trials are known by key, and nodes by Ray's id."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, _Node] = defaultdict(_Node)
        self._place: dict[str, str] = {}
        self._bad: set[str] = set()

    def begins(self, trial: str, node: str) -> None:
        """A trial begins on a node, or goes on there."""
        self._place[trial] = node

    def does_well(self, trial: str) -> None:
        """A trial has reported a trained step."""
        if place := self._place.get(trial):
            self._nodes[place].well.add(trial)
            self._nodes[place].in_a_row.clear()

    def fails(self, trial: str) -> tuple[str, list[str]] | None:
        """A trial has failed. If that makes its node bad: the node, and what failed in a row there.

        That can do well elsewhere.
        """
        if (place := self._place.pop(trial, None)) is None:
            return None
        node = self._nodes[place]
        node.failed.add(trial)
        if trial not in node.in_a_row:
            node.in_a_row.append(trial)
        if place in self._bad or self._chance(place) > SURE:
            return None
        self._bad.add(place)
        return place, [*node.in_a_row]

    def _chance(self, place: str) -> float:
        """Of so many failures in a row on a node, if it failed trials as often as the others do."""
        others = [node for other, node in self._nodes.items() if other != place]
        well = sum(len(node.well) for node in others)
        failed = sum(len(node.failed) for node in others)
        rate = (failed + 1) / (well + failed + 2) if well else 1.0
        return float(rate ** len(self._nodes[place].in_a_row))
