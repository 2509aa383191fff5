"""What becomes of trials and stores; in one Ray that all these tests share."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from click.testing import CliRunner, Result
from ray import tune

from cse_platform.cli.sweep import main
from cse_platform.runner import launch, trainable
from cse_platform.runner.cluster import SETTINGS

ONE_AT_A_TIME = {"cpu": 2}
SHORT = {"max_steps": 2, "eval_steps": 2, "batch_size": 8}
NO_NUMBER = 1e300
"""A learning rate after which every weight is infinite."""


@pytest.fixture(scope="module", autouse=True)
def ray_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray with two CPUs, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        for name in ("CSE_DATA", "CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI", "RAY_ADDRESS"):
            patch.delenv(name, raising=False)
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


def run(sweep, *arguments: str) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(main, [str(sweep.file), "--runs", str(sweep.runs), *arguments])


def test_pruned_and_failed_trials(new_sweep, tmp_path) -> None:
    rates = [1e-5, NO_NUMBER, 1e-2]
    sweep = new_sweep(
        tmp_path,
        space={"learning_rate": rates},
        search={
            "sampler": "random",
            "trials": 3,
            "start_from": [{"learning_rate": rate} for rate in rates],
        },
        pruner={"kind": "successive_halving", "min_step": 2, "reduction_factor": 2},
        seeds={},
        resources=ONE_AT_A_TIME,
    )
    result = run(sweep)
    assert result.exit_code == 0, result.output
    good, failed, pruned = sweep.history().trials.values()
    assert (good.state, sorted(good.curve)) == ("COMPLETE", [0, 2, 4, 6])
    assert (pruned.state, sorted(pruned.curve)) == ("PRUNED", [0, 2])
    assert (failed.state, sorted(failed.curve)) == ("FAIL", [0])
    assert "the loss is nan between steps 1 and 2" in failed.error
    told = (sweep.runs / "sweeps" / "tiny" / "errors" / "trial-1.txt").read_text()
    assert "in train_until" in told
    assert "\x1b" not in told
    sweep.assert_stores_agree()


def test_sweep_of_which_every_trial_fails(new_sweep, tmp_path) -> None:
    sweep = new_sweep(
        tmp_path,
        space={},
        fixed=SHORT | {"learning_rate": NO_NUMBER},
        search={"sampler": "random", "trials": 1},
        seeds={},
    )
    result = run(sweep)
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: no trial of sweep 'tiny' was completed; the loss is nan")


def test_bug_in_the_driver_ends_the_sweep_and_is_shown(new_sweep, tmp_path) -> None:
    sweep = new_sweep(tmp_path, space={}, fixed=SHORT | {"learning_rate": NO_NUMBER}, seeds={})
    errors = sweep.runs / "sweeps" / "tiny" / "errors"
    errors.parent.mkdir(parents=True)
    errors.touch()  # where the folder of tracebacks should be
    result = run(sweep)
    assert isinstance(result.exception, FileExistsError)
    assert sweep.events()[-1].state == "INTERRUPTED"


def test_mlflow_that_is_down_for_the_whole_sweep(new_sweep, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(launch, "FLUSH_SECONDS", 1.0)
    sweep = new_sweep(tmp_path, fixed=SHORT, search={"sampler": "random", "trials": 1}, seeds={})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    down = run(sweep, "--set", f"stores.mlflow={nobody}")
    assert down.exit_code == 0, down.output
    events = len(sweep.events())
    (line,) = (line for line in down.stderr.splitlines() if "lacks" in line)
    assert line.startswith(f"mlflow lacks {events} events (MLflow at {nobody} refuses or does not")
    monkeypatch.undo()
    back = run(sweep)
    assert back.exit_code == 0, back.output
    assert "is complete already" in back.stdout
    sweep.assert_stores_agree()


@pytest.mark.slow  # `make quickstart` runs stages too
def test_stages_of_which_the_second_is_taught_by_the_first(new_sweep, tmp_path) -> None:
    taught = {
        "sweep": "taught",
        "method": "rankcse",
        "backbone": "mini",
        "corpus": "builtin",
        "data": "builtin",
        "fixed": SHORT
        | {"tau3": 0.0125, "teachers": [{"best": {"method": "simcse", "backbone": "mini"}}]},
        "search": {"sampler": "random", "trials": 1},
    }
    first = new_sweep(tmp_path, fixed=SHORT, search={"sampler": "random", "trials": 2}, seeds={})
    second = type(first)(first.file, first.runs, "taught")
    stages = [first.file.read_text(), json.dumps(taught)]
    first.file.write_text("{stages: [" + ", ".join(stages) + "]}")
    result = run(first)
    assert result.exit_code == 0, result.output
    best = max(first.history().trials.values(), key=lambda trial: trial.best_value)
    folder = str(first.runs / "artifacts" / "models" / best.key[:16])
    assert second.history().best == {"best:simcse/mini": folder}
    (trial,) = second.history().trials.values()
    assert (trial.state, trial.values["teachers"][0]["model"]) == ("COMPLETE", folder)
    again = run(first)
    assert again.exit_code == 0
    assert again.stdout.count("is complete already") == 2
    assert len(second.history().trials) == 1


def test_more_gpus_than_there_are(new_sweep, tmp_path) -> None:
    result = run(new_sweep(tmp_path, resources={"gpu": 1}))
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "Error: a trial asks for 1 GPU and the cluster has 0; "
        "--set resources.gpu=0 runs it with what is there\n"
    )


class Killer(tune.Callback):
    """Kills the worker that reports step 4, once; keeps all results."""

    def __init__(self) -> None:
        self.results: list[dict[str, float]] = []

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        if "step" not in result:  # the scores of the best checkpoint, at the end
            return
        first = result["step"] not in [known["step"] for known in self.results]
        self.results.append(dict(result))
        if result["step"] == 4 and first:
            os.kill(result["pid"], signal.SIGKILL)


def settings(**changes: object) -> dict[str, object]:
    """What a script hands to `trainable("rankcse")`."""
    return {
        "seed": 0,
        "backbone": "mini",
        "corpus": "builtin",
        "data": "builtin",
        "teachers": ["mini"],
        "tau3": 0.0125,
        **SHORT,
        **changes,
    }


def test_ones_own_script_goes_on_from_tunes_checkpoint(tmp_path: Path) -> None:
    killer = Killer()
    tuner = tune.Tuner(
        trainable("rankcse"),
        param_space=settings(max_steps=6),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            failure_config=tune.FailureConfig(max_failures=1),
            callbacks=[killer],
            verbose=0,
        ),
    )
    best = tuner.fit().get_best_result("dev/stsb_spearman", mode="max")
    assert -1 <= best.metrics["dev/stsb_spearman"] <= 1
    # Tune takes a checkpoint over only after the callbacks: that of step 2 is its newest.
    assert [result["step"] for result in killer.results] == [0, 2, 4, 4, 6]
    before, after = killer.results[2:4]
    assert before["dev/stsb_spearman"] == after["dev/stsb_spearman"]
    assert len({result["pid"] for result in killer.results}) == 2


def test_settings_that_mean_nothing_are_named(tmp_path: Path) -> None:
    tuner = tune.Tuner(
        trainable("rankcse"),
        param_space=settings(learning_rate=-1, bach_size=8),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    (error,) = tuner.fit().errors
    assert "rankcse refuses its settings: bach_size: no such key; did you mean 'batch_size'" in str(
        error
    )
    assert "learning_rate: expected more than 0, got -1" in str(error)
