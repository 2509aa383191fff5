"""The recipes of docs/importing.md, each on a small export of its tool."""

import json
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


def export_files(folder: Path) -> None:
    """Files as the tools write them."""
    (folder / "wandb.csv").write_text(
        '"Name","State","Created","Runtime","ID","lr","model_name_or_path","seed","eval_stsb","sts12"\n'
        '"sun-1","finished","2026-01-05T10:00:00.000Z","60","a1","3e-05","bert-base-uncased","1","78.5","68.4"\n'
        '"sun-1","crashed","2026-01-05T11:00:00.000Z","60","a2","","","","",""\n'
        '"sun-2","preempted","2026-01-05T11:00:00.000Z","60","a3","3e-05","bert-base-uncased","2","40",""\n'
        '"sun-3","preempting","2026-01-05T12:00:00.000Z","60","a4","3e-05","bert-base-uncased","3","41",""\n'
    )
    summary = "{'_step': 1000, 'eval/stsb_spearman': 0.%s, 'train/loss': %s}"
    model = "'model_name_or_path': 'bert-base-uncased'"
    config = "{'optim': {'lr': 1e-05, 'type': None}, 'seed': %s, " + model + "}"
    (folder / "project.csv").write_text(
        ",summary,config,name\n"
        f'0,"{summary % (78, 0.02)}","{config % 42}",run-0\n'
        f'1,"{summary % (79, "nan")}","{config % 43}",run-1\n'
    )
    log = [{"epoch": 0.5, "loss": 1.2, "step": 100}]
    for epoch, step, score in (*POINTS, (1.0, 200, 0.99)):
        log.append({"epoch": epoch, "eval_sts-dev_spearman_cosine": score, "step": step})
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log, "global_step": 200}))
    (folder / "train.log").write_text(
        "Loading checkpoint\n{'loss': 0.0712, 'grad_norm': nan, 'epoch': 0.01}\n"
        "12:01 {'eval_stsb_spearman': np.float64(0.7149), 'mr': np.float64(1), 'epoch': 0.01}\n"
        "{'eval_stsb_spearman': 0.7249, 'eval_avg_sts': 0.7, 'epoch': 0.02}\n"
    )
    (folder / "similarity_evaluation_sts-dev_results.csv").write_text(
        "epoch,steps,cosine_pearson,cosine_spearman\n0.5,100,0.80,0.81\n1.0,200,0.82,0.83\n"
    )
    (folder / "tensorboard").mkdir()
    for seed in (1, 2):
        (folder / "tensorboard" / f"run-simcse-{seed}-tag-eval_stsb.csv").write_text(
            f"Wall time,Step,Value\n1709640000.5,125,0.7{seed}\n1709643600.5,250,0.75\n"
        )
    (folder / "sacct.txt").write_text(
        "JobID|State|Start|End\n11|COMPLETED|2026-01-05T10:00:00|2026-01-05T11:00:00\n"
        "12|CANCELLED by 1001|Unknown|2026-01-05T11:00:00\n13|OUT_OF_MEMORY|Unknown|Unknown\n"
        "14|SUSPENDED|2026-01-05T10:00:00|Unknown\n"
    )
    (folder / "scores.csv").write_text("JobID,seed,lr,stsb\n11,1,3e-5,0.75\n13,3,3e-5,\n")
    results = folder / "results" / "simcse-42"
    results.mkdir(parents=True)
    for task, split, score in (("STS12", "test", 0.7), ("STSBenchmark", "test", 0.8)):
        scores = {split: [{"main_score": score, "hf_subset": "default"}]}
        if task == "STSBenchmark":
            scores["validation"] = [{"main_score": 0.82, "hf_subset": "default"}]
        (results / f"{task}.json").write_text(json.dumps({"task_name": task, "scores": scores}))
    (results / "model_meta.json").write_text('{"name": "lab/encoder"}')


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
    "log": [(42, "COMPLETE", 0.7249, [(156, 0.7149), (312, 0.7249)])],
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


def test_recipes_read_files(tmp_path, runs, stored, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    export_files(tmp_path)
    config = {"learning_rate": 3e-5}
    told = [
        history(id="a", state="finished", config=config | {"seed": 1}),
        history(id="b", state="killed", config=config | {"seed": 2}),
        SimpleNamespace(id="c", state="crashed", config={}, scan_history=lambda keys: []),
    ]
    monkeypatch.setitem(sys.modules, "wandb", wandb_of(*told))
    assert not failing(lambda name: run_recipe(name, stored), RECIPES.keys() - OF_LIBRARIES)
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
    export_ray(tmp_path)
    export_optuna(tmp_path, empty_search)
    export_mlflow(tmp_path, empty_mlflow)
    try:
        assert not failing(lambda name: run_recipe(name, stored), OF_LIBRARIES)
    finally:
        mlflow.set_tracking_uri(before)
