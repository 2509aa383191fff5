"""List the private parts of Ray and Optuna that the platform uses, and check that they exist.

A private part can disappear in any version, which would often be noticed late or never. So each is
listed here, and a sweep is refused at its start if one is missing. The libraries are imported only
for that check.
"""

import sys
from functools import reduce
from importlib import import_module
from importlib.metadata import version
from inspect import unwrap

from cse_platform.errors import SweepRefusedError

RAY_HOOKS = (
    # A worker that is done is kept for the next stage; a new one imports for 5 to 10 s.
    "ray.tune.execution.tune_controller:TuneController._actor_cache",
    # Nothing that a worker has pickled is unpickled in the driver.
    "ray.tune.experiment:Trial.run_metadata",
    # A trial that hangs, or that a person stops, is killed, even if its Python does not answer.
    "ray.tune.experiment.trial:_TemporaryTrialState.ray_actor",
    # Two processes less, of 60 MB each, and 3 s less where another Ray has the agent's port.
    "ray._private.parameter:RayParams",
    # Ray starts 0.8 s sooner, in half the CPU time of the rest, without the dashboard's process.
    "ray._private.services:start_api_server",
    # Our own Ray listens on the loopback alone.
    "ray._private.ray_constants:ENABLE_RAY_CLUSTER",
    # No pages of `[state-dump]` among the lines of a sweep.
    "ray._private.worker:listen_error_messages",
    # A user's `statistics.py` is not imported by workers.
    "ray.job_config:JobConfig._runtime_env_has_working_dir",
    # An address without a cluster is refused in ten seconds, where Ray waits 40 and ends the
    # process; a cluster gets the token that it wants.
    "ray._private.services:GcsClient",
    "ray._private.authentication.authentication_token_setup:Config",
)
"""Each with what it gains. Where one is missing or changes, Ray has no public way to the same."""

OPTUNA_HOOKS = (
    # A Gaussian process aims above the best expected score, not a lucky one: `samplers/gp.py`.
    "optuna.samplers:GPSampler._optimize_acqf",
    "optuna.samplers:GPSampler._gprs_cache_list",
    "optuna._gp.acqf:LogEI._threshold",
    # Also once trials have failed; otherwise 8 of 20 proposals fail near a border, else at most 6.
    "optuna._gp.acqf:LogCEI._acqf",
    "optuna._gp.gp:GPRegressor._X_train",
    "optuna._gp.gp:GPRegressor.posterior",
)
_GAUSSIAN_PROCESS = "optuna._gp."
"""Prefix of the modules of Optuna's Gaussian process."""

HOOKS = {"ray>=2.60,<2.61": RAY_HOOKS, "optuna>=5.0,<5.1": OPTUNA_HOOKS}
"""The parts needed for each version range of pyproject.toml, as `module:name` or
`module:Class.attribute`; an attribute may be set in `__init__`."""


def refuse_missing_hooks(*, gaussian_process: bool = True) -> None:
    """Raise SweepRefusedError if Ray or Optuna cannot be imported, or lacks a part that is needed.

    Optuna's Gaussian process imports torch, so its parts are checked only if it is used.
    """
    for requirement, hooks in HOOKS.items():
        library = requirement.partition(">=")[0]
        needed = [h for h in hooks if gaussian_process or not h.startswith(_GAUSSIAN_PROCESS)]
        try:
            missing = [hook for hook in needed if not _is_present(hook)]
        except Exception as error:  # whatever a library raises while it is imported
            fix = f"; python -OO is not supported by {library}: unset PYTHONOPTIMIZE"
            raise SweepRefusedError(
                f"{library} cannot be imported: {type(error).__name__}: {error}"
                f"{fix if sys.flags.optimize > 1 else ''}"
            ) from error
        if missing:
            raise SweepRefusedError(
                f"{library} {version(library)} lacks what this version of cse-platform needs of "
                f"it: {', '.join(missing)}; pip install '{requirement}'"
            )


def _is_present(hook: str) -> bool:
    module, _, names = hook.partition(":")
    *owners, name = names.split(".")
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        gone = str(error.name)
        if "." not in gone or not f"{module}.".startswith(f"{gone}."):
            raise  # the library itself, or what it needs, is missing
        return False
    try:
        owner = reduce(getattr, owners, imported)
    except AttributeError:
        return False
    # An attribute may be set in the `__init__` of a class or of its base classes.
    starts = [vars(cls).get("__init__") for cls in getattr(owner, "__mro__", ())]
    codes = [unwrap(start).__code__ for start in starts if hasattr(start, "__code__")]
    return hasattr(owner, name) or any(name in code.co_names for code in codes)
