"""Check which nodes of a joined cluster get trials, place trials there, and request more nodes."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import ray
from ray import tune
from ray.air.execution.resources.placement_group import PlacementGroupAcquiredResources
from ray.exceptions import RuntimeEnvSetupError
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from cse_methods.contract import Method
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.cluster.facts import (
    Fact,
    compare_facts,
    find_facts,
    questions_of,
    why_no_trials,
    write_mark,
)
from cse_platform.runner.cluster.pinned_packages import find_installed, format_names, list_lacking
from cse_platform.runner.cluster.slots import (
    NODE,
    free_slots,
    nodes_with_room,
    run_on_node,
    setup_problem,
    trial_environment,
    wanted_of,
)
from cse_platform.runner.failures import one_line
from cse_platform.sweep.blocks import Slot
from cse_platform.sweep.spec import SweepSpec

_POLL_SECONDS = 1.0
"""Seconds between two polls for nodes that have joined."""
_GRACE_SECONDS = 10.0
"""Seconds that a start waits for further nodes once one has passed."""
_SLOW_SECONDS = 60.0
"""Seconds without an answer after which a node is reported as slow."""

_PREREQUISITES = {"Python", "torch"}
"""What must be installed on a node already."""

_log = logging.getLogger(__name__)


@dataclass
class _Inquiry:
    """A question to a node that it has not answered yet."""

    answer: Any
    since: float = field(default_factory=time.monotonic)
    is_last: bool = True
    """False for the question about the node's packages, which comes first."""
    lacks: str = ""
    """Packages that Ray must install on the node before it can answer."""


class NodeChecks:
    """Checks each node of a cluster before its first trial; `storage` is the folder of checkpoints.

    `packages` maps names to versions; Ray installs on a node those that it lacks. If it is empty,
    nothing is installed.
    """

    def __init__(
        self, spec: SweepSpec, method: Method, *, storage: str, packages: Mapping[str, str]
    ) -> None:
        mark = f"{storage}/nodes"
        write_mark(mark)
        self._questions = questions_of(spec, method, storage=mark)
        self._here = find_facts(self._questions)
        self._slot = spec.resources.slot
        self._packages = packages
        self._asked: dict[str, _Inquiry] = {}
        self._equipped: set[str] = set()
        """Nodes on which Ray installs packages."""
        self._slow: set[str] = set()
        self._warned: set[str] = set()
        self._looked = -_POLL_SECONDS
        self.passed: set[str] = set()
        """Ids of the nodes that get trials, including nodes that have left since."""
        self.refused: dict[str, str] = {}
        """Why nodes get no trials, by node id."""

    def look(self) -> bool:
        """Question new nodes and collect answers. Returns True if another node has passed.

        Refused nodes are reported in a warning.
        """
        if time.monotonic() < self._looked + _POLL_SECONDS:
            return False
        before = len(self.passed)
        self._poll_nodes()
        self._warn_of_refused()
        self._looked = time.monotonic()
        return len(self.passed) > before

    def _poll_nodes(self) -> None:
        there = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        for name in nodes_with_room(self._slot) & there.keys():
            if name in self.passed | self.refused.keys() | self._asked.keys():
                continue
            if self._packages:
                names, environment = [*self._packages], trial_environment()
                answer = run_on_node(name, find_installed, names, environment)
                self._asked[name] = _Inquiry(answer, is_last=False)
            else:
                self._asked[name] = self._ask_for_facts(name)
        for name, inquiry in list(self._asked.items()):
            if name not in there:
                del self._asked[name]
            elif ray.wait([inquiry.answer], timeout=0)[0]:
                del self._asked[name]
                self._handle_answer(name, inquiry, _describe_node(there[name]))
            elif name not in self._slow and time.monotonic() > inquiry.since + _SLOW_SECONDS:
                self._slow.add(name)
                message = "has not answered for a minute, and gets no trials until it does"
                _log.warning("%s %s", _describe_node(there[name]), message)

    def wait(self) -> None:
        """Wait until all nodes have answered, or one has passed and the grace period is over.

        Raises SweepRefusedError, with the reasons of all nodes, if none passes.
        """
        passed_at = float("inf")
        while not (self.passed or self.refused) or self._asked:
            if self.passed:
                passed_at = min(passed_at, time.monotonic())
                if time.monotonic() > passed_at + _GRACE_SECONDS:
                    break
            time.sleep(0.1)
            self._poll_nodes()
        if not self.passed:
            why = "; ".join(self.refused.values())
            raise SweepRefusedError(f"no node of the cluster can run this sweep: {why}")
        self._warn_of_refused()

    def avoid(self, node: str, why: str) -> bool:
        """Give no further trials to a node that has passed, and warn of it.

        Returns False, and does nothing, if no other node with room would be left.
        """
        if not nodes_with_room(self._slot) & (self.passed - {node}):
            return False
        self.passed.discard(node)
        nodes = {each["NodeID"]: each for each in ray.nodes()}
        wayout = "mend it, and start its Ray anew"
        self.refused[node] = f"{_describe_node(nodes[node])} gets no more trials: {why}; {wayout}"
        self._warn_of_refused()
        return True

    def environment_on(self, node: str) -> dict[str, Any]:
        """Make the runtime environment of a trial on a node that has passed."""
        return trial_environment(self._packages if node in self._equipped else None)

    def task_options(self) -> dict[str, Any]:
        """Make the Ray options of a task that may run on any node with one common environment."""
        there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        passed = self.passed & there or self.passed
        same = passed - self._equipped or passed  # a task has one environment for all nodes
        others = there - same
        return {
            "label_selector": {NODE: f"!in({','.join(sorted(others))})"} if others else {},
            "runtime_env": self.environment_on(next(iter(same))),
        }

    def _warn_of_refused(self) -> None:
        """Warn of each refused node, once."""
        for node in self.refused.keys() - self._warned:
            _log.warning("%s", self.refused[node])
            self._warned.add(node)

    def _ask_for_facts(self, node: str, lacks: str = "") -> _Inquiry:
        answer = run_on_node(node, find_facts, self._questions, self.environment_on(node))
        return _Inquiry(answer, lacks=lacks)

    def _handle_answer(self, node: str, inquiry: _Inquiry, name: str) -> None:
        try:
            answer = ray.get(inquiry.answer)
        except Exception as error:  # a node without this package can raise anything
            self.refused[node] = f"{name} gets no trials: {explain_no_answer(error, inquiry.lacks)}"
            return
        if not inquiry.is_last:
            self._provide_packages(node, answer, name)
        elif differing := compare_facts(answer, self._here):
            self.refused[node] = why_no_trials(name, differing)
        else:
            self.passed.add(node)

    def _provide_packages(self, node: str, there: Mapping[str, str], name: str) -> None:
        """Let Ray install the packages that a node lacks; it must have Python and torch itself."""
        facts = {package: Fact("version", number) for package, number in there.items()}
        needed = {package: self._here[package] for package in _PREREQUISITES & self._here.keys()}
        if differing := compare_facts(facts, needed):
            self.refused[node] = why_no_trials(name, differing)
            return
        lacks = list_lacking(self._packages, there)
        if lacks:
            self._equipped.add(node)
            _log.warning("%s lacks %s; Ray installs that there", name, format_names(lacks))
        self._asked[node] = self._ask_for_facts(node, format_names(lacks))


def explain_no_answer(error: Exception, lacks: str) -> str:
    """Explain why a node could not answer; `lacks` names the packages that Ray had to install."""
    if not isinstance(error, RuntimeEnvSetupError):
        return f"{one_line(error)}; install cse-platform {version('cse-platform')} there"
    why = setup_problem(error)
    if lacks:
        return (
            f"it lacks {lacks}, and Ray cannot install that there ({why}); let the node have "
            "ray[default] and reach a package index, or give --no-ship, if it is to be taken as it "
            "is"
        )
    return (
        f"the code cannot travel there ({why}); install ray[default] there, or install there what "
        "is installed here and give --no-ship"
    )


def _describe_node(node: dict[str, Any]) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


class CheckedNodesPlacement(tune.PlacementGroupFactory):  # type: ignore[misc]  # Ray is untyped
    """Places a trial on any node that has passed by the time Ray requests the placement group."""

    def __init__(self, asked: tune.PlacementGroupFactory, checks: NodeChecks) -> None:
        super().__init__(asked.bundles)
        self.checks = checks

    def to_placement_group(self) -> PlacementGroup:
        labels = {NODE: f"in({','.join(sorted(self.checks.passed))})"}
        return placement_group(self.bundles, bundle_label_selector=[labels] * len(self.bundles))

    def __reduce__(self) -> Any:
        """Pickle as Ray's own class: Ray pickles its trials for a restore that no sweep uses."""
        return tune.PlacementGroupFactory, (self.bundles,)


class NodeEnvironmentResources(PlacementGroupAcquiredResources):  # type: ignore[misc]
    """Acquired resources that give a trial's process the environment of its node.

    Ray supports a single environment for all trials, and chooses each trial's node only later.
    """

    def _annotate_remote_entity(self, entity: Any, bundle: Any, bundle_index: int) -> Any:
        node = placement_group_table(self.placement_group)["bundles_to_node_id"][bundle_index]
        environment = self.resource_request.checks.environment_on(node)
        return super()._annotate_remote_entity(
            _WithEnvironment(entity, environment), bundle, bundle_index
        )


@dataclass(frozen=True)
class _WithEnvironment:
    """A remote class whose options always include a runtime environment."""

    entity: Any
    environment: dict[str, Any]

    def options(self, **others: Any) -> Any:
        return self.entity.options(runtime_env=self.environment, **others)


_REQUEST_SECONDS = 5.0
"""Seconds between two updates of the requests; cancelled ones are free again by the next."""
_MAX_REQUESTS = 100
"""The most slots that are requested at a time; more follow as nodes join."""


class SlotRequests:
    """Asks the autoscaler for slots, by placement groups that only new nodes can satisfy.

    Trials themselves can only be placed on nodes that have passed their checks, and none begins
    without a slot, so the autoscaler would otherwise see no reason to start a node.
    """

    def __init__(self, slot: Slot, nodes: NodeChecks) -> None:
        self._slot, self._nodes = slot, nodes
        self._there: set[str] = set()
        self._waiting: list[PlacementGroup] = []
        self._looked = -_REQUEST_SECONDS

    def follow(self, trials: Callable[[], int]) -> None:
        """Request the slots that waiting trials lack, at most once every `_REQUEST_SECONDS`."""
        if time.monotonic() < self._looked + _REQUEST_SECONDS:
            return
        self._looked = time.monotonic()
        there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if there != self._there:  # pending requests exclude only the former nodes
            self._cancel_requests(to=0)
            self._there = there
            return
        refused = self._nodes.refused.keys()
        doubtful = len(refused) > len(self._nodes.passed)  # new nodes would be refused, too
        # Nodes that are not checked yet count as free.
        lacking = 0 if doubtful else trials() - free_slots(self._slot, among=there - refused)
        slots = min(max(lacking, 0), _MAX_REQUESTS)
        self._cancel_requests(to=slots)
        others = {NODE: f"!in({','.join(sorted(self._there))})"}
        while len(self._waiting) < slots:
            bundle = wanted_of(self._slot)
            self._waiting.append(placement_group([bundle], bundle_label_selector=[others]))

    def end(self) -> None:
        """Cancel all requests."""
        self._cancel_requests(to=0)

    def _cancel_requests(self, *, to: int) -> None:
        while len(self._waiting) > to:
            remove_placement_group(self._waiting.pop())
