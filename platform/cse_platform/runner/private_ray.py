"""The parts of Ray that are not public and that the runner needs. It imports no Ray by itself."""

from cse_platform.private_hooks import refuse_missing_hooks

RAY = "ray>=2.60,<2.61"
"""As in pyproject.toml."""

_TUNE = "ray.tune.execution.tune_controller"
_RESOURCES = "ray.air.execution.resources.placement_group"
_TOKEN = "ray._private.authentication.authentication_token_setup"

RAY_HOOKS = (
    # The loop of Tune: `hooks.py` and `scheduler.py`.
    f"{_TUNE}:TrialRunnerWrapper._tune_controller",
    f"{_TUNE}:TuneController._actor_cache",
    f"{_TUNE}:TuneController._actor_manager",
    f"{_TUNE}:TuneController._trial_to_actor",
    f"{_TUNE}:TuneController.get_live_trials",
    f"{_TUNE}:TuneController.stop_trial",
    "ray.air.execution._internal.actor_manager:RayActorManager._resource_manager",
    "ray.air.execution._internal.actor_manager:RayActorManager.is_actor_started",
    "ray.tune.experiment:Trial.run_metadata",
    "ray.tune.experiment:Trial.temporary_state",
    "ray.tune.experiment.trial:_TemporaryTrialState.ray_actor",
    # Where trials run: `nodes/`.
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
    # Ray started or joined: `processes/`.
    "ray._private.parameter:RayParams",
    "ray._private.ray_constants:ENABLE_RAY_CLUSTER",
    "ray._private.services:GcsClient",
    "ray._private.services:canonicalize_bootstrap_address_or_die",
    "ray._private.utils:set_sigterm_handler",
    "ray._private.worker:listen_error_messages",
    "ray._private.runtime_env.constants:RAY_JOB_CONFIG_JSON_ENV_VAR",
    f"{_TOKEN}:AuthenticationTokenLoader",
)


def refuse_other_ray() -> None:
    """Raise SweepRefusedError if this version of Ray lacks something that the runner needs."""
    refuse_missing_hooks(RAY, RAY_HOOKS)
