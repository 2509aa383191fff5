import json
from collections.abc import Callable, Mapping

import pytest

from cse_platform.imports.runs import read_runs
from cse_platform.imports.trials import import_trials
from cse_platform.stores.mlflow.store import connect
from cse_platform.stores.sql.store import Store

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
def mlflow_uri(tmp_path_factory, empty_mlflow) -> str:
    """The store of another lab."""
    return empty_mlflow(tmp_path_factory.mktemp("mlflow") / "theirs.db")


@pytest.fixture
def lab_at() -> type[Lab]:
    """Makes an experiment in any store."""
    return Lab


@pytest.fixture
def lab(mlflow_uri, request) -> Lab:
    """An experiment of each test."""
    return Lab(mlflow_uri, f"{request.node.nodeid}")


@pytest.fixture
def here(filled) -> Store:
    """An empty leaderboard."""
    return filled([])


@pytest.fixture
def bring(lab, tmp_path) -> Callable[..., tuple[int, int]]:
    """Imports the lab's runs by a mapping."""

    def run(board: Store, mapping: str = MAPPING) -> tuple[int, int]:
        file = tmp_path / "mapping.yaml"
        experiment = json.dumps(lab.client.get_experiment(lab.experiment).name)
        file.write_text(mapping.replace("[train]", f"[{experiment}]"))
        trials, source, _ = read_runs(lab.uri, file, mlflow=True)
        return import_trials(board, trials, source=source, runs=tmp_path / f"{id(board)}")

    return run
