"""The model that a trial kept, as a folder on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_methods.encoders.sentence_transformers_format import read_pooling
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.runner.models import local_copy

COMMON_POOLERS = ("cls", "avg")
"""Those that sentence-transformers has too; with another it refuses to load the model."""


@contextmanager
def kept_model(trial: TrialDetails) -> Iterator[Path]:
    """The folder of a trial's best checkpoint, fetched for the while where it lies elsewhere.

    Raises:
        NotFoundError: if none was kept, or it is gone.
        BackboneError: if it cannot be reached.
    """
    again = f"cse-leaderboard reproduce {trial.key[:8]} writes {trial.again}"
    if trial.model is None:
        raise NotFoundError(f"trial {trial.key[:16]} has no model: {trial.why_no_model}; {again}")
    with local_copy(trial.model) as folder:
        if not folder.is_dir():
            raise NotFoundError(
                f"the model of trial {trial.key[:16]} is gone from {trial.model}, or lies on "
                f"another machine; {again}"
            )
        yield folder


def pooler_of(folder: Path) -> str:
    """How a kept model pools.

    Raises:
        BackboneError: if the folder does not say it in a way that can be read.
    """
    pooling = read_pooling(folder)
    return pooling.pooler if pooling is not None else "avg"
