from collections.abc import Callable
from pathlib import Path

import pytest
from one_trial import KEY
from stored_trials import fill_store

from cse_platform.kept_models import TRIAL_FILE
from cse_platform.tracking.events import Event


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """The default runs folder of an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.fixture
def fill(runs, empty_leaderboard) -> Callable[..., None]:
    """Puts events on the leaderboard of the default runs folder, which is made anew."""

    def fill(*events: Event) -> None:
        fill_store(empty_leaderboard(runs / "leaderboard.db"), events)

    return fill


@pytest.fixture(scope="session")
def mini_model(tmp_path_factory) -> Callable[..., Path]:
    """A folder as a trial keeps it, by its pooler and the trial's key."""

    def make(pooler: str = "cls", *, trial: str = KEY) -> Path:
        from cse_methods.encoders.loading import load_encoder

        folder = tmp_path_factory.mktemp(f"model-{pooler}")
        load_encoder("mini", pooler=pooler).save(folder)
        (folder / TRIAL_FILE).write_text(f"{trial}\n")
        return folder

    return make
