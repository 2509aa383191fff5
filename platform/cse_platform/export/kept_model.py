"""Exports or registers the model that a trial kept, and scores it on pairs of its dev set."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from cse_methods.data.dev_selection import sets_in
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.shared_sentences import group_by_sentence
from cse_methods.encoders.backbones import explain_foreign
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.loading import load_sentence_encoder
from cse_methods.encoders.sentence_transformers_format import read_pooling
from cse_methods.errors import DataError
from cse_methods.precision import Arithmetic
from cse_methods.training.dev_evaluation import DevSuite
from cse_platform.errors import NoStoreError, NotFoundError, OutputError
from cse_platform.export.folders import make_empty
from cse_platform.export.sweep_file import one_trial_sweep
from cse_platform.kept_models import local_copy
from cse_platform.leaderboard.comparisons import DevPairs
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.presentation.trial import explain_missing_model, explain_reproduction
from cse_platform.stores.mlflow.registry import register_model
from cse_platform.sweep.identity import dev_identity, training_data
from cse_platform.sweep.stores import has_mlflow, mlflow_uri

COMMON_POOLERS = ("cls", "avg")
"""Poolers that sentence-transformers has too; with any other it refuses to load the model."""


@contextmanager
def kept_model(trial: TrialDetails) -> Iterator[Path]:
    """Yield the folder of a trial's best checkpoint; a temporary copy if it is remote.

    Raises NotFoundError if none was kept, or it is gone or another trial's; BackboneError if its
    location cannot be reached.
    """
    again = explain_reproduction(trial)
    if trial.model is None:
        raise NotFoundError(
            f"trial {trial.key[:16]} has no model: {explain_missing_model(trial)}; {again}"
        )
    with local_copy(trial.model, trial.key) as folder:
        if not folder.is_dir():
            raise NotFoundError(
                f"the model of trial {trial.key[:16]} is not in {trial.model}: it was removed, "
                f"or is on another machine; {again}"
            )
        yield folder


def pooler_of(folder: Path) -> str:
    """Read the pooler of a kept model; `avg` stands for any of sentence-transformers' own.

    Raises BackboneError if its files are unreadable.
    """
    pooling = None if explain_foreign(folder) else read_pooling(folder)
    return pooling.pooler if pooling is not None else "avg"


def export_model(model: Path, folder: Path, *, card: str) -> None:
    """Copy a kept model, with its card (Markdown) as README.md, into a new or empty folder."""
    make_empty(folder)
    try:
        shutil.copytree(model, folder, dirs_exist_ok=True)
        (folder / "README.md").write_text(card, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{model} cannot be copied to {folder}: {error}") from error


def dev_pairs(trial: TrialDetails) -> DevPairs:
    """Compute the kept model's cosine for each pair of the dev set that the search climbs.

    Raises:
        NotFoundError: if the trial kept no model, or it is gone.
        BackboneError: if the model cannot be loaded.
        DataError: if the search climbs something other than one set of pairs, or the set cannot be
            read or has changed.
    """
    if len(several := sets_in(trial.dev.search)) > 1:
        raise DataError(f"a mean of dev sets, {' and '.join(several)}, has no pairs")
    with kept_model(trial) as folder:  # first, because its data may have to be fetched
        training, data = training_data(one_trial_sweep(trial), {}), data_setting_of(trial)
        dev = training.dev
        pairs = load_dev_pairs(dev, trial.dev.search, data)
        if dev_identity(dev, data, corpora=training.corpora) != trial.dev.identity:
            raise DataError(
                f"the dev sets of trial {trial.key[:16]} have changed since it was scored"
            )
        encoder = load_sentence_encoder(str(folder)).to(default_device())
        # Use the batches and the precision of the training, because pairs whose cosines differ in
        # the last digit may rank differently. Older trials do not record their precision.
        arithmetic = cast(Arithmetic, trial.provenance.get("precision", "fp32"))
        suite = DevSuite(dev, data=data, arithmetic=arithmetic)
        cosines = suite.similarities(encoder)[trial.dev.search]
    return DevPairs(pairs.gold, cosines.numpy(), group_by_sentence(pairs.first, pairs.second))


def data_setting_of(trial: TrialDetails) -> str | None:
    """Return the setting `data` of a trial; if its file left it to CSE_DATA, what that named."""
    named: str | None = one_trial_sweep(trial)["data"]
    if named is None and trial.dev.source in ("builtin", "hub"):
        return trial.dev.source
    return named


def register_trial(trial: TrialDetails, name: str, *, runs: Path) -> tuple[int, bool]:
    """Register the model of a trial as a version of a registered model, unless it is one already.

    Returns the version's number, and whether it is new. `runs` is the folder with the MLflow store,
    unless CSE_MLFLOW_URI names another store. Raises StoreError if there is no model, no store or
    no run of the trial; OutputError if sentence-transformers cannot load the model.
    """
    runs = runs.absolute()
    if not has_mlflow(runs):
        raise NoStoreError(
            f"no MLflow store at {runs / 'mlflow.db'}; name the sweep's store with "
            "CSE_MLFLOW_URI, or another folder with --runs"
        )
    with kept_model(trial) as folder:
        if (pooler := pooler_of(folder)) not in COMMON_POOLERS:
            raise OutputError(
                f"trial {trial.key[:16]} uses the pooler {pooler}, which sentence-transformers "
                "lacks, and MLflow loads models with that library; use cse-leaderboard export "
                "instead"
            )
        dev = f"dev {trial.dev.search} {trial.best_value!r} at step {trial.best_step}"
        facts, title = trial.provenance, f"{trial.method} on {trial.backbone}, seed {trial.seed}"
        needed = [name for name in ("torch", "transformers") if name in facts]
        return register_model(
            folder,
            trial.key,
            name=name,
            uri=mlflow_uri(runs),
            experiment=trial.spec.get("experiment", "cse"),
            artifacts=runs / "artifacts",
            tags={
                "method": trial.method,
                "backbone": trial.backbone,
                "seed": str(trial.seed),
                "configuration": trial.configuration.hash,
                "dev_search": trial.dev.search,
                "dev_value": repr(trial.best_value),
                "dev_identity": trial.dev.identity,
            },
            description=f"Trial {trial.key}: {title}; {dev}.",
            python=facts.get("python", "3"),
            requirements=(
                "sentence-transformers",
                *(f"{name}=={facts[name].partition('+')[0]}" for name in needed),
            ),
        )
