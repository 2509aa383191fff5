"""The parts of Optuna that are not public and that the search needs. It imports no Optuna."""

from cse_platform.private_hooks import refuse_missing_hooks

OPTUNA = "optuna>=5.0,<5.1"
"""As in pyproject.toml."""

OPTUNA_HOOKS = (
    # A study over a storage of ours: `study.py`, `known_trials.py`, `proposing/`.
    "optuna.study:Study._storage",
    "optuna.study:Study._study_id",
    "optuna.trial:FrozenTrial._trial_id",
    "optuna.storages._rdb.models:NOT_FOUND_MSG",
    # Samplers of ours: `samplers/`.
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


def refuse_other_optuna() -> None:
    """Raise SweepRefusedError if this version of Optuna lacks something that the search needs."""
    refuse_missing_hooks(OPTUNA, OPTUNA_HOOKS)
