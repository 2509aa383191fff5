"""A trial with a real model and a real sweep file behind it, on a leaderboard of its own."""

import subprocess
from collections.abc import Callable
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
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.trial_details import TrialDetails, trial_details
from cse_platform.runner.models import TRIAL_FILE
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import (
    Event,
    SweepStarted,
    TestAccessed,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialStarted,
)

KEY = "0a1b2c3d" + "0" * 56
START = datetime(2030, 1, 1, 12, tzinfo=UTC)
CURVE = {0: 0.25, 10: 0.5, 20: 0.75, 30: 0.625}
SPEC = {
    "sweep": "first",
    "method": "simcse",
    "backbone": "mini",
    "corpus": "builtin",
    "data": "builtin",
    "dev": {"checkpoint": "stsb", "search": "stsb", "also": []},
    "space": {"temperature": [0.05, 0.1]},
    "search": {"sampler": "random", "trials": 2},
    "tags": ["paper"],
}
FACTS = {"host": "lab", "cpu": "a CPU", "threads": "1", "python": "3.11.7", "torch": "2.9.0+cpu"}


def _after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def _start(minutes: float = 0, **changes: Any) -> SweepStarted:
    spec = SweepSpec.model_validate(SPEC).model_dump(mode="json", exclude={"stores"})
    fields: dict[str, Any] = {
        "time": _after(minutes),
        "sweep": "first",
        "method": "simcse",
        "backbone": "mini",
        "spec": spec,
        "provenance": {"package_commit": "c0ffee", "package_dirty": "false", "python": "3.11.7"},
        "packages": {"cse-platform": "0.1.0", "numpy": "2.1.0", "torch": "2.9.0+cpu"},
    }
    return SweepStarted.model_validate(fields | changes)


def _life(trial: str = KEY, *, seed: int = 42, begin: float = 1, **end: Any) -> list[Event]:
    """A trial that ran for five minutes; `end` changes how it ended, `state=None` not at all."""
    config = get_method("simcse").config(
        backbone="mini", corpus="builtin", data="builtin", learning_rate=1e-4 / 3
    )
    started = TrialStarted(
        time=_after(begin),
        sweep="first",
        trial=trial,
        number=seed,
        role="search",
        search_number=0,
        seed=seed,
        method="simcse",
        revision=1,
        backbone="mini",
        configuration="c0de" * 16,
        values=config.hyperparameters(),
        searched=("temperature",),
        dev={
            "checkpoint": "stsb",
            "search": "stsb",
            "identity": "dev-1",
            "source": "builtin",
            "corpus": "builtin",
        },
    )
    curve = end.pop("curve", CURVE)
    points = [
        TrialPoint(
            time=_after(begin + 1),
            sweep="first",
            trial=trial,
            step=step,
            value=value,
            metrics={"dev/stsb_spearman": value, **({"train/loss": 1.5} if step else {})},
        )
        for step, value in curve.items()
    ]
    ended = {
        "time": _after(begin + 5),
        "sweep": "first",
        "trial": trial,
        "state": "COMPLETE",
        "best_step": 20,
        "best_value": 0.75,
        "best_metrics": {"dev/stsb_spearman": 0.75},
        "wall_seconds": 7200.0,
        "gpus": 0.5,
        "provenance": FACTS,
    } | end
    if ended["state"] is None:
        return [started, *points]
    return [started, *points, TrialFinished.model_validate(ended)]


def _tested(trial: str = KEY) -> list[Event]:
    """Test sets opened, and two scores."""
    score = {"task": "stsb", "split": "test", "identity": "e1" * 32}
    listed = [
        {**score, "metric": "spearman", "value": 0.5},
        {**score, "metric": "uniformity", "value": -2.5},
    ]
    opened = TestAccessed(
        time=_after(30),
        sweep="first",
        trial=trial,
        tasks=("stsb",),
        source="builtin",
        who="someone@lab",
        command="cse-evaluate",
    )
    evaluated = TrialEvaluated.model_validate(
        {
            "time": _after(31),
            "sweep": "first",
            "trial": trial,
            "tasks": ("stsb",),
            "scores": listed,
            "similarities": (),
            "identities": {"e1" * 32: {"task": "stsb"}},
            "seconds": {},
        }
    )
    return [opened, evaluated]


@pytest.fixture(scope="session")
def began() -> Callable[..., SweepStarted]:
    """Makes a start of the sweep, so many minutes after noon."""
    return _start


@pytest.fixture(scope="session")
def life() -> Callable[..., list[Event]]:
    """Makes the events of a trial of SimCSE on mini: 0.75 at step 20 is its best."""
    return _life


@pytest.fixture(scope="session")
def tested() -> Callable[..., list[Event]]:
    """Makes the opening of its test sets, and two scores."""
    return _tested


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
        with open_store(url, create=False) as board, board.session() as session:
            return trial_details(session, key)

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
