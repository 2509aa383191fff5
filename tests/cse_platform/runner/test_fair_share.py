"""Whether a sweep leaves its next free slot to another job of the cluster."""

from collections.abc import Iterator
from itertools import count

from ray.core.generated.autoscaler_pb2 import ClusterResourceState
from ray.core.generated.common_pb2 import LABEL_OPERATOR_IN, LABEL_OPERATOR_NOT_IN

from cse_platform.runner.cluster.fair_share import FairShare

OWN, OTHER, THIRD = "01000000", "02000000", "03000000"


class Cluster:
    """What Ray tells of nodes with four CPUs each, on which jobs hold slots and wait for more."""

    def __init__(self, nodes: int = 1) -> None:
        self.told = ClusterResourceState()
        self._ids: Iterator[int] = count()
        for number in range(nodes):
            node = self.told.node_states.add(labels={"ray.io/node-id": f"node {number}"})
            node.total_resources["CPU"] = node.available_resources["CPU"] = 4

    def hold(self, job: str, *, slots: int, cpus: float = 1, node: int = 0) -> None:
        """So many placement groups of a job, each with a bundle on a node."""
        has = self.told.node_states[node]
        for _ in range(slots):
            group = f"{next(self._ids):028x}{job}"
            for name in ("CPU_group", "CPU_group_0"):
                has.total_resources[f"{name}_{group}"] = cpus
            has.available_resources["CPU"] -= cpus

    def wait(self, job: str, *bundles: float, labels: tuple[int, str] | None = None) -> None:
        """A placement group of a job waits for bundles of so many CPUs."""
        details = f"{next(self._ids):028x}{job}:PACK|PENDING"
        waiting = self.told.pending_gang_resource_requests.add(details=details)
        selector = waiting.bundle_selectors.add()
        for cpus in bundles:
            request = selector.resource_requests.add(resources_bundle={"CPU": cpus})
            if labels is not None:
                constraints = request.label_selectors.add().label_constraints
                constraints.add(
                    label_key="ray.io/node-id", operator=labels[0], label_values=[labels[1]]
                )

    def yields(self, looks: int = 1) -> list[bool]:
        """What a sweep decides at so many looks, a second apart."""
        clock = count()
        turns = FairShare(OWN, lambda: self.told, seconds=lambda: float(next(clock)))
        return [turns.yields() for _ in range(looks)]


def test_another_comes_first_until_shares_are_equal() -> None:
    for own, other, expected in ((4, 0, True), (3, 1, True), (2, 2, False), (1, 0, False)):
        cluster = Cluster()
        cluster.hold(OWN, slots=own)
        cluster.hold(OTHER, slots=other)
        cluster.hold(THIRD, slots=4 - own - other)
        assert cluster.yields() == [False]  # nobody waits
        cluster.wait(OWN, 1)
        assert cluster.yields() == [False]
        cluster.wait(OTHER, 1)
        assert cluster.yields() == [expected], (own, other)


def test_a_group_that_would_not_fit_all_the_same_gets_nothing() -> None:
    for bundles, expected in (
        ([1, 1], True),  # two of three slots are left, one is kept
        ([2], True),
        ([1, 1, 1], False),
        ([4], False),  # what the third job holds would have to be free, too
        ([40], False),
    ):
        cluster = Cluster()
        cluster.hold(OWN, slots=3)
        cluster.hold(THIRD, slots=1)
        cluster.wait(OTHER, *bundles)
        assert cluster.yields() == [expected], bundles


def test_a_bundle_needs_its_slots_on_one_node() -> None:
    cluster = Cluster(nodes=2)
    for node in range(2):
        cluster.hold(OWN, slots=1, node=node)
        cluster.hold(THIRD, slots=3, node=node)
    cluster.wait(OTHER, 2)
    assert cluster.yields() == [False]


def test_a_group_waits_for_the_nodes_that_it_names() -> None:
    for labels, expected in (
        ((LABEL_OPERATOR_IN, "node 0"), True),
        ((LABEL_OPERATOR_IN, "none"), False),  # a sweep that yields itself
        ((LABEL_OPERATOR_NOT_IN, "node 0"), False),  # a sweep that could use a further node
        ((LABEL_OPERATOR_NOT_IN, "node 1"), True),
    ):
        cluster = Cluster()
        cluster.hold(OWN, slots=4)
        cluster.wait(OTHER, 1, labels=labels)
        assert cluster.yields() == [expected], labels


def test_a_group_that_leaves_free_what_it_fits_into_is_not_waited_for_for_ever() -> None:
    cluster = Cluster()
    cluster.hold(OWN, slots=3)
    cluster.wait(OTHER, 1)
    assert cluster.yields(looks=20) == [True] * 10 + [False] * 10
