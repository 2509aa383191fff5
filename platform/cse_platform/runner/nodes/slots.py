"""The nodes of a Ray cluster: how many trials fit on them."""

from collections.abc import Container, Mapping
from typing import Any

from ray._private.state import actors, available_resources_per_node, total_resources_per_node

from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.resources import Slot


def capacity(slot: Slot, *, among: Container[str] | None = None) -> int:
    """How many trials the cluster, as large as it is now, runs at once; 0 while nodes are lost.

    `among` has the ids of the nodes that count; without it all do.
    """
    return _room(slot, total_resources_per_node(), among)


def free_slots(slot: Slot, *, among: Container[str] | None = None) -> int:
    """How many more trials fit beside all that runs on the cluster, as it was a moment ago."""
    return _room(slot, available_resources_per_node(), among)


def nodes_with_room(slot: Slot) -> set[str]:
    """The ids of the nodes that are large enough for a trial."""
    return {node for node, has in total_resources_per_node().items() if _fitting(slot, has) > 0}


def node_of(actor: Any) -> str:
    """The id of the node on which an actor runs."""
    return str(actors(actor._actor_id.hex())["Address"]["NodeID"])


def refuse_too_small(slot: Slot) -> None:
    """Raise SweepRefusedError, with the way out, unless one trial fits on a node."""
    nodes = list(total_resources_per_node().values())
    for name, wanted in wanted_of(slot).items():
        most = max((has.get(name, 0) for has in nodes), default=0)
        if wanted > most:
            where = "the cluster has" if len(nodes) == 1 else "no node of the cluster has more than"
            wayout = f"--set resources.{name.lower()}={most:g} runs it with what is there"
            if name == "CPU" and most == 0:  # the head of a cluster that has no other node yet
                wayout = "let a node join it first"
            raise SweepRefusedError(
                f"a trial asks for {wanted:g} {name} and {where} {most:g}; {wayout}"
            )


def _room(
    slot: Slot, nodes: Mapping[str, Mapping[str, float]], among: Container[str] | None
) -> int:
    return sum(_fitting(slot, has) for node, has in nodes.items() if among is None or node in among)


def _fitting(slot: Slot, has: Mapping[str, float]) -> int:
    """How many trials fit on a node, none of which may be spread over two nodes."""
    return min(int(has.get(name, 0) / each + 1e-9) for name, each in wanted_of(slot).items())


def wanted_of(slot: Slot) -> dict[str, float]:
    """What a trial occupies, by Ray's names."""
    wanted = {"CPU": slot.cpu, "GPU": slot.gpu}
    return {name: each for name, each in wanted.items() if each > 0}
