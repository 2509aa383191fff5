"""What becomes of trials and stores: one Ray for all of it, and a method without torch."""

import json
import os
import pickle
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import cheap as _registers_it  # noqa: F401
import pytest
import ray
from click.testing import CliRunner
from ray import tune
from store_contents import assert_stores_agree
from sweeps import TINY

from cse_platform import trainable
from cse_platform.cli.evaluate import main as evaluate
from cse_platform.cli.leaderboard import main as leaderboard
from cse_platform.cli.sweep import main
from cse_platform.runner import driver
from cse_platform.runner.ray_process import worker_environment
from cse_platform.tracking.events import TrialFinished, TrialPoint

ONE_AT_A_TIME = {"cpu": 2}
ONE_TRIAL = {"sampler": "random", "trials": 1}
TOO_HOT = 9.0


def test_pruned_and_failed_trials(run_here, new_sweep, tmp_path: Path) -> None:
    temperatures = [0.1, TOO_HOT, 0.9]
    sweep = new_sweep(
        tmp_path,
        space={"temperature": temperatures},
        search={
            "sampler": "random",
            "trials": 3,
            "start_from": [{"temperature": one} for one in temperatures],
        },
        pruner={"kind": "successive_halving", "min_step": 2, "reduction_factor": 2},
        resources=ONE_AT_A_TIME,
    )
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    good, failed, pruned = sweep.history().trials.values()
    assert (good.state, sorted(good.curve)) == ("COMPLETE", [0, 2, 4, 6])
    assert (pruned.state, sorted(pruned.curve)) == ("PRUNED", [0, 2])
    assert (failed.state, sorted(failed.curve)) == ("FAIL", [0])
    assert "too hot: 9" in failed.error
    whole = (sweep.runs / "sweeps" / "tiny" / "errors" / "trial-1.txt").read_text()
    assert "in train" in whole
    assert "\x1b" not in whole
    assert not list(sweep.runs.glob("*.db-wal"))  # a copy of a store's one file has everything
    assert_stores_agree(sweep)


def test_a_trial_without_torch_has_a_worker_without_it(run_here, new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, space={}, search=ONE_TRIAL)
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    points = [event for event in sweep.events() if isinstance(event, TrialPoint)]
    assert [point.metrics["train/torch_is_imported"] for point in points] == [0.0] * 4
    [trial] = sweep.history().trials.values()
    [end] = [event for event in sweep.events() if isinstance(event, TrialFinished)]
    assert end.provenance["code"] == trial.code  # by the worker, of what it has run


def test_sweep_of_which_every_trial_fails(run_in_process, new_sweep, tmp_path: Path) -> None:
    fixed = {"temperature": TOO_HOT}
    sweep = new_sweep(tmp_path, space={}, fixed=fixed, search=ONE_TRIAL)
    result = run_in_process(sweep)
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ") and "'tiny'" in line and "too hot: 9" in line


def test_sweep_of_which_all_trials_fail_alike_stops(
    run_in_process, new_sweep, tmp_path: Path
) -> None:
    sweep = new_sweep(
        tmp_path,
        space={"depth": {"low": 1, "high": 1000}},
        fixed={"temperature": TOO_HOT, "kind": "b"},
        search={"sampler": "random", "trials": 20},
    )
    result = run_in_process(sweep)
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ") and "'tiny'" in line and line.count("too hot: 9") == 1
    assert len(sweep.history().trials) < 6
    last = sweep.events()[-1]
    assert last.state == "INTERRUPTED" and "too hot: 9" in last.why


def test_bug_in_the_driver_ends_the_sweep_and_is_shown(run_here, new_sweep, tmp_path: Path) -> None:
    fixed = {"temperature": TOO_HOT}
    sweep = new_sweep(tmp_path, space={}, fixed=fixed, search=ONE_TRIAL)
    errors = sweep.runs / "sweeps" / "tiny" / "errors"
    errors.parent.mkdir(parents=True)
    errors.touch()  # where the folder of tracebacks should be
    result = run_here(sweep)
    assert isinstance(result.exception, FileExistsError)
    assert sweep.events()[-1].state == "INTERRUPTED"


def test_mlflow_that_is_down_for_the_whole_sweep(
    run_in_process, new_sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FLUSH_SECONDS", 1.0)
    sweep = new_sweep(tmp_path, search=ONE_TRIAL)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    down = run_in_process(sweep, "--set", f"stores.mlflow={nobody}")
    assert down.exit_code == 0, down.output
    note, line = (line for line in down.stderr.splitlines() if nobody in line)
    assert note.startswith("note: ")  # before the first trial
    assert line.startswith(f"mlflow lacks {len(sweep.events())} events ")
    monkeypatch.setattr(driver, "FLUSH_SECONDS", 60.0)
    back = run_in_process(sweep)
    assert back.exit_code == 0, back.output
    assert "is complete already" in back.stdout
    assert_stores_agree(sweep)


class Intruder:
    """Runs what its writer wants where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def test_nothing_is_unpickled_out_of_the_storage(
    run_here, new_sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = pickle.dumps(Intruder(tmp_path / "trace"))

    def plant(_error: Exception, file: BinaryIO) -> None:
        """As if somebody replaced the file as soon as Ray has written it."""
        file.write(planted)

    rays = {"dumps": ray.cloudpickle.dumps, "loads": ray.cloudpickle.loads, "dump": plant}
    monkeypatch.setattr(ray.tune.experiment.trial, "cloudpickle", SimpleNamespace(**rays))
    fixed = {"temperature": TOO_HOT}
    sweep = new_sweep(tmp_path, space={}, fixed=fixed, search=ONE_TRIAL)
    result = run_here(sweep)
    assert not (tmp_path / "trace").exists()
    assert "too hot: 9" in result.stderr
    (trial,) = sweep.history().trials.values()
    assert trial.state == "FAIL"


@pytest.mark.slow  # `make quickstart` runs stages too
def test_stages_of_which_the_second_is_taught_by_the_first(
    run_here, new_sweep, tmp_path: Path
) -> None:
    short = {"max_steps": 2, "eval_steps": 2, "batch_size": 8}
    taught = {
        "sweep": "taught",
        "method": "rankcse",
        "backbone": "mini",
        "corpus": "builtin",
        "data": "builtin",
        "fixed": short
        | {"tau3": 0.0125, "teachers": [{"best": {"method": "simcse", "backbone": "mini"}}]},
        "search": ONE_TRIAL,
    }
    search = {"sampler": "random", "trials": 2}
    first = new_sweep(tmp_path, TINY, fixed=short, search=search, seeds={})
    second = type(first)(first.file, first.runs, "taught")
    stages = [first.file.read_text(), json.dumps(taught)]
    first.file.write_text("{stages: [" + ", ".join(stages) + "]}")
    result = run_here(first)
    assert result.exit_code == 0, result.output
    best = max(first.history().trials.values(), key=lambda trial: trial.best_value)
    folder = str(first.runs / "artifacts" / "models" / best.key[:16])
    assert second.history().best == {"best:simcse/mini": folder}
    (trial,) = second.history().trials.values()
    assert (trial.state, trial.values["teachers"][0]["model"]) == ("COMPLETE", folder)
    again = run_here(first)
    assert again.exit_code == 0
    assert again.stdout.count("is complete already") == 2
    assert len(second.history().trials) == 1


def test_more_gpus_than_there_are(run_here, new_sweep, tmp_path: Path) -> None:
    result = run_here(new_sweep(tmp_path, resources={"gpu": 1}))
    assert result.exit_code == 1
    assert "--set resources.gpu=0" in result.stderr


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


@pytest.fixture
def joined(cluster: str, monkeypatch: pytest.MonkeyPatch):
    """This process, as somebody's own script that has joined the cluster."""
    ray.init(address=cluster, log_to_driver=False, runtime_env=worker_environment(cluster))
    yield
    ray.shutdown()


def settings(**changes: object) -> dict[str, Any]:
    """What a script hands to `trainable("cheap")`."""
    return {"seed": 0, "backbone": "mini", "corpus": "builtin", "data": "builtin", **changes}


def test_ones_own_script_goes_on_from_tunes_checkpoint(joined: None, tmp_path: Path) -> None:
    killer = Killer()
    tuner = tune.Tuner(
        trainable("cheap"),
        param_space=settings(),
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


def test_settings_that_mean_nothing_are_named(joined: None, tmp_path: Path) -> None:
    tuner = tune.Tuner(
        trainable("cheap"),
        param_space=settings(temperature=-1, kinds="a"),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    (error,) = tuner.fit().errors
    assert "cheap refuses its settings: kinds: " in str(error)
    assert "did you mean 'kind'" in str(error)
    assert "temperature: expected more than 0, got -1" in str(error)


def test_a_worker_with_other_code_than_the_driver_trains_nothing(
    joined: None, tmp_path: Path
) -> None:
    run_config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    other = tune.Tuner(
        trainable("cheap"), param_space=settings(code="0" * 64), run_config=run_config
    )
    (error,) = other.fit().errors
    assert "the code of cheap" in str(error)


def test_a_search_that_its_time_ends_says_so(run_here, new_sweep, tmp_path: Path) -> None:
    search = {"sampler": "random", "budget": {"time": "0.01s"}}
    sweep = new_sweep(tmp_path, search=search, seeds={"confirm": {"top": 1, "seeds": [0]}})
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    assert "ended by its budget: 0.01s of trials" in result.output
    *searched, last = [trial.role for trial in sweep.history().trials.values()]
    assert (set(searched), last) == ({"search"}, "confirm")
    told = CliRunner().invoke(main, ["status", "tiny", "--runs", str(sweep.runs)])
    assert "0.01s of trials" in told.output
    assert "is complete already" in run_here(sweep).output


def test_models_beyond_the_best_are_deleted_and_everything_says_so(
    run_here, new_sweep, tmp_path: Path
) -> None:
    sweep = new_sweep(tmp_path, search={"sampler": "random", "trials": 2}, keep={"models": 1})
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    assert "1 model deleted; " in result.output
    (folder,) = (sweep.runs / "artifacts" / "models").iterdir()
    (gone,) = [one for one in sweep.history().trials.values() if one.model_deleted]
    assert not gone.key.startswith(folder.name)
    where = ["--runs", str(sweep.runs)]
    for command, words in ((evaluate, [gone.key]), (leaderboard, ["show", gone.key])):
        said = CliRunner().invoke(command, [*words, *where]).output
        assert "it was deleted on" in said and "reproduce" in said
    exported = CliRunner().invoke(leaderboard, ["export", gone.key, str(tmp_path / "x"), *where])
    assert exported.exit_code == 1 and "it was deleted on" in exported.output
    assert_stores_agree(sweep)
    assert "is complete already" in run_here(sweep).output


@pytest.mark.slow
def test_the_end_of_a_search_says_how_far_it_can_be_trusted(
    run_here, new_sweep, tmp_path: Path
) -> None:
    search = {"sampler": "random", "trials": 10}
    sweep = new_sweep(tmp_path, search=search, seeds={"confirm": {"top": 1, "seeds": [0, 1]}})
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    told = [line.strip() for line in result.output.splitlines()]
    assert any(line.startswith("best of 10 trials ") for line in told)
    assert any("2 fresh seeds" in line for line in told)
    asked = CliRunner().invoke(leaderboard, ["search", "tiny", "--runs", str(sweep.runs)])
    assert {*asked.output.splitlines()} <= {*told}


@pytest.mark.parametrize(
    "sampler",
    [pytest.param("random", marks=pytest.mark.slow), {"kind": "tpe", "startup_trials": 3}],
    ids=str,
)
def test_a_lost_search_store_changes_nothing(run_here, new_sweep, tmp_path: Path, sampler) -> None:
    """It is filled from the journal, and the search goes on with the trials that it would have."""
    space = {"temperature": {"low": 0.01, "high": 1.0, "log": True}, "kind": ["a", "b"]}
    search = {"sampler": sampler, "trials": 8, "seed": 6}
    tried = []
    for name, parts in (("whole", (8,)), ("lost", (4, 8))):
        (tmp_path / name).mkdir()
        sweep = new_sweep(tmp_path / name, space=space, resources=ONE_AT_A_TIME)
        for trials in parts:
            sweep.change(search={**search, "trials": trials})
            for file in sweep.runs.glob("search.db*"):
                file.unlink()
            result = run_here(sweep)
            assert result.exit_code == 0, result.output
        tried.append([trial.searched_values for trial in sweep.history().trials.values()])
        assert_stores_agree(sweep)
    assert tried[0] == tried[1] and len(tried[0]) == 8
