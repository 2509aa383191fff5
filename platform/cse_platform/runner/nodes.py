"""Join a Ray cluster with the code of a sweep, and decide which of its nodes get trials."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray import tune
from ray.exceptions import RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.failures import one_line
from cse_platform.runner.node_facts import (
    Fact,
    describe_differences,
    describe_sweep,
    find_facts,
    write_mark,
)
from cse_platform.runner.pinned_packages import find_installed, list_lacking
from cse_platform.runner.ray_process import join_cluster
from cse_platform.runner.shipping import Shipment, shipment_of
from cse_platform.secrets import mask_text
from cse_platform.sweep.blocks import Resources
from cse_platform.sweep.spec import SweepSpec

NODE = "ray.io/node-id"
"""The label that Ray gives every node."""
_POLL_SECONDS = 1.0
"""Seconds between two polls for nodes that have joined."""
_GRACE_SECONDS = 10.0
"""Seconds that a start waits for further nodes once one has passed."""
_MOST_ASKED = 100
"""The most slots that are asked for at once; what is still lacking then is asked for again."""
_SLOW_SECONDS = 60.0
"""Seconds without an answer after which a node is reported as slow."""

Node = Mapping[str, Any]
"""A node of the cluster, as Ray describes it."""

_log = logging.getLogger(__name__)


_sent = Shipment()
"""What the nodes of the joined cluster have got."""


def join_with_code(address: str, specs: Iterable[SweepSpec], *, ship: bool) -> None:
    """Join the cluster at `address`.

    If `ship` is true, the cluster's nodes get the code of the sweeps, and packages that one of them
    lacks. A cluster whose nodes have them is kept. Raises SweepRefusedError as `join_cluster` does.
    """
    global _sent
    shipment = shipment_of(specs) if ship else Shipment()
    if shipment == _sent and ray.is_initialized():
        return
    with TemporaryDirectory(prefix="cse-ship-") as metadata:
        join_cluster(address, shipment.environment(Path(metadata)))
        if find_lacking(shipment.packages):
            join_cluster(address, shipment.environment(Path(metadata), installs=True))
    _sent = shipment


def list_nodes(slot: Resources | None = None) -> list[Node]:
    """List the nodes of the cluster that are alive; with a slot, those large enough for a trial."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return [n for n in nodes if slot is None or count_slots(slot, n["Resources"]) > 0]


def capacity(slot: Resources, *, among: Collection[str] | None = None) -> int:
    """Count the trials that the cluster at its current size can run at once.

    Only nodes whose ids are in `among` count; without it, all do.
    """
    nodes = [node for node in list_nodes() if among is None or node["NodeID"] in among]
    return sum(count_slots(slot, node["Resources"]) for node in nodes)


def count_slots(slot: Resources, resources: Mapping[str, float]) -> int:
    """Count the trials that fit on one node; a trial cannot span two."""
    amounts = _amounts_of(slot).items()
    return min(int(resources.get(name, 0) / amount + 1e-9) for name, amount in amounts)


def refuse_too_small(slot: Resources) -> None:
    """Raise SweepRefusedError, which says what to do, if no node is large enough for a trial."""
    nodes = [node["Resources"] for node in list_nodes()]
    for name, wanted in _amounts_of(slot).items():
        most = max((has.get(name, 0) for has in nodes), default=0)
        if wanted > most:
            scope = "the cluster has" if len(nodes) == 1 else "each node of the cluster has at most"
            way_out = f"--set resources.{name.lower()}={most:g} uses what is there"
            if name == "CPU" and most == 0:  # the cluster has only a head so far
                way_out = "add a node first"
            raise SweepRefusedError(
                f"a trial asks for {wanted:g} {name} and {scope} {most:g}; {way_out}"
            )
    if not any(count_slots(slot, has) for has in nodes):
        wanted_of_all = " and ".join(f"{n:g} {name}" for name, n in _amounts_of(slot).items())
        raise SweepRefusedError(
            f"a trial asks for {wanted_of_all} but no single node of the cluster has all of "
            "that; reduce resources:, or add a larger node"
        )


def _amounts_of(slot: Resources) -> dict[str, float]:
    """Map Ray's resource names to the amounts that a trial occupies; zero amounts are left out."""
    amounts = {"CPU": slot.cpu, "GPU": slot.gpu}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def run_on_node(node: Node, question: Callable[..., Any], *about: Any) -> Any:
    """Run a function on a node without reserving resources. Returns a future."""
    only_there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=only_there)(question).remote(*about)


def find_lacking(packages: Mapping[str, str]) -> list[str]:
    """Find the packages, as NAME==VERSION, that any node lacks; name those nodes in a warning.

    A node that does not answer in a minute counts as one that lacks none.
    """
    if not packages:
        return []
    nodes = {run_on_node(n, find_installed, [*packages]): n for n in list_nodes()}
    answered, _ = ray.wait([*nodes], num_returns=len(nodes), timeout=_SLOW_SECONDS)
    lacking: set[str] = set()
    for answer in answered:
        try:
            lacks = list_lacking(packages, ray.get(answer))
        except Exception:  # the node is gone, or gets no code; its check says so
            continue
        if lacks and nodes[answer]["Resources"].get("CPU", 0) > 0:
            more = f" and {len(lacks) - 1} more packages" if lacks[1:] else ""
            name = describe_node(nodes[answer])
            _log.warning("%s lacks %s%s; Ray installs that there", name, lacks[0], more)
            lacking.update(lacks)
    return sorted(lacking)


class NodeChecks:
    """Checks each node of a cluster before its first trial; `storage` is the folder of checkpoints.

    A node is asked, by a task on it, for what results depend on, and compared with this machine.
    """

    def __init__(self, spec: SweepSpec, storage: str) -> None:
        mark = f"{storage}/nodes"
        write_mark(mark)
        self._questions = describe_sweep(spec), mark
        self._driver_facts = find_facts(*self._questions)
        self._slot = spec.resources
        self._awaited: dict[str, tuple[Any, float]] = {}
        """The answers to come by node id, and when each node was asked."""
        self._slow: set[str] = set()
        self._polled = -_POLL_SECONDS
        self._present: set[str] = set()
        self._slots_asked: list[Any] = []
        """A task for each slot that is asked for; it ends as soon as a new node has that slot."""
        self.passed: set[str] = set()
        """Ids of the nodes that get trials, including nodes that have left since."""
        self.refused: dict[str, str] = {}
        """Why nodes get no trials, by node id."""

    def poll(self) -> bool:
        """Question new nodes and collect answers, at most once a second; True if it did.

        A refused node costs a warning.
        """
        if time.monotonic() < self._polled + _POLL_SECONDS:
            return False
        self._polled = time.monotonic()
        present = {node["NodeID"]: node for node in list_nodes(self._slot)}
        self._present = {*present}
        for name in present.keys() - self.passed - self.refused.keys() - self._awaited.keys():
            answer = run_on_node(present[name], find_facts, *self._questions)
            self._awaited[name] = answer, self._polled
        for name, (answer, since) in list(self._awaited.items()):
            if name not in present:
                del self._awaited[name]
            elif ray.wait([answer], timeout=0)[0]:
                del self._awaited[name]
                if why := explain_refusal(present[name], answer, self._driver_facts):
                    self._refuse_node(name, why)
                else:
                    self.passed.add(name)
            elif name not in self._slow and self._polled > since + _SLOW_SECONDS:
                self._slow.add(name)
                message = "has not answered for a minute; it gets no trials until it does"
                _log.warning("%s %s", describe_node(present[name]), message)
        return True

    def count_free(self) -> int:
        """Count the slots that are free on nodes that are not refused."""
        refused = capacity(self._slot, among=self.refused) if self.refused else 0
        return max(count_slots(self._slot, ray.available_resources()) - refused, 0)

    def ask_for_slots(self, count: int) -> None:
        """Ask Ray's autoscaler for this many slots on new nodes, instead of those asked for before.

        Each is a task that only a new node can run. Ray forgets it when the driver ends, and adds
        up what several drivers ask for; `request_resources` would do neither.
        """
        if self._slots_asked:
            every = len(self._slots_asked)
            _, self._slots_asked = ray.wait(self._slots_asked, num_returns=every, timeout=0)
        count = min(count, _MOST_ASKED)
        for task in self._slots_asked[count:]:
            ray.cancel(task)
        del self._slots_asked[count:]
        if count > len(self._slots_asked):
            present = ",".join(sorted(node["NodeID"] for node in list_nodes()))
            elsewhere = {NODE: f"!in({present})"}
            cpus, gpus = self._slot.cpu, self._slot.gpu
            task = ray.remote(num_cpus=cpus, num_gpus=gpus, label_selector=elsewhere)(lambda: None)
            self._slots_asked += [task.remote() for _ in range(count - len(self._slots_asked))]

    def wait(self) -> None:
        """Wait until all nodes have answered, or one has passed and the grace period is over.

        Raises SweepRefusedError, with the reasons of all nodes, if none passes.
        """
        passed_at = float("inf")
        while not (self.passed or self.refused) or self._awaited:
            if self.passed:
                passed_at = min(passed_at, time.monotonic())
                if time.monotonic() > passed_at + _GRACE_SECONDS:
                    break
            self._polled = -_POLL_SECONDS
            self.poll()
            time.sleep(0.1)
        if not self.passed:
            why = "; ".join(self.refused.values())
            raise SweepRefusedError(f"no node of the cluster can run this sweep: {why}")

    def avoid(self, node: str, why: str) -> bool:
        """Give no further trials to a node that has passed, and warn of it.

        Returns False, and does nothing, if no other node with room would be left.
        """
        large = {node["NodeID"]: node for node in list_nodes(self._slot)}
        if node not in large.keys() & self.passed or not large.keys() & (self.passed - {node}):
            return False
        self.passed.discard(node)
        way_out = f"{why}; repair it, and restart its Ray"
        self._refuse_node(node, f"{describe_node(large[node])} gets no more trials: {way_out}")
        return True

    @property
    def placement(self) -> tune.PlacementGroupFactory:
        """The placement of a trial on any node that has passed by now."""
        labels = {NODE: f"in({','.join(sorted(self.passed))})"}
        return tune.PlacementGroupFactory([_amounts_of(self._slot)], bundle_label_selector=[labels])

    def have_gone(self, nodes: Collection[str]) -> bool:
        """Whether none of these nodes is there any more, although others are that have passed."""
        usable = self._present & self.passed
        return bool(usable) and usable.isdisjoint(nodes)

    @property
    def task_options(self) -> dict[str, Any]:
        """The Ray options of a task that may run on any node that is not kept from it by now."""
        others = {node["NodeID"] for node in list_nodes()} - self.passed
        return {"label_selector": {NODE: f"!in({','.join(sorted(others))})"}} if others else {}

    def _refuse_node(self, node: str, why: str) -> None:
        self.refused[node] = why
        _log.warning("%s", why)


def explain_refusal(
    node: Node, answer: Any, driver_facts: Mapping[str, Fact], *, seconds: float | None = None
) -> str:
    """Explain why a node with this answer gets no trials; empty if it can run them."""
    try:
        why = describe_differences(ray.get(answer, timeout=seconds), driver_facts)
    except Exception as error:  # a node without this package can raise anything
        why = explain_no_answer(error)
    return f"{describe_node(node)} gets no trials: {why}" if why else ""


def explain_no_answer(error: Exception) -> str:
    """Explain why a node could not answer."""
    if not isinstance(error, RuntimeEnvSetupError):
        return f"{one_line(error)}; install cse-platform {version('cse-platform')} there"
    lines = [line.strip() for line in mask_text(str(error)).splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    why = (errors or lines or ["it does not say why"])[-1]
    return (
        f"code or packages cannot travel there ({why}); let the node have ray[default] and reach a "
        "package index, or install there what is installed here and give --no-ship"
    )


def describe_node(node: Node) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def describe_bad_nodes(spec: SweepSpec) -> Iterator[str]:
    """Ask each node of the cluster for what results depend on. Yields a line for each that differs.

    Nothing is written, so the storage is left out. For a dry run.
    """
    questions = describe_sweep(spec), None
    driver_facts, nodes = find_facts(*questions), list_nodes(spec.resources)
    for node, answer in [(node, run_on_node(node, find_facts, *questions)) for node in nodes]:
        if why := explain_refusal(node, answer, driver_facts, seconds=_SLOW_SECONDS):
            yield why
