"""Which nodes of a joined cluster get trials: those that have all that the driver's machine has."""

import logging
import os
import time
from importlib.metadata import version
from typing import Any

import ray
from ray import tune
from ray.tune.execution.class_cache import DEFAULT_ENV_VARS, ENV_VARS_TO_PROPAGATE
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cse_methods.contract import Method
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.failures import one_line
from cse_platform.runner.processes.node_differences import differences, why_no_trials
from cse_platform.runner.processes.node_facts import (
    NodeQuestions,
    find_facts,
    questions_of,
    write_mark,
)
from cse_platform.runner.processes.nodes import nodes_with_room
from cse_platform.sweep.spec import SweepSpec

_NODE = "ray.io/node-id"
"""The label that Ray gives to every node."""
_EVERY = 1.0
"""Seconds between two looks for nodes that have joined."""
_OTHERS = 10.0
"""Seconds that a start waits for further nodes once it has one."""
_PATIENCE = 60.0
"""Seconds after which a node is said to be slow to answer."""

_log = logging.getLogger(__name__)


class NodeChecks:
    """Asks each node of a cluster before its first trial; `storage` is where checkpoints lie."""

    def __init__(self, spec: SweepSpec, method: Method, *, storage: str) -> None:
        mark = f"{storage}/nodes"
        write_mark(mark)
        self._questions = questions_of(spec, method, storage=mark)
        self._here = find_facts(self._questions)
        self._slot = spec.resources.slot
        self._asked: dict[str, tuple[Any, float]] = {}
        """By node, the answer to come, and when it was asked for."""
        self._slow: set[str] = set()
        self._told: set[str] = set()
        self._looked = -_EVERY
        self.passed: set[str] = set()
        """By Ray's ids; also those that have left since."""
        self.refused: dict[str, str] = {}
        """By node, why it gets no trials."""

    def look(self) -> bool:
        """Ask the nodes that have joined, and hear those that answer; True if one has passed.

        Why another one has not is said in a warning.
        """
        if time.monotonic() < self._looked + _EVERY:
            return False
        before = len(self.passed)
        self._see()
        self._tell()
        self._looked = time.monotonic()
        return len(self.passed) > before

    def _see(self) -> None:
        there = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        for name in nodes_with_room(self._slot) & there.keys():
            if name not in self.passed | self.refused.keys() | self._asked.keys():
                self._asked[name] = _ask(name, self._questions), time.monotonic()
        for name, (answer, since) in list(self._asked.items()):
            if name not in there:
                del self._asked[name]
            elif ray.wait([answer], timeout=0)[0]:
                del self._asked[name]
                self._hear(name, answer, _name_of(there[name]))
            elif name not in self._slow and time.monotonic() > since + _PATIENCE:
                self._slow.add(name)
                said = "has not answered for a minute, and gets no trials until it does"
                _log.warning("%s %s", _name_of(there[name]), said)

    def wait(self) -> None:
        """Return when all nodes have answered, or one has passed and the others take long.

        SweepRefusedError, with the sentences of all, if none passes.
        """
        passed_at = float("inf")
        while not (self.passed or self.refused) or self._asked:
            if self.passed:
                passed_at = min(passed_at, time.monotonic())
                if time.monotonic() > passed_at + _OTHERS:
                    break
            time.sleep(0.1)
            self._see()
        if not self.passed:
            why = "; ".join(self.refused.values())
            raise SweepRefusedError(f"no node of the cluster can run this sweep: {why}")
        self._tell()

    def avoid(self, node: str, why: str) -> bool:
        """Give a node that has passed no further trials, and say why.

        False, and nothing is done, where that would leave no other node.
        """
        if not nodes_with_room(self._slot) & (self.passed - {node}):
            return False
        self.passed.discard(node)
        there = {one["NodeID"]: one for one in ray.nodes()}
        wayout = "mend it, and start its Ray anew"
        self.refused[node] = f"{_name_of(there[node])} gets no more trials: {why}; {wayout}"
        self._tell()
        return True

    def others(self) -> dict[str, str]:
        """Labels that keep a task from the nodes that are there now and have not passed."""
        others = {node["NodeID"] for node in ray.nodes() if node["Alive"]} - self.passed
        return {_NODE: f"!in({','.join(sorted(others))})"} if others else {}

    def _tell(self) -> None:
        """Warn of each refused node, once."""
        for node in self.refused.keys() - self._told:
            _log.warning("%s", self.refused[node])
            self._told.add(node)

    def _hear(self, node: str, answer: Any, name: str) -> None:
        try:
            found = differences(ray.get(answer), self._here)
        except Exception as error:  # whatever a node without this package raises
            wayout = f"install cse-platform {version('cse-platform')} there"
            self.refused[node] = f"{name} gets no trials: {one_line(error)}; {wayout}"
            return
        if found:
            self.refused[node] = why_no_trials(name, found)
        else:
            self.passed.add(node)


class OnCheckedNodes(tune.PlacementGroupFactory):  # type: ignore[misc]  # Ray is untyped
    """The place of a trial: a node that has passed, by the time that Ray asks for it."""

    def __init__(self, asked: tune.PlacementGroupFactory, checks: NodeChecks) -> None:
        super().__init__(asked.bundles)
        self._checks = checks

    def to_placement_group(self) -> PlacementGroup:
        labels = {_NODE: f"in({','.join(sorted(self._checks.passed))})"}
        return placement_group(self.bundles, bundle_label_selector=[labels] * len(self.bundles))

    def __reduce__(self) -> Any:
        """Ray's own: Ray pickles its trials for its restore, which no sweep uses."""
        return tune.PlacementGroupFactory, (self.bundles,)


def _ask(node: str, questions: NodeQuestions) -> Any:
    """Look for the facts on one node, where nothing has to be free for it.

    The process has the environment of a trial's: the keys of an object store, too.
    """
    environment = DEFAULT_ENV_VARS | {
        name: os.environ[name] for name in ENV_VARS_TO_PROPAGATE & os.environ.keys()
    }
    look = ray.remote(find_facts).options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        runtime_env={"env_vars": environment},
    )
    return look.remote(questions)


def _name_of(node: dict[str, Any]) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
