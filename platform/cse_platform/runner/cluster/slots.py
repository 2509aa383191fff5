"""Count the trials that fit on the nodes of a Ray cluster, and run single tasks on one node."""

import os
from collections.abc import Callable, Container, Mapping
from typing import Any

import ray
from ray._private.state import actors, available_resources_per_node, total_resources_per_node
from ray.exceptions import RuntimeEnvSetupError
from ray.tune.execution.class_cache import DEFAULT_ENV_VARS, ENV_VARS_TO_PROPAGATE
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cse_platform.errors import SweepRefusedError
from cse_platform.secrets import mask_text
from cse_platform.sweep.blocks import Slot


def capacity(slot: Slot, *, among: Container[str] | None = None) -> int:
    """Count the trials that the cluster at its current size can run at once.

    Only nodes whose ids are in `among` count; without it, all do.
    """
    return _count_slots(slot, total_resources_per_node(), among)


def free_slots(slot: Slot, *, among: Container[str] | None = None) -> int:
    """Count the further trials that fit now; Ray's state may be a moment old."""
    return _count_slots(slot, available_resources_per_node(), among)


def nodes_with_room(slot: Slot) -> set[str]:
    """Return the ids of the nodes that are large enough for a trial."""
    return {
        node
        for node, has in total_resources_per_node().items()
        if _count_slots_on_node(slot, has) > 0
    }


def node_of(actor: Any) -> str:
    """Look up the id of the node on which an actor runs."""
    return str(actors(actor._actor_id.hex())["Address"]["NodeID"])


def refuse_too_small(slot: Slot) -> None:
    """Raise SweepRefusedError, which says what to do, if no node is large enough for a trial."""
    nodes = list(total_resources_per_node().values())
    for name, wanted in wanted_of(slot).items():
        most = max((has.get(name, 0) for has in nodes), default=0)
        if wanted > most:
            where = "the cluster has" if len(nodes) == 1 else "no node of the cluster has more than"
            wayout = f"--set resources.{name.lower()}={most:g} runs it with what is there"
            if name == "CPU" and most == 0:  # the cluster has only a head so far
                wayout = "let a node join it first"
            raise SweepRefusedError(
                f"a trial asks for {wanted:g} {name} and {where} {most:g}; {wayout}"
            )


def _count_slots(
    slot: Slot, nodes: Mapping[str, Mapping[str, float]], among: Container[str] | None
) -> int:
    return sum(
        _count_slots_on_node(slot, has)
        for node, has in nodes.items()
        if among is None or node in among
    )


def _count_slots_on_node(slot: Slot, has: Mapping[str, float]) -> int:
    """Count the trials that fit on one node; a trial cannot span two."""
    return min(int(has.get(name, 0) / each + 1e-9) for name, each in wanted_of(slot).items())


def wanted_of(slot: Slot) -> dict[str, float]:
    """Map Ray's resource names to the amounts that a trial occupies; zero amounts are left out."""
    wanted = {"CPU": slot.cpu, "GPU": slot.gpu}
    return {name: each for name, each in wanted.items() if each > 0}


NODE = "ray.io/node-id"
"""The label that Ray gives every node."""
_SETUP_SECONDS = 1800
"""Timeout for copying a Python with torch on a slow disk; Ray's default is a third of that."""
_PIP_OPTIONS = ["--disable-pip-version-check", "--retries=2", "--timeout=15"]


def trial_environment(packages: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Make the runtime environment of a trial's process, with credentials of object stores.

    Ray installs `packages`, versions by name, into a copy of the node's Python.
    """
    variables = DEFAULT_ENV_VARS | {
        name: os.environ[name] for name in ENV_VARS_TO_PROPAGATE & os.environ.keys()
    }
    environment: dict[str, Any] = {"env_vars": variables}
    if packages is not None:
        pins = [f"{name}=={version}" for name, version in packages.items()]
        environment["pip"] = {"packages": pins, "pip_install_options": _PIP_OPTIONS}
        environment["config"] = {"setup_timeout_seconds": _SETUP_SECONDS}
    return environment


def setup_problem(error: RuntimeEnvSetupError) -> str:
    """Extract the line that says why Ray could not set up an environment."""
    lines = [line.strip() for line in mask_text(str(error)).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it does not say why"])[-1].removeprefix("ERROR: ")


def run_on_node(
    node: str, question: Callable[[Any], Any], about: Any, environment: dict[str, Any]
) -> Any:
    """Run a function on a node without reserving resources. Returns a future."""
    task = ray.remote(question).options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        runtime_env=environment,
    )
    return task.remote(about)
