"""List the private parts of Ray and Optuna that the platform uses, and check that they exist.

A private part can disappear in any version, which would often be noticed late or never. So each is
listed here, and a sweep is refused at its start if one is missing. The libraries are imported only
for that check.
"""

from functools import reduce
from importlib import import_module
from importlib.metadata import version
from inspect import unwrap
from typing import Any

from cse_platform.errors import SweepRefusedError

_TUNE = "ray.tune.execution.tune_controller"
_RESOURCES = "ray.air.execution.resources.placement_group"
_TOKEN = "ray._private.authentication.authentication_token_setup"

RAY_HOOKS = (
    # The loop of Tune: `runner/tune.py`.
    f"{_TUNE}:TrialRunnerWrapper._tune_controller",
    f"{_TUNE}:TuneController._actor_cache",
    f"{_TUNE}:TuneController._actor_manager",
    f"{_TUNE}:TuneController._trial_to_actor",
    f"{_TUNE}:TuneController.get_live_trials",
    f"{_TUNE}:TuneController.stop_trial",
    "ray.air.execution._internal.actor_manager:RayActorManager._resource_manager",
    "ray.air.execution._internal.actor_manager:RayActorManager.is_actor_started",
    "ray.train._internal.storage:StorageContext._make_checkpoint_dir_name",
    "ray.train._internal.storage:StorageContext.current_checkpoint_index",
    "ray.tune.experiment:Trial.run_metadata",
    "ray.tune.experiment:Trial.temporary_state",
    "ray.tune.experiment.trial:_TemporaryTrialState.ray_actor",
    # Where trials run: `runner/cluster/`.
    f"{_RESOURCES}:PlacementGroupAcquiredResources._annotate_remote_entity",
    f"{_RESOURCES}:PlacementGroupResourceManager._resource_cls",
    f"{_RESOURCES}:PlacementGroupResourceManager.cancel_resource_request",
    f"{_RESOURCES}:PlacementGroupResourceManager.get_resource_futures",
    f"{_RESOURCES}:PlacementGroupResourceManager.request_resources",
    "ray.tune.utils.object_cache:_ObjectCache._cached_objects",
    "ray.tune.utils.object_cache:_ObjectCache._num_cached_objects",
    "ray.actor:ActorHandle._actor_id",
    "ray._private.state:actors",
    "ray._private.state:available_resources_per_node",
    "ray._private.state:total_resources_per_node",
    # Ray started or joined: `runner/ray_process.py`.
    "ray._private.parameter:RayParams",
    "ray._private.ray_constants:ENABLE_RAY_CLUSTER",
    "ray._private.services:GcsClient",
    "ray._private.services:canonicalize_bootstrap_address_or_die",
    "ray._private.utils:set_sigterm_handler",
    "ray._private.worker:listen_error_messages",
    "ray.job_config:JobConfig._py_driver_sys_path",
    "ray.job_config:JobConfig._runtime_env_has_working_dir",
    "ray._private.runtime_env.constants:RAY_JOB_CONFIG_JSON_ENV_VAR",
    f"{_TOKEN}:AuthenticationTokenLoader",
)

OPTUNA_HOOKS = (
    # A trial that is not in its study yet: `proposals.py`, `study.py`, `learning.py` in `search/`.
    "optuna.study:Study._storage",
    "optuna.study:Study._study_id",
    "optuna.trial:FrozenTrial._trial_id",
    # Samplers of ours: `search/samplers/`.
    "optuna._transform:_SearchSpaceTransform",
    "optuna._gp.acqf:LogEI",
    "optuna._gp.acqf:qLogEI",
    "optuna._gp.acqf:LogEI._threshold",
    "optuna._gp.gp:GPRegressor._X_train",
    "optuna._gp.gp:GPRegressor.posterior",
    "optuna.samplers:GPSampler._gprs_cache_list",
    "optuna.samplers:GPSampler._optimize_acqf",
    "optuna.samplers:CmaEsSampler._attr_key_generation",
    "optuna.samplers:CmaEsSampler._init_optimizer",
    "optuna.samplers:CmaEsSampler._restore_optimizer",
    "optuna.samplers:CmaEsSampler._with_margin",
)

_GAUSSIAN_PROCESS = "optuna._gp."
"""Prefix of the modules of Optuna's Gaussian process."""

HOOKS = {"ray>=2.60,<2.61": RAY_HOOKS, "optuna>=5.0,<5.1": OPTUNA_HOOKS}
"""The parts needed for each version range of pyproject.toml, as `module:name` or
`module:Class.attribute`; an attribute may be set in `__init__`."""


def refuse_missing_hooks(*, gaussian_process: bool = True) -> None:
    """Raise SweepRefusedError if the installed Ray or Optuna lacks a part that is needed.

    Optuna's Gaussian process imports torch, so its parts are checked only if it is used.
    """
    for requirement, hooks in HOOKS.items():
        needed = [h for h in hooks if gaussian_process or not h.startswith(_GAUSSIAN_PROCESS)]
        if missing := [hook for hook in needed if not _is_present(hook)]:
            library = requirement.partition(">=")[0]
            raise SweepRefusedError(
                f"{library} {version(library)} lacks what this version of cse-platform needs of "
                f"it: {', '.join(missing)}; pip install '{requirement}'"
            )


def _is_present(hook: str) -> bool:
    module, _, names = hook.partition(":")
    *owners, name = names.split(".")
    try:
        owner = reduce(getattr, owners, import_module(module))
    except (ImportError, AttributeError):
        return False
    return hasattr(owner, name) or name in _find_init_names(owner)


def _find_init_names(owner: Any) -> set[str]:
    """Find the names used in the `__init__` of a class or of its base classes."""
    starts = [vars(cls).get("__init__") for cls in getattr(owner, "__mro__", ())]
    codes = [unwrap(start).__code__ for start in starts if hasattr(start, "__code__")]
    return {name for code in codes for name in code.co_names}
