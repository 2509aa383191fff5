import shlex
from pathlib import Path
from typing import Any

import pytest
from processes import git
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.stores.mlflow.tags import view_link
from cse_platform.tracking.events import TrialFinished, TrialPoint
from cse_platform.tracking.history import COSTS

METRICS = """
dev/stsb_spearman dev/sickr_spearman dev/alignment dev/uniformity train/loss train/loss_contrastive
perf/sentences_per_second perf/epoch_minutes perf/host_memory_gib perf/train_minutes
perf/wall_seconds best/sickr_spearman best/step
"""
"""That MLflow has of every trial."""


def test_sweep_runs_to_its_end_and_says_what_it_found(swept: Sweep) -> None:
    said = (swept.file.parent / "said.txt").read_text()
    assert "tiny: complete, 5 trials (5 complete)" in said
    assert "test sets: 4 of 4 trials scored" in said
    begins = ["reading ", "tiny: checking", "tiny: opening", "Trial 0 began"]
    lines = said.splitlines()
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=False))
    uri = shlex.quote(f"sqlite:///{swept.runs}/mlflow.db")
    assert f"mlflow ui --backend-store-uri {uri}" in said
    number = _mlflow_runs(swept.runs)[0].info.experiment_id
    assert f"http://127.0.0.1:5000/{view_link(number)}\n" in said
    trials = list(swept.history().trials.values())
    assert [trial.role for trial in trials] == ["search"] * 3 + ["confirm"] * 2
    assert [trial.seed for trial in trials] == [42, 42, 42, 0, 1]
    assert all(sorted(trial.curve) == [0, 2, 4, 6] for trial in trials)

    best = max(trials[:3], key=lambda trial: trial.best_value)
    assert [trial.configuration for trial in trials[3:]] == [best.configuration] * 2


def test_every_store_holds_the_same_and_best_encoders_are_kept(swept: Sweep) -> None:
    assert_stores_agree(swept)
    for trial in swept.history().trials.values():
        folder = swept.runs / "artifacts" / "models" / trial.key[:16]
        assert {"modules.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}
    assert not (swept.runs / "sweeps" / "tiny" / "ray").exists()


def test_mlflow_has_a_parent_and_nested_children_with_all_there_is(swept: Sweep) -> None:
    runs = _mlflow_runs(swept.runs)
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = [run for run in runs if run is not parent]
    assert (parent.info.status, len(children)) == ("FINISHED", 5)
    commit = git(swept.file.parent, "rev-parse", "HEAD")
    trials = swept.history().trials
    for child in children:
        trial, tags = trials[child.data.tags["trial"]], child.data.tags
        expected = {
            "mlflow.parentRunId": parent.info.run_id, "sweep": "tiny", "method": "simcse",
            "backbone": "mini", "seed": str(trial.seed), "configuration": trial.configuration,
            "git_commit": commit, "git_dirty": "false", "env.threads": "1",
            "env.precision": "fp32",
        }  # fmt: skip
        assert expected.items() <= tags.items()
        assert {"env.torch", "env.cpu", "env.attention", "env.peak_memory_mib"} <= tags.keys()
        assert float(child.data.params["learning_rate"]) == trial.values["learning_rate"]
        assert {"batch_size": "8", "seed": str(trial.seed)}.items() <= child.data.params.items()
        assert child.data.metrics["best/stsb_spearman"] == trial.best_value
        assert set(METRICS.split()) <= child.data.metrics.keys()


def test_a_trial_on_a_cpu_says_what_it_costs(swept: Sweep) -> None:
    """Memory grows with training and lies below what the machine has; there is no GPU's."""
    ends = swept.events(TrialFinished)
    points = swept.events(TrialPoint)
    assert len(ends) == 5
    for end in ends:
        seen = [one.metrics["perf/host_memory_gib"] for one in points if one.trial == end.trial]
        assert end.costs["host_memory_gib"] == max(seen)
        assert 0.1 < max(seen) < 64
        assert end.costs.keys() == set(COSTS) - {"gpu_memory_gib"} | {"epochs"}
        assert end.wall_seconds is not None
        assert 0 < 60 * end.costs["train_minutes"] < end.wall_seconds
        trained = 60 * end.costs["train_minutes"] * end.costs["sentences_per_second"]
        last = max(one.step for one in points if one.trial == end.trial)
        assert trained == pytest.approx(8 * last)


def test_complete_sweep_changes_nothing_and_no_other_space_goes_by_its_name(
    swept: Sweep, run_in_process, tmp_path: Path
) -> None:
    again = swept.copied(tmp_path)
    before = again.journal_file.read_bytes()
    ended = run_in_process(again)
    assert ended.stderr == ""
    assert "tiny: is already complete" in ended.stdout
    assert again.journal_file.read_bytes() == before
    assert_stores_agree(again)
    refused = run_in_process(again, "--set", "space.temperature=[0.05, 0.2]", code=1)
    (line,) = refused.stderr.splitlines()
    assert "0.2" in line
    assert "--set sweep=NEWNAME" in line
    assert again.journal_file.read_bytes() == before


def _mlflow_runs(runs: Path) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("cse")
    return list(client.search_runs([experiment.experiment_id]))
