"""The model that a trial kept, as a folder on this machine or one to give away."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_methods.encoders.sentence_transformers_format import read_pooling
from cse_platform.errors import NotFoundError, OutputError
from cse_platform.export.folders import make_empty
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.runner.models import local_copy

COMMON_POOLERS = ("cls", "avg")
"""Those that sentence-transformers has too; with another it refuses to load the model."""


@contextmanager
def kept_model(trial: TrialDetails) -> Iterator[Path]:
    """The folder of a trial's best checkpoint, fetched for the while where it lies elsewhere.

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
    """How a kept model pools; BackboneError if the folder does not say so in a readable way."""
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
