"""Sweeps that are run by the real command with real stores, and what all of these hold then."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from browser import chromium, chromium_path, dashboard, note_troubles
from mlflow import MlflowClient
from sqlalchemy import select

from cse_platform.leaderboard import open_leaderboard as open_reader
from cse_platform.leaderboard.store.opening import open_store
from cse_platform.leaderboard.store.tables import DevPointRecord, SweepTrialRecord, TrialRecord
from cse_platform.tracking.events import Event, TrialPoint
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Points = dict[tuple[str, int, str], float]
"""(trial, step, metric) -> value."""

TINY = {
    "sweep": "tiny",
    "method": "simcse",
    "backbone": "mini",
    "corpus": "builtin",
    "data": "builtin",
    "fixed": {"max_steps": 6, "eval_steps": 2, "batch_size": 8},
    "space": {
        "learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
        "temperature": [0.05, 0.1],
    },
    "search": {"sampler": "random", "trials": 3, "seed": 6},
    "seeds": {"search": 42, "confirm": {"top": 1, "seeds": [0, 1]}},
}
SECONDS = 480
"""A command that takes longer hangs."""
PATIENCE = 60_000
"""Milliseconds until something must have appeared in the browser."""


@dataclass(frozen=True)
class Sweep:
    """A sweep file and the folder that its runs go to."""

    file: Path
    runs: Path
    name: str
    published: bool = False
    """Whether its run in MLflow gets a report, which takes longer than a tiny sweep."""

    @property
    def journal_file(self) -> Path:
        """Where the sweep's journal lies."""
        return self.runs / "sweeps" / self.name / "journal.jsonl"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`cse-sweep` in a process group of its own, as a terminal starts it."""
        return subprocess.Popen(
            [script("cse-sweep"), str(self.file), "--runs", str(self.runs), *arguments],
            cwd=self.file.parent,
            env=environment() | ({} if self.published else {"CSE_DASHBOARD": ""}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`cse-sweep` to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):  # nothing is left of one that hangs
                os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def events(self) -> list[Event]:
        """Everything in the journal so far."""
        if not self.journal_file.exists():
            return []
        return [event for _, event in read_journal(self.journal_file)]

    def history(self) -> History:
        """The journal, put together."""
        return History(self.events())

    def wait_for(self, process: subprocess.Popen[str], what: type[Event], count: int) -> None:
        """Until the journal holds that many such events, or the command has ended."""
        deadline = time.monotonic() + SECONDS
        while sum(isinstance(event, what) for event in self.events()) < count:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"no {count} {what.__name__} after {SECONDS} s"
            time.sleep(0.05)

    def curves(self) -> dict[tuple[str, int, int], dict[str, float]]:
        """(configuration, seed, step) -> metrics, without those that measure time."""
        return {
            (trial.configuration, trial.seed, step): {
                name: value for name, value in metrics.items() if not name.startswith("perf/")
            }
            for trial in self.history().trials.values()
            for step, metrics in trial.metrics.items()
        }

    def assert_stores_agree(self) -> None:
        """Journal, SQL, MLflow and Optuna hold the same trials, states and points, once each."""
        trials = self.history().trials
        states = {key: trial.state for key, trial in trials.items()}
        points = _journal_points(self.events())
        assert _sql(self) == (states, points)
        assert _mlflow(self) == (states, points)
        searched = [trial for trial in trials.values() if trial.role == "search"]
        assert _optuna(self) == {
            t.search_number: (t.state, t.best_value if t.state == "COMPLETE" else None, t.curve)
            for t in searched
        }


def script(name: str) -> str:
    """The console script beside this Python."""
    return str(Path(sys.executable).parent / name)


def environment() -> dict[str, str]:
    """Ours, without what would send a sweep elsewhere."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CSE_", "RAY_", "MLFLOW_"))}
    return kept | {"OMP_NUM_THREADS": "1"}


def _journal_points(events: list[Event]) -> Points:
    points: Points = {}
    for event in events:
        if isinstance(event, TrialPoint):
            for name, value in event.metrics.items():
                place = event.trial, event.step, name
                assert place not in points, f"twice in the journal: {place}"
                points[place] = value
    return points


def _sql(sweep: Sweep) -> tuple[dict[str, str], Points]:
    with (
        open_store(f"sqlite:///{sweep.runs / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        rows = session.scalars(select(TrialRecord).join(SweepTrialRecord)).all()
        keys = {row.id: row.key for row in rows}
        points = {
            (keys[row.trial_id], row.step, name): value
            for row in session.scalars(select(DevPointRecord))
            for name, value in row.metrics.items()
        }
        return {row.key: row.state for row in rows}, points


def _mlflow(sweep: Sweep) -> tuple[dict[str, str], Points]:
    client = MlflowClient(f"sqlite:///{sweep.runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("cse")
    assert experiment is not None
    words = {"FINISHED": "COMPLETE", "KILLED": "PRUNED", "FAILED": "FAIL"}
    states, points = {}, {}
    for run in client.search_runs([experiment.experiment_id], "tags.trial != ''"):
        key = run.data.tags["trial"]
        assert key not in states, f"two runs of trial {key}"
        states[key] = words.get(run.info.status, run.info.status)
        for name in run.data.metrics:
            if name.startswith(("dev/", "train/", "perf/sentences")):
                for metric in client.get_metric_history(run.info.run_id, name):
                    place = key, metric.step, name
                    assert place not in points, f"twice in MLflow: {place}"
                    points[place] = metric.value
    return states, points


def _optuna(sweep: Sweep) -> dict[int, tuple[str, float | None, dict[int, float]]]:
    study = optuna.load_study(
        study_name=sweep.name, storage=f"sqlite:///{sweep.runs / 'search.db'}"
    )
    return {
        # Of a pruned trial Optuna itself makes the last point the value.
        t.number: (
            t.state.name,
            t.value if t.state.name == "COMPLETE" else None,
            t.intermediate_values,
        )
        for t in study.trials
    }


@pytest.fixture(scope="session")
def new_sweep() -> Callable[..., Sweep]:
    """Writes a sweep file: the tiny one, with changes at its top level."""

    def write(folder: Path, *, published: bool = False, **changes: Any) -> Sweep:
        content = TINY | changes
        file = folder / "sweep.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        return Sweep(file, folder / "runs", str(content["sweep"]), published)

    return write


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, new_sweep: Callable[..., Sweep]
) -> tuple[Sweep, subprocess.CompletedProcess[str]]:
    """The tiny sweep, run without any interruption; read only."""
    sweep = new_sweep(tmp_path_factory.mktemp("undisturbed"))
    _git(sweep.file.parent, "init", "--quiet")
    _git(sweep.file.parent, "commit", "--quiet", "--allow-empty", "--message", "first")
    return sweep, sweep.run()


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory, new_sweep: Callable[..., Sweep]) -> Sweep:
    """A tiny sweep at its end, published, two configurations of it scored on STS; read only."""
    evaluate = {"top": 2, "tasks": ["sts"]}
    folder = tmp_path_factory.mktemp("swept")
    search = {"sampler": "random", "trials": 3, "seed": 3}  # tries both temperatures
    sweep = new_sweep(folder, sweep="swept", published=True, evaluate=evaluate, search=search)
    ended = sweep.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    return sweep


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A headless Chromium."""
    if chromium_path() is None:
        pytest.skip("no Chromium on this machine; CSE_CHROMIUM can name one")
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def page_address(swept: Sweep) -> Iterator[str]:
    """Of `cse-dashboard` on the store of the tiny sweep; it ends in a slash."""
    with dashboard(swept.runs) as address:
        yield address


@pytest.fixture(scope="session")
def best_trial(swept: Sweep) -> str:
    """Key of the tiny sweep's best trial."""
    with open_reader(f"sqlite:///{swept.runs / 'leaderboard.db'}") as reader:
        best = reader.sweep("swept").best
    assert best is not None
    return best.key


@pytest.fixture
def wrong() -> list[str]:
    """What has gone wrong in `tab`; a test that provokes it looks at it and clears it away."""
    return []


@pytest.fixture
def tab(browser: "Browser", wrong: list[str]) -> "Iterator[Page]":
    """A tab that may ask only the servers of this machine, and in which nothing may go wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    note_troubles(context, wrong, allowed="http://127.0.0.1:")
    yield context.new_page()
    context.close()
    assert wrong == []


def _git(folder: Path, *arguments: str) -> None:
    someone = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
    subprocess.run(["git", *someone, *arguments], cwd=folder, check=True)


@pytest.fixture(scope="session")
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs one of our console scripts."""

    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script(name), *arguments],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def end_of() -> Callable[..., AbstractContextManager[subprocess.Popen[str]]]:
    """Sees to it that nothing of a command is left when its context is closed."""

    @contextmanager
    def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    return ending
