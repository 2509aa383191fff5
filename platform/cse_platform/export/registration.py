"""Registers a trial's kept model as a version of a model in MLflow's model registry."""

import os
from pathlib import Path

from cse_platform.errors import NoStoreError, OutputError
from cse_platform.export.kept_model import COMMON_POOLERS, kept_model, pooler_of
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.sweep.stores import mlflow_uri
from cse_platform.tracking.mlflow.registry import RegisteredVersion, RegistryEntry, register_model

_NEEDED = ("torch", "transformers")


def register_trial(trial: TrialDetails, name: str, *, runs: Path) -> RegisteredVersion:
    """Register the model of a trial as a version of a model, unless it is one already.

    `runs` is the folder that has the MLflow store, where CSE_MLFLOW_URI names no other. StoreError
    if there is no model, no store or no run of the trial; OutputError if sentence-transformers
    could not load the model.
    """
    runs = runs.absolute()
    if not (os.environ.get("CSE_MLFLOW_URI") or (runs / "mlflow.db").is_file()):
        raise NoStoreError(
            f"no MLflow store at {runs / 'mlflow.db'}; CSE_MLFLOW_URI names the one that the "
            "sweep wrote to, --runs another folder"
        )
    with kept_model(trial) as folder:
        if (pooler := pooler_of(folder)) not in COMMON_POOLERS:
            raise OutputError(
                f"trial {trial.key[:16]} pools by {pooler}, which sentence-transformers does not "
                "have, and MLflow would load it by that library; cse-leaderboard export gives the "
                "model itself"
            )
        return register_model(
            folder,
            _make_entry(trial),
            name=name,
            uri=mlflow_uri(runs),
            experiment=trial.spec.get("experiment", "cse"),
            artifacts=runs / "artifacts",
        )


def _make_entry(trial: TrialDetails) -> RegistryEntry:
    dev = f"dev {trial.dev.search} {trial.best_value!r} at step {trial.best_step}"
    facts = trial.provenance
    versions = {name: facts[name].partition("+")[0] for name in _NEEDED if name in facts}
    return RegistryEntry(
        trial=trial.key,
        tags={
            "method": trial.method,
            "backbone": trial.backbone,
            "seed": str(trial.seed),
            "configuration": trial.configuration.hash,
            "dev_search": trial.dev.search,
            "dev_value": repr(trial.best_value),
            "dev_identity": trial.dev.identity,
        },
        description=(
            f"Trial {trial.key}: {trial.method} on {trial.backbone}, seed {trial.seed}; {dev}."
        ),
        python=facts.get("python", "3"),
        requirements=(
            "sentence-transformers",
            *(f"{name}=={version}" for name, version in versions.items()),
        ),
    )
