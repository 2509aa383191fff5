"""Leaderboards to merge and to import into, and what they hold, without ids."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from cse_platform.imports.apply import Imported
from cse_platform.imports.apply import apply_trials as bring_onto
from cse_platform.imports.runs import read_runs
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store.opening import Store, open_store
from cse_platform.tracking.events import Event
from cse_platform.tracking.mlflow.store import connect

Filled = Callable[[Sequence[Event]], Store]
Contents = Callable[[Store], dict[str, list[Any]]]

# Each table as a person would compare it: what its rows refer to instead of ids.
_TRIALS = "JOIN trials t ON t.id = trial_id"
_QUERIES = {
    "sweeps": "SELECT name, method, backbone, spec, state, started, finished FROM sweeps",
    "starts": "SELECT name, s.started, provenance, packages, diffs FROM sweep_starts s "
    "JOIN sweeps ON sweeps.id = sweep_id",
    "tags": "SELECT name, tag FROM sweep_tags JOIN sweeps ON sweeps.id = sweep_id",
    "links": "SELECT name, number, role, search_number, key, l.gpu_seconds FROM sweep_trials l "
    f"JOIN sweeps ON sweeps.id = sweep_id {_TRIALS}",
    "contests": "SELECT method, backbone, dev_identity, dev_search, dev_source, trials, "
    "round(CAST(gpu_seconds AS numeric), 9) FROM contests",
    "configurations": 'SELECT hash, revision, corpus, "values", searched, trials, n, '
    "round(CAST(mean AS numeric), 9), round(CAST(m2 AS numeric), 9) FROM configurations",
    "trials": "SELECT key, seed, state, started, finished, best_step, best_value, start_value, "
    "model, error, wall_seconds, t.gpu_seconds, provenance, hash, host, hardware FROM trials t "
    "JOIN configurations c ON c.id = configuration_id LEFT JOIN machines m ON m.id = machine_id",
    "points": f"SELECT key, step, reported_at, value, metrics FROM dev_points {_TRIALS}",
    "scores": f"SELECT key, task, split, metric, identity, value, measured FROM scores {_TRIALS}",
    "similarities": "SELECT key, task, identity, data_sha256, cosines FROM pair_similarities "
    f"{_TRIALS}",
    "releases": f"SELECT key, opened, who, command, tasks, source FROM test_releases {_TRIALS}",
    "evaluations": "SELECT identity, settings, source FROM evaluations",
    "pair_sets": "SELECT data_sha256, task, pairs, gold FROM pair_sets",
}


@pytest.fixture(scope="session")
def contents() -> Contents:
    """What a leaderboard holds, table by table, in one order and without ids."""

    def read(board: Store) -> dict[str, list[Any]]:
        with board.session() as session:
            return {
                name: sorted(map(repr, session.execute(text(query)).all()))
                for name, query in _QUERIES.items()
            }

    return read


@pytest.fixture(scope="session")
def filled(
    tmp_path_factory: pytest.TempPathFactory, empty_leaderboard: Callable[[Path], str]
) -> Filled:
    """Makes a SQLite leaderboard that holds these events."""
    folder = tmp_path_factory.mktemp("stores")
    made: list[Path] = []

    def make(events: Sequence[Event]) -> Store:
        made.append(folder / f"{len(made)}.db")
        board = open_store(empty_leaderboard(made[-1]))
        if events:
            LeaderboardSink(board).apply("j", list(enumerate(events, 1)))
        return board

    return make


MAPPING = """\
sweep: lab-b
experiments: [train]
method: simcse
backbone: {param: model, names: {bert-base-uncased: bert-base, roberta: roberta-base}}
seed: {param: seed}
hyperparameters:
  learning_rate: lr
  temperature: temp
dev: {metric: eval_stsb_spearman, scale: 100}
"""
SCORES = """\
scores:
  sts12: {metric: test/sts12, scale: 100}
  mr: {metric: test/mr, scale: 100}
"""
PARAMS = {"model": "bert-base-uncased", "seed": "42", "lr": "3e-05", "temp": "0.05"}


class Lab:
    """Another lab's runs, written by its own client."""

    mapping = MAPPING
    scores = SCORES

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        self.client = connect(uri)
        self.experiment = self.client.create_experiment(experiment)
        self.clock = 1_800_000_000_000

    def run(
        self,
        curve: Mapping[int, float],
        params: Mapping[str, str] | None = None,
        *,
        scores: Mapping[str, float] | None = None,
        status: str = "FINISHED",
        tags: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> str:
        self.clock += 100_000
        run: str = self.client.create_run(
            self.experiment, self.clock, dict(tags or {}), run_name=name
        ).info.run_id
        for key, value in (PARAMS | dict(params or {})).items():
            self.client.log_param(run, key, value)
        for step, value in curve.items():
            self.client.log_metric(run, "eval_stsb_spearman", value, self.clock + step, step)
        for key, value in (scores or {}).items():
            self.client.log_metric(run, key, value)
        if status != "RUNNING":
            self.client.set_terminated(run, status, end_time=self.clock + 60_000)
        return run


@pytest.fixture(scope="session")
def mlflow_uri(
    tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Callable[[Path], str]
) -> str:
    """The store of another lab."""
    return empty_mlflow(tmp_path_factory.mktemp("mlflow") / "theirs.db")


@pytest.fixture
def lab_at() -> type[Lab]:
    """Makes an experiment in any store."""
    return Lab


@pytest.fixture
def lab(mlflow_uri: str, request: pytest.FixtureRequest) -> Lab:
    """An experiment of each test."""
    return Lab(mlflow_uri, f"{request.node.nodeid}")


@pytest.fixture
def here(filled: Callable[..., Store]) -> Store:
    """An empty leaderboard."""
    return filled([])


@pytest.fixture
def bring(lab: Lab, tmp_path: Path) -> Callable[..., Imported]:
    """Imports the lab's runs by a mapping."""

    def run(board: Store, mapping: str = MAPPING) -> Imported:
        file = tmp_path / "mapping.yaml"
        experiment = json.dumps(lab.client.get_experiment(lab.experiment).name)
        file.write_text(mapping.replace("[train]", f"[{experiment}]"))
        runs = read_runs(lab.uri, file)
        return bring_onto(board, runs.sweeps, source=runs.source)

    return run
