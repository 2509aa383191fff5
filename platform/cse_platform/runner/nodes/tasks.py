"""A task on one node of a cluster, in an environment that holds what its trials need."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.tune.execution.class_cache import DEFAULT_ENV_VARS, ENV_VARS_TO_PROPAGATE
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cse_platform.secrets import mask_text

NODE = "ray.io/node-id"
"""The label that Ray gives to every node."""
_SETUP_SECONDS = 1800
"""For a copy of a Python with torch on a slow disk; Ray's own patience is a third of that."""
_PIP_OPTIONS = ["--disable-pip-version-check", "--retries=2", "--timeout=15"]


def trial_environment(packages: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The runtime environment of a trial's process, with the keys of an object store.

    `packages`, versions by name, are installed by Ray, into a copy of the node's own Python.
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
    """Why Ray could not make an environment, in one line of the pages that it tells."""
    lines = [line.strip() for line in mask_text(str(error)).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it does not say why"])[-1].removeprefix("ERROR: ")


def ask(node: str, question: Callable[[Any], Any], about: Any, environment: dict[str, Any]) -> Any:
    """Call a function on one node, where nothing has to be free for it; its answer to come."""
    task = ray.remote(question).options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        runtime_env=environment,
    )
    return task.remote(about)
