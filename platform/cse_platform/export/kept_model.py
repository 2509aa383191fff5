"""Exports the model that a trial kept, and scores it on the pairs of its dev set."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cse_methods.data.dev_selection import DevSelection, climbed_sets
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.sentence_transformers_format import read_pooling
from cse_methods.errors import DataError
from cse_methods.training.dev_evaluation import DevSuite
from cse_platform.errors import NotFoundError, OutputError
from cse_platform.export.folders import make_empty
from cse_platform.export.reproduction.sweep_file import one_trial_sweep
from cse_platform.leaderboard.comparisons import DevPairs
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.runner.models import local_copy
from cse_platform.sweep.identity import dev_identity

COMMON_POOLERS = ("cls", "avg")
"""Poolers that sentence-transformers has, too; with another it refuses to load the model."""


@contextmanager
def kept_model(trial: TrialDetails) -> Iterator[Path]:
    """Yield the folder of a trial's best checkpoint, a temporary copy if it lies elsewhere.

    NotFoundError if none was kept, or it is gone or another trial's; BackboneError if it cannot be
    reached.
    """
    again = f"cse-leaderboard reproduce {trial.key[:8]} writes {trial.again}"
    if trial.model is None:
        raise NotFoundError(f"trial {trial.key[:16]} has no model: {trial.why_no_model}; {again}")
    with local_copy(trial.model, trial.key) as folder:
        if not folder.is_dir():
            raise NotFoundError(
                f"the model of trial {trial.key[:16]} is gone from {trial.model}, or lies on "
                f"another machine; {again}"
            )
        yield folder


def pooler_of(folder: Path) -> str:
    """Read how a kept model pools; BackboneError if the folder does not say so readably."""
    pooling = read_pooling(folder)
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
    """Compute the cosine of each pair of the searched dev set, under the kept model.

    Raises:
        NotFoundError: if the trial kept no model, or it is gone.
        BackboneError: if the model cannot be loaded.
        DataError: if it climbs something else than one set of pairs, or that cannot be read or
            holds other pairs by now.
    """
    if len(several := climbed_sets(trial.dev.search)) > 1:
        raise DataError(f"the mean of {' and '.join(several)} has no pairs of its own")
    dev, data = DevSelection.model_validate(one_trial_sweep(trial)["dev"]), data_setting_of(trial)
    gold = load_dev_pairs(dev, trial.dev.search, data).gold
    if dev_identity(dev, data) != trial.dev.identity:
        raise DataError(
            f"the dev sets of trial {trial.key[:16]} hold other pairs by now than it was judged by"
        )
    with kept_model(trial) as folder:
        encoder = load_encoder(str(folder)).to("cuda" if torch.cuda.is_available() else "cpu")
        # The very batches of the training: cosines that differ in a last digit rank otherwise.
        cosines = DevSuite(dev, data=data).similarities(encoder)[trial.dev.search]
    return DevPairs(gold, cosines.numpy())


def data_setting_of(trial: TrialDetails) -> str | None:
    """Find the setting `data` of a trial; if its file left that to CSE_DATA, what that named."""
    named: str | None = one_trial_sweep(trial)["data"]
    if named is None and trial.dev.source in ("builtin", "hub"):
        return trial.dev.source
    return named
