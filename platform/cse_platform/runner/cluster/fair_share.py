"""Share the slots of one cluster fairly among several sweeps."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.worker import global_worker
from ray.autoscaler.v2.sdk import get_cluster_resource_state
from ray.core.generated.autoscaler_pb2 import ClusterResourceState, NodeState
from ray.core.generated.common_pb2 import LABEL_OPERATOR_IN
from ray.tune.utils.object_cache import _ObjectCache

_POLL_SECONDS = 1.0
"""Seconds between two queries of the cluster's state."""
_JOB_DIGITS = 8
"""The number of last hexadecimal digits of a placement group's id that are its job's id."""
_MAX_UNTAKEN = 10
"""Consecutive polls in which a group fits into free resources and does not take them, after which
it is ignored."""
_TOLERANCE = 1e-9
"""Rounding tolerance for sums of fractions of a CPU or GPU."""


class FairShare:
    """Decides whether this sweep leaves its next free slot to another Ray job that waits for one.

    It does if the other job would still have no more slots than this sweep, and if that job's
    placement group would fit into the free resources plus the slots that this sweep would give up.
    So sweeps approach equal shares as their trials end; no trial is stopped, and a sweep never
    gives up its last slot.

    Args:
        own: the id of this sweep's Ray job.
        look: queries Ray for the cluster's current state.
        seconds: the clock.
    """

    def __init__(
        self,
        own: str,
        look: Callable[[], ClusterResourceState],
        *,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own, self._look, self._seconds = own, look, seconds
        self._looked = -_POLL_SECONDS
        self._yields = False
        self._untaken: dict[str, int] = {}
        """By waiting group, the consecutive polls in which it fitted into free resources."""

    @classmethod
    def of_this_driver(cls) -> "FairShare":
        """Make the fair share of this process's Ray job on the cluster that it has joined.

        It queries the autoscaler's state, because Ray's table of placement groups keeps every
        group ever made.
        """
        own = str(ray.get_runtime_context().get_job_id())
        return cls(own, lambda: get_cluster_resource_state(global_worker.gcs_client))

    def yields(self) -> bool:
        """Whether another job comes first; queries the cluster at most once a second."""
        now = self._seconds()
        if now >= self._looked + _POLL_SECONDS:
            self._looked = now
            self._yields = self._should_yield(self._look())
        return self._yields

    def _should_yield(self, cluster: ClusterResourceState) -> bool:
        groups = {
            request.details.partition(":")[0]: request
            for request in cluster.pending_gang_resource_requests
        }
        foreign = {
            group: asked for group, asked in groups.items() if _parse_job_id(group) != self._own
        }
        self._untaken = {group: self._untaken.get(group, 0) for group in foreign}
        if not foreign:
            return False
        held = Counter(
            map(
                _parse_job_id,
                {group for node in cluster.node_states for group in _find_held_resources(node)},
            )
        )
        nodes = [_Node.of(node, self._own) for node in cluster.node_states]
        yields = False
        for group, asked in foreign.items():
            to_free = _count_slots_to_free(asked.bundle_selectors[0].resource_requests, nodes)
            spare = held[self._own] - held[_parse_job_id(group)] - 1
            yields |= to_free <= spare and self._untaken[group] < _MAX_UNTAKEN
            if self._untaken[group] < _MAX_UNTAKEN:
                self._untaken[group] = self._untaken[group] + 1 if to_free == 0 else 0
        return yields


@dataclass
class _Node:
    labels: Mapping[str, str]
    free: Mapping[str, float]
    slots: Sequence[Mapping[str, float]]
    """The resources of each of this sweep's slots on the node."""

    @classmethod
    def of(cls, node: NodeState, job: str) -> "_Node":
        slots = [
            has for group, has in _find_held_resources(node).items() if _parse_job_id(group) == job
        ]
        return cls(node.labels, dict(node.available_resources), slots)

    def admits(self, request: Any) -> bool:
        """Whether the node satisfies the label selectors of a bundle."""
        return all(
            (self.labels.get(label.label_key) in label.label_values)
            == (label.operator == LABEL_OPERATOR_IN)
            for selector in request.label_selectors
            for label in selector.label_constraints
        )

    def count_slots_to_free(self, bundle: Mapping[str, float]) -> float:
        """Count the slots of this sweep that must become free before a bundle fits."""
        for count in range(len(self.slots) + 1):
            has = _sum_resources([self.free, *self.slots[:count]])
            if all(has[name] >= each - _TOLERANCE for name, each in bundle.items()):
                return count
        return float("inf")

    def take(self, bundle: Mapping[str, float]) -> None:
        """Assign a bundle to this node: to free resources and the slots that it needs."""
        count = int(self.count_slots_to_free(bundle))
        rest = {name: -each for name, each in bundle.items()}
        self.free = _sum_resources([self.free, *self.slots[:count], rest])
        self.slots = self.slots[count:]


def _count_slots_to_free(requests: Iterable[Any], nodes: Iterable[_Node]) -> float:
    """Count the slots of this sweep that a placement group needs; inf if all are not enough."""
    nodes = [_Node(node.labels, node.free, node.slots) for node in nodes]
    total = 0.0
    for request in requests:
        bundle = dict(request.resources_bundle)
        fitting = [node for node in nodes if node.admits(request)]
        best = min(fitting, key=lambda node: node.count_slots_to_free(bundle), default=None)
        if best is None or (count := best.count_slots_to_free(bundle)) == float("inf"):
            return float("inf")
        best.take(bundle)
        total += count
    return total


def _find_held_resources(node: NodeState) -> dict[str, dict[str, float]]:
    """Find the resources that placement groups hold on a node, by id: `CPU_group_ID` = 2 CPUs."""
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for name, amount in node.total_resources.items():
        resource, _, group = name.partition("_group_")
        if group and "_" not in group:  # otherwise it is a single bundle of the group
            groups[group][resource] = amount
    return groups


def _sum_resources(resources: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for each in resources:
        for name, amount in each.items():
            total[name] += amount
    return total


def _parse_job_id(group: str) -> str:
    return group[-_JOB_DIGITS:]


class IdleWorkers(_ObjectCache):  # type: ignore[misc]  # Ray is untyped
    """Keeps every idle process of Ray for the next trial, unless its slot is for another job.

    Ray by itself keeps only one.
    """

    def __init__(self, yields: Callable[[], bool]) -> None:
        super().__init__(may_keep_one=False)
        self._yields = yields

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep an idle process. Returns False if it must end."""
        if self._yields():
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        return True

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Yield the processes that must end."""
        if force_all or (self.num_cached_objects and self._yields()):
            yield from super().flush_cached_objects(force_all=True)
