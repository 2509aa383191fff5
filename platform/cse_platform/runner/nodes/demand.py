"""What a sweep could use beyond the nodes that are there, for Ray's autoscaler to see."""

import time
from collections.abc import Callable

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from cse_platform.runner.nodes.checks import NodeChecks
from cse_platform.runner.nodes.slots import free_slots, wanted_of
from cse_platform.runner.nodes.tasks import NODE
from cse_platform.sweep.resources import Slot

_EVERY = 5.0
"""Seconds between two looks at what is wanted; what is let go is free again by the next one."""
_MOST = 100
"""Slots that are asked for at a time; as nodes join, further ones are."""


class Demand:
    """Slots that only nodes yet to come can give: placement groups that wait for such nodes.

    The trials themselves wait for nodes that have passed their checks, and none is begun without a
    slot. By both, the autoscaler would see no reason to start a node.
    """

    def __init__(self, slot: Slot, nodes: NodeChecks) -> None:
        self._slot, self._nodes = slot, nodes
        self._there: set[str] = set()
        self._waiting: list[PlacementGroup] = []
        self._looked = -_EVERY

    def follow(self, trials: Callable[[], int]) -> None:
        """Ask for as many slots as trials could begin and have none; looks seldom."""
        if time.monotonic() < self._looked + _EVERY:
            return
        self._looked = time.monotonic()
        there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if there != self._there:  # what waits names the nodes of then, and may lie on a new one
            self._drop(to=0)
            self._there = there
            return
        refused = self._nodes.refused.keys()
        doubtful = len(refused) > len(self._nodes.passed)  # further nodes would be refused, too
        # Those that are not checked yet will have room, too.
        lacking = 0 if doubtful else trials() - free_slots(self._slot, among=there - refused)
        self._ask_for(min(max(lacking, 0), _MOST))

    def end(self) -> None:
        """Ask for none any more."""
        self._drop(to=0)

    def _ask_for(self, slots: int) -> None:
        self._drop(to=slots)
        others = {NODE: f"!in({','.join(sorted(self._there))})"}
        while len(self._waiting) < slots:
            bundle = wanted_of(self._slot)
            self._waiting.append(placement_group([bundle], bundle_label_selector=[others]))

    def _drop(self, *, to: int) -> None:
        while len(self._waiting) > to:
            remove_placement_group(self._waiting.pop())
