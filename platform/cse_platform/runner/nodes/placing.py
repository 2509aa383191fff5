"""Where trials run on a cluster: on nodes that have passed, each in the environment of its node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray import tune
from ray.air.execution.resources.placement_group import PlacementGroupAcquiredResources
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table

from cse_platform.runner.nodes.checks import NodeChecks
from cse_platform.runner.nodes.tasks import NODE

_NO_NODE = "none"


class OnCheckedNodes(tune.PlacementGroupFactory):  # type: ignore[misc]  # Ray is untyped
    """The place of a trial: a node that has passed, by the time that Ray asks for it.

    No node while the sweep yields to another one.
    """

    def __init__(
        self, asked: tune.PlacementGroupFactory, checks: NodeChecks, yields: Callable[[], bool]
    ) -> None:
        super().__init__(asked.bundles)
        self.checks = checks
        self.yields = yields

    def to_placement_group(self) -> PlacementGroup:
        nodes = [_NO_NODE] if self.yields() else sorted(self.checks.passed)
        labels = {NODE: f"in({','.join(nodes)})"}
        return placement_group(self.bundles, bundle_label_selector=[labels] * len(self.bundles))

    def __reduce__(self) -> Any:
        """Ray's own: Ray pickles its trials for its restore, which no sweep uses."""
        return tune.PlacementGroupFactory, (self.bundles,)


class InItsEnvironment(PlacementGroupAcquiredResources):  # type: ignore[misc]  # Ray is untyped
    """A place that Ray has found; the trial's process there gets the environment of its node.

    Ray knows one environment for all trials, and finds the place of each later.
    """

    def _annotate_remote_entity(self, entity: Any, bundle: Any, bundle_index: int) -> Any:
        node = placement_group_table(self.placement_group)["bundles_to_node_id"][bundle_index]
        environment = self.resource_request.checks.environment_on(node)
        return super()._annotate_remote_entity(_In(entity, environment), bundle, bundle_index)


@dataclass(frozen=True)
class _In:
    """A class of Ray's that takes its options together with an environment."""

    entity: Any
    environment: dict[str, Any]

    def options(self, **others: Any) -> Any:
        return self.entity.options(runtime_env=self.environment, **others)
