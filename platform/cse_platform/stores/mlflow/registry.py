"""Registers a trial's model as a version in MLflow's model registry, linked to the trial's run."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cse_platform.errors import NotFoundError
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow import store
from cse_platform.stores.mlflow.tags import TRIAL, format_tags

ARTIFACT = "model"
"""Folder of the model among the artifacts of its run."""

_FLAVOR = "sentence_transformers"
_LOADER = "mlflow.sentence_transformers"
_WEIGHTS = "model.sentence_transformer"
"""Folder in which this flavor of MLflow expects the model."""

_UPLOAD_SECONDS = "300"


def register_model(
    folder: Path,
    trial: str,
    *,
    name: str,
    uri: str,
    experiment: str,
    artifacts: Path,
    tags: Mapping[str, str],
    description: str,
    python: str,
    requirements: Sequence[str],
) -> tuple[int, bool]:
    """Register a model as a new version, unless its trial, given its key, has one under that name.

    Returns the version's number, and whether it is new. The requirements are those that pip must
    install to load the model.

    The model becomes an artifact of the trial's run, as an MLflow model of the flavor
    `sentence_transformers`; that library must be able to load it, but is not needed here. A missing
    registered model is created. Raises StoreError if there is no store, or it cannot be reached,
    has no finished run of the trial, refuses the name or the artifacts, or names a foreign place
    for these.
    """
    # A server may take longer than usual over a large file.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", _UPLOAD_SECONDS)
    store.check_existing(uri)
    client, opened = store.open_experiment(uri, experiment, artifacts=artifacts)
    with store.store_errors(uri):
        runs = client.search_runs(
            [opened.experiment_id],
            f"tags.{TRIAL} = '{trial}' AND attributes.status = 'FINISHED'",
            order_by=["attributes.start_time DESC"],
        )
        # The run of the trial itself comes before those that reuse it.
        run = min(runs, key=lambda run: "reused" in run.data.tags, default=None)
        if run is None:
            raise NotFoundError(
                f"MLflow at {mask_url(uri)} has no finished run of trial {trial[:16]} in "
                f"experiment {experiment!r}; name the sweep's runs folder with --runs or "
                "its store with CSE_MLFLOW_URI, or fill it: run cse-sweep on its file again"
            )
        store.refuse_foreign_artifacts(uri, str(run.info.artifact_uri), artifacts=artifacts)
        from mlflow.exceptions import MlflowException

        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        run_id = str(run.info.run_id)
        # Not filtered by name, which may contain quotes.
        versions = client.search_model_versions(f"tags.{TRIAL} = '{trial}'")
        if known := next((version for version in versions if version.name == name), None):
            return int(known.version), False
        client.log_artifacts(run_id, str(folder), f"{ARTIFACT}/{_WEIGHTS}")
        with tempfile.TemporaryDirectory(prefix="cse-register-") as files:
            _write_description(Path(files), run_id, python, requirements)
            client.log_artifacts(run_id, files, ARTIFACT)
        made = client.create_model_version(
            name,
            source=f"{run.info.artifact_uri}/{ARTIFACT}",
            run_id=run_id,
            tags=format_tags({TRIAL: trial, **tags}),
            description=description,
        )
        return int(made.version), True


def _write_description(folder: Path, run_id: str, python: str, requirements: Sequence[str]) -> None:
    """Write the files that make the folder an MLflow model."""
    import numpy as np
    from mlflow import pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    vectors = TensorSpec(np.dtype("float32"), (-1, -1))
    signature = ModelSignature(inputs=Schema([ColSpec("string")]), outputs=Schema([vectors]))
    model = Model(artifact_path=ARTIFACT, run_id=run_id, signature=signature)
    pyfunc.add_to_model(model, loader_module=_LOADER, data=_WEIGHTS, python_env="python_env.yaml")
    model.add_flavor(_FLAVOR, code=None)
    environment = {"python": python, "dependencies": ["-r requirements.txt"]}
    # JSON is YAML.
    (folder / "python_env.yaml").write_text(json.dumps(environment), encoding="utf-8")
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    model.save(str(folder / "MLmodel"))
