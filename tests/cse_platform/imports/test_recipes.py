"""The recipes of docs/importing.md, each on a small export of its tool, files in `exports`."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from doc_blocks import ROOT, blocks
from failing import failing

RECIPES = {
    block.body.partition("\n")[0].removeprefix("# "): block.body
    for block in blocks(ROOT / "docs" / "importing.md")
    if block.language == "python"
}
POINTS = ((0.5, 100, 0.81), (1.0, 200, 0.83))


def wandb_of(*runs: Any) -> Any:
    """W&B's library, of whose API the recipe uses this."""
    return SimpleNamespace(Api=lambda: SimpleNamespace(runs=lambda _path: runs))


def history(**values: Any) -> Any:
    """A run of W&B with two dev points."""
    points = [{"_step": step, "eval/stsb_spearman": score} for _, step, score in POINTS]
    return SimpleNamespace(scan_history=lambda keys: points, **values)


def export_ray(folder: Path) -> None:
    """Trials as Tune's own logger writes them: one that failed, one that was restored."""
    from ray.tune.logger import JsonLoggerCallback

    for number, scores in ((0, (0.6, 0.7, 0.72)), (1, (0.62, 0.9)), (1, (0.68,))):
        path = folder / "ray_results" / "simcse" / f"train_a1f3_0000{number}"
        path.mkdir(parents=True, exist_ok=True)
        logger, config = JsonLoggerCallback(), {"lr": 3e-5, "seed": 42 + number}
        trial = Mock(
            config=config, local_path=path, checkpoint=None
        )  # its place is all that counts
        for iteration, score in enumerate(scores, 2 if len(scores) == 1 else 1):
            result = {"eval_stsb": score, "training_iteration": iteration, "config": config}
            logger.log_trial_result(
                iteration, trial, result | {"timestamp": 1709640000 + iteration}
            )
        logger.log_trial_end(trial)
    (path / "error.txt").write_text("CUDA out of memory")


def export_optuna(folder: Path, empty_search: Any) -> None:
    import optuna

    storage = empty_search(folder / "optuna.db")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(study_name="simcse", storage=storage, direction="maximize")
    state = optuna.trial.TrialState
    for value, ended in ((0.76, state.COMPLETE), (0.7, state.PRUNED), (None, state.FAIL)):
        trial = study.ask()
        trial.suggest_float("learning_rate", 1e-5, 5e-5)
        trial.set_user_attr("seed", 42)
        if ended == state.PRUNED:
            trial.report(value, step=1)
        study.tell(trial, value if ended == state.COMPLETE else None, state=ended)
    study.ask()


def export_mlflow(folder: Path, empty_mlflow: Any) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(empty_mlflow(folder / "mlflow.db"))
    experiment = client.create_experiment("simcse")
    for seed, state in enumerate(("FINISHED", "KILLED", "RUNNING")):
        run = client.create_run(experiment, 1_800_000_000_000).info.run_id
        params = {"model_name_or_path": "bert-base-uncased", "seed": seed, "stage": "final"}
        for name, value in (params | {"lr": 3e-5}).items():
            client.log_param(run, name, value)
        for step, value in ((0, 30.0), (125, 60.0), (125, 77.0), (250, 76.0)):
            client.log_metric(run, "eval_stsb_spearman", value, step=step)
        client.log_metric(run, "test/sts12", 68.4) if state == "FINISHED" else None
        if state != "RUNNING":
            client.set_terminated(run, state, end_time=1_800_000_060_000)


CURVE = [(step, score) for _, step, score in POINTS]
STORED = {
    "wandb": [(1, "COMPLETE", 0.785, []), (2, "FAIL", 0.4, [])],
    "wandb-api": [(1, "COMPLETE", 0.83, CURVE), (2, "FAIL", 0.83, CURVE)],
    "wandb-script": [(42, "COMPLETE", 0.78, []), (43, "COMPLETE", 0.79, [])],
    "trainer": [(42, "COMPLETE", 0.83, CURVE)],
    "log": [(42, "COMPLETE", 0.7249, [(0, -0.00002), (156, 0.7149), (312, 0.7249), (469, 0.71)])],
    "st": [(42, "COMPLETE", 0.83, CURVE)],
    "tensorboard": [
        (1, "COMPLETE", 0.75, [(125, 0.71), (250, 0.75)]),
        (2, "COMPLETE", 0.75, [(125, 0.72), (250, 0.75)]),
    ],
    "slurm": [(1, "COMPLETE", 0.75, []), (3, "FAIL", None, [])],
    "mteb": [(42, "COMPLETE", 0.82, [])],
    "optuna": [(42, "COMPLETE", 0.76, []), (42, "PRUNED", 0.7, []), (42, "FAIL", None, [])],
    "ray": [
        (42, "COMPLETE", 0.72, [(125, 0.6), (250, 0.7), (375, 0.72)]),
        (43, "FAIL", 0.68, [(125, 0.62), (250, 0.68)]),
    ],
    "mlflow": [
        (0, "COMPLETE", 0.77, [(0, 0.3), (125, 0.77), (250, 0.76)]),
        (1, "FAIL", 0.77, [(0, 0.3), (125, 0.77), (250, 0.76)]),
    ],
}  # fmt: skip
"""What each recipe stores, by the end of its sweep's name."""
OF_LIBRARIES = {"Optuna": export_optuna, "Ray Tune": export_ray, "MLflow": export_mlflow}


def run_recipe(name: str, stored: Any) -> None:
    exec(compile(RECIPES[name], name, "exec"), {"__name__": "__main__"})
    sweep = RECIPES[name].rpartition('sweep="')[2].partition('"')[0]
    assert sorted(stored(sweep), key=repr) == sorted(STORED[sweep.removeprefix("lab-")], key=repr)


def test_recipes_read_files(tmp_path, runs, stored, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(__file__).with_name("exports"), tmp_path, dirs_exist_ok=True)
    config = {"learning_rate": 3e-5}
    told = [
        history(id="a", state="finished", config=config | {"seed": 1}),
        history(id="b", state="killed", config=config | {"seed": 2}),
        SimpleNamespace(id="c", state="crashed", config={}, scan_history=lambda keys: []),
    ]
    monkeypatch.setitem(sys.modules, "wandb", wandb_of(*told))
    assert not failing(lambda name: run_recipe(name, stored), RECIPES.keys() - OF_LIBRARIES)
    assert "Trials: 2 new, 0 already here\n" in capsys.readouterr().out
    told_events = (runs / "imports" / "lab-tensorboard.jsonl").read_text()
    assert '"time":"2024-03-05T12:00:00.500000Z"' in told_events
    told_events = (runs / "imports" / "lab-slurm.jsonl").read_text()
    assert '"time":"2026-01-05T09:00:00Z"' in told_events and '"wall_seconds":3600.0' in told_events


def test_recipes_read_what_libraries_wrote(
    tmp_path, runs, stored, monkeypatch, empty_mlflow, empty_search
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", before
    )  # MLflow sets it, for tests after this one too
    export_ray(tmp_path)
    export_optuna(tmp_path, empty_search)
    export_mlflow(tmp_path, empty_mlflow)
    try:
        assert not failing(lambda name: run_recipe(name, stored), OF_LIBRARIES)
    finally:
        mlflow.set_tracking_uri(before)
