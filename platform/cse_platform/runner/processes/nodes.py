"""The nodes of a Ray cluster: how many trials fit on them."""

from collections.abc import Mapping

from ray._private.state import available_resources_per_node, total_resources_per_node

from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.resources import Slot


def capacity(slot: Slot) -> int:
    """How many trials the cluster, as large as it is now, runs at once; 0 while nodes are lost."""
    return sum(_fitting(slot, has) for has in total_resources_per_node().values())


def free_slots(slot: Slot) -> int:
    """How many more trials fit beside all that runs on the cluster, as it was a moment ago."""
    return sum(_fitting(slot, has) for has in available_resources_per_node().values())


def refuse_too_small(slot: Slot) -> None:
    """Raise SweepRefusedError, with the way out, unless one trial fits on a node."""
    nodes = list(total_resources_per_node().values())
    for name, wanted in _wanted(slot).items():
        most = max((has.get(name, 0) for has in nodes), default=0)
        if wanted > most:
            where = "the cluster has" if len(nodes) == 1 else "no node of the cluster has more than"
            raise SweepRefusedError(
                f"a trial asks for {wanted:g} {name} and {where} {most:g}; "
                f"--set resources.{name.lower()}={most:g} runs it with what is there"
            )


def _fitting(slot: Slot, has: Mapping[str, float]) -> int:
    """How many trials fit on a node, none of which may be spread over two nodes."""
    return min(int(has.get(name, 0) / each + 1e-9) for name, each in _wanted(slot).items())


def _wanted(slot: Slot) -> dict[str, float]:
    wanted = {"CPU": slot.cpu, "GPU": slot.gpu}
    return {name: each for name, each in wanted.items() if each > 0}
