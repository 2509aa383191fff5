import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from stored_trials import apply_events

from cse_methods.registry import get_method
from cse_platform.cli.trial import export_command, register_command, reproduce_command, show_command
from cse_platform.kept_models import TRIAL_FILE
from cse_platform.leaderboard import open_leaderboard
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import Event, SweepStarted, TestAccessed

KEY = "0a1b2c3d" + "0" * 56
START = datetime(2030, 1, 1, 12, tzinfo=UTC)
CURVE = {0: 0.25, 10: 0.5, 20: 0.75, 30: 0.625}
SPEC = {
    "sweep": "first", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin", "dev": {"checkpoint": "stsb", "search": "stsb", "also": []},
    "space": {"temperature": [0.05, 0.1]}, "search": {"sampler": "random", "trials": 2},
    "tags": ["paper"],
}  # fmt: skip
FACTS = {"host": "lab", "cpu": "a CPU", "threads": "1", "python": "3.11.7", "torch": "2.9.0+cpu"}


def _after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@pytest.fixture(scope="session")
def began(sweep_started) -> Callable[..., SweepStarted]:
    """Makes a start of the sweep, so many minutes after noon."""
    spec = SweepSpec.model_validate(SPEC).model_dump(mode="json", exclude={"stores"})
    fields = {
        "method": "simcse",
        "spec": spec,
        "provenance": {"package_commit": "c0ffee", "package_dirty": "false", "python": "3.11.7"},
        "packages": {"cse-platform": "0.1.0", "numpy": "2.1.0", "torch": "2.9.0+cpu"},
    }

    def make(minutes: float = 0, **changes: Any) -> SweepStarted:
        return sweep_started(**{"time": _after(minutes), **fields, **changes})

    return make


@pytest.fixture(scope="session")
def life(trial_life) -> Callable[..., list[Event]]:
    """Makes the events of a trial of SimCSE on mini: 0.75 at step 20 is its best.

    It ran for five minutes; `end` changes how it ended, `state=None` not at all.
    """
    config = get_method("simcse").config(
        backbone="mini", corpus="builtin", data="builtin", learning_rate=1e-4 / 3
    )
    facts = {"method": "simcse", "configuration": "c0de" * 16, "search_number": 0}
    facts |= {"values": config.hyperparameters(), "searched": ("temperature",)}
    best = {"best_step": 20, "best_value": 0.75, "best_metrics": {"dev/stsb_spearman": 0.75}}
    ended = best | {"wall_seconds": 7200.0, "gpus": 0.5, "provenance": FACTS, "error": None}

    def make(
        trial: str = KEY,
        *,
        seed: int = 42,
        begin: float = 1,
        curve: Mapping[int, float] = CURVE,
        state: str | None = "COMPLETE",
        **end: Any,
    ) -> list[Event]:
        told = trial_life(seed, curve, trial=trial, seed=seed, state=state, **facts)
        minutes = [begin, *[begin + 1] * len(curve), begin + 5]
        events = [
            event.model_copy(update={"time": _after(minute)})
            for event, minute in zip(told, minutes, strict=False)
        ]
        if state is not None:
            events[-1] = events[-1].model_copy(update=ended | end)
        return events

    return make


@pytest.fixture(scope="session")
def tested(trial_evaluated) -> Callable[..., list[Event]]:
    """Makes the opening of its test sets, and two scores."""

    def make(trial: str = KEY) -> list[Event]:
        opened = TestAccessed(
            time=_after(30), sweep="first", trial=trial, tasks=("stsb",), source="builtin",
            who="someone@lab", command="cse-evaluate",
        )  # fmt: skip
        scores, identity = {"test/stsb_spearman": 0.5, "test/stsb_uniformity": -2.5}, "e1" * 32
        settings = {"identity": identity, "identities": {identity: {"task": "stsb"}}}
        return [opened, trial_evaluated(trial, scores, time=_after(31), **settings)]

    return make


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """The default runs folder of an empty working directory."""
    for name in ("CSE_STORE", "CSE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def put(empty_leaderboard) -> Callable[..., None]:
    """Puts events on the leaderboard of a runs folder, which is made anew."""

    def put(runs: Path, *events: Event) -> None:
        with open_store(empty_leaderboard(runs / "leaderboard.db")) as board:
            apply_events(board, events)

    return put


@pytest.fixture
def fill(runs, put) -> Callable[..., None]:
    """Puts events on the leaderboard of the default runs folder."""
    return partial(put, runs)


@pytest.fixture
def story_of(runs) -> Callable[..., TrialDetails]:
    """Asks the leaderboard of the runs folder."""

    def ask(key: str = KEY) -> TrialDetails:
        url = f"sqlite:///{runs / 'leaderboard.db'}"
        with open_leaderboard(url) as board:
            return board.trial(key)

    return ask


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


@pytest.fixture(scope="session")
def one_run() -> Callable[..., Result]:
    """Runs `cse-leaderboard` with one of the commands about a trial."""
    group = click.Group(
        commands=[show_command, reproduce_command, export_command, register_command]
    )

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(group, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="session")
def git() -> Callable[..., str]:
    """Runs git in a folder."""

    def run(folder: Path, *arguments: str) -> str:
        someone = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false")
        command = ["git", "-C", str(folder), *someone, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return run
