"""A trial's model in MLflow's model registry: from the leaderboard's story to the entry there."""

import os
from pathlib import Path

from cse_platform.errors import NoStoreError, OutputError
from cse_platform.export.kept_model import COMMON_POOLERS, kept_model, pooler_of
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.sweep.stores import mlflow_uri
from cse_platform.tracking.mlflow.registry import RegisteredVersion, RegistryEntry, register_model

_NEEDED = ("torch", "transformers")


def register_trial(story: TrialDetails, name: str, *, runs: Path) -> RegisteredVersion:
    """Make the model of a trial a version of a registered model, unless it is one already.

    Args:
        story: of the trial.
        name: of the registered model.
        runs: folder that has the MLflow store, where CSE_MLFLOW_URI names no other.

    Raises:
        StoreError: if there is no model, no store or no run of the trial, or sentence-transformers
            could not load the model.
    """
    runs = runs.absolute()
    if not (os.environ.get("CSE_MLFLOW_URI") or (runs / "mlflow.db").is_file()):
        raise NoStoreError(
            f"no MLflow store at {runs / 'mlflow.db'}; CSE_MLFLOW_URI names the one that the "
            "sweep wrote to, --runs another folder"
        )
    with kept_model(story) as folder:
        if (pooler := pooler_of(folder)) not in COMMON_POOLERS:
            raise OutputError(
                f"trial {story.key[:16]} pools by {pooler}, which sentence-transformers does not "
                "have, and MLflow would load it by that library; cse-leaderboard export gives the "
                "model itself"
            )
        return register_model(
            folder,
            _entry(story),
            name=name,
            uri=mlflow_uri(runs),
            experiment=story.spec.get("experiment", "cse"),
            artifacts=runs / "artifacts",
        )


def _entry(story: TrialDetails) -> RegistryEntry:
    dev = f"dev {story.dev.search} {story.best_value!r} at step {story.best_step}"
    facts = story.provenance
    versions = {name: facts[name].partition("+")[0] for name in _NEEDED if name in facts}
    return RegistryEntry(
        trial=story.key,
        tags={
            "method": story.method,
            "backbone": story.backbone,
            "seed": str(story.seed),
            "configuration": story.configuration.hash,
            "dev_search": story.dev.search,
            "dev_value": repr(story.best_value),
            "dev_identity": story.dev.identity,
        },
        description=(
            f"Trial {story.key}: {story.method} on {story.backbone}, seed {story.seed}; {dev}."
        ),
        python=facts.get("python", "3"),
        requirements=(
            "sentence-transformers",
            *(f"{name}=={version}" for name, version in versions.items()),
        ),
    )
