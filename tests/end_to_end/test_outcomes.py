import json
import os
import pickle
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import bad as _registers_them  # noqa: F401
import cheap as _registers_it  # noqa: F401
import pytest
from click.testing import Result
from commands import invoke
from store_contents import assert_stores_agree
from sweeps import CHEAP, Sweep

from cse_platform.cli.evaluate import main as evaluate
from cse_platform.cli.leaderboard import main as leaderboard
from cse_platform.cli.sweep import main
from cse_platform.tracking.events import DriverMessage, TrialFinished, TrialPoint

ONE_AT_A_TIME = {"cpu": 2}
ONE_TRIAL = {"sampler": "random", "trials": 1}
TOO_HOT = 9.0
FIXED = {"space": {}, "fixed": {"temperature": TOO_HOT}, "search": ONE_TRIAL}
"""One trial, which fails."""


class Intruder:
    """Runs what its writer wants where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def looking_stage(folder: Path) -> dict[str, Any]:
    """Its method reads a published test set and one's own while it trains."""
    own, published = folder / "own.tsv", folder / "data/downstream/STS/STSBenchmark/sts-test.csv"
    rows = (f"cat {n}\tdog {n}\t{n / 4}\n" for n in range(21))
    own.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    published.parent.mkdir(parents=True)
    published.write_text("6")
    lines = (f"a\tb\tc\t{n}\t{n % 6}\tword {n}\tword {n + 1}\n" for n in range(1500))
    published.with_name("sts-dev.csv").write_text("".join(lines))
    return {
        **CHEAP,
        "sweep": "looks",
        "data": str(folder / "data"),
        "space": {"gate": [str(own), str(published)]},
        "dev": {"checkpoint": "stsb", "search": "stsb", "also": []},
        "evaluate": {"top": 1, "tasks": ["./own.tsv"]},
    }


@pytest.fixture(scope="module")
def outcomes(new_sweep, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Sweep]:
    """Writes a sweep of which one trial completes, one fails and one is pruned.

    The last is the best, and has two seeds.
    """
    temperatures = [0.1, TOO_HOT, 0.9, 0.05]
    points = [{"temperature": one} for one in temperatures]
    return lambda: new_sweep(
        tmp_path_factory.mktemp("outcomes"),
        space={"temperature": temperatures},
        search={"sampler": "random", "trials": 4, "start_from": points},
        pruner={"kind": "successive_halving", "min_step": 2, "reduction_factor": 2},
        seeds={"search": 42, "confirm": {"top": 1, "seeds": [0]}},
        keep={"models": 1},
        resources=ONE_AT_A_TIME,
    )


@pytest.fixture(scope="module")
def ran(outcomes, sweeps_in_process) -> tuple[Sweep, str]:
    """That sweep, run without Ray, and what was said."""
    sweep = outcomes()
    with sweeps_in_process() as run:
        return sweep, run(sweep).stdout


def asked(sweep: Sweep, command: Any, *words: object, code: int = 0) -> Result:
    return invoke(command, *words, "--runs", sweep.runs, code=code)


def check_outcomes(sweep: Sweep) -> None:
    good, failed, pruned, best, confirmed = sweep.history().trials.values()
    for trial in (good, best, confirmed):
        assert (trial.state, sorted(trial.curve)) == ("COMPLETE", [0, 2, 4, 6])
    assert (confirmed.configuration, confirmed.seed) == (best.configuration, 0)
    assert (pruned.state, sorted(pruned.curve)) == ("PRUNED", [0, 2])
    assert (failed.state, sorted(failed.curve)) == ("FAIL", [0])
    assert "too hot: 9" in failed.error
    whole = (sweep.runs / "sweeps" / "tiny" / "errors" / "trial-1.txt").read_text()
    assert "in train" in whole
    assert "\x1b" not in whole
    assert not list(sweep.runs.glob("*.db-wal"))  # a copy of a store's one file has everything
    assert_stores_agree(sweep)


def test_complete_failed_and_pruned_trials(ran: tuple[Sweep, str]) -> None:
    check_outcomes(ran[0])


@pytest.mark.slow
def test_workers_of_ray(outcomes, run_here) -> None:
    """What they send, import and may not open, and nothing that Ray stores is unpickled."""
    import ray

    sweep = outcomes()
    folder, stages = sweep.file.parent, sweep.file.with_name("stages.yaml")
    further = {"search": {"sampler": "grid"}, "resources": ONE_AT_A_TIME}
    space = {"way": ["well"], "max_length": [16, 32]}
    unread = {**CHEAP, "sweep": "unread", "method": "bad", "space": space}
    later = [one | further for one in (unread, looking_stage(folder))]
    stages.write_text(json.dumps({"stages": [json.loads(sweep.file.read_text()), *later]}))
    planted = pickle.dumps(Intruder(folder / "trace"))

    def plant(_error: Exception, file: BinaryIO) -> None:
        """As if somebody replaced the file as soon as Ray has written it."""
        file.write(planted)

    rays = {"dumps": ray.cloudpickle.dumps, "loads": ray.cloudpickle.loads, "dump": plant}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.tune.experiment.trial.cloudpickle", SimpleNamespace(**rays))
        result = run_here(replace(sweep, file=stages), code=1)
    assert "'looks'" in result.stderr.splitlines()[-1], result.output
    check_outcomes(sweep)
    assert not (folder / "trace").exists()
    # A method without torch has a worker without it, which names the code that it has run.
    events = sweep.events()
    points = [event for event in events if isinstance(event, TrialPoint)]
    assert {point.metrics["train/torch_is_imported"] for point in points} == {0.0}
    code = {trial.code for trial in sweep.history().trials.values()}
    ends = [event for event in events if isinstance(event, TrialFinished)]
    assert {e.provenance["code"] for e in ends if e.state == "COMPLETE"} == code and len(code) == 1
    # A searched setting that nothing reads is warned of once.
    unread, looks = (replace(sweep, file=stages, name=one["sweep"]) for one in later)
    assert {trial.state for trial in unread.history().trials.values()} == {"COMPLETE"}
    messages = [one.text for one in unread.events(DriverMessage)]
    [warning] = [text for text in messages if "never read" in text]
    assert re.match(r"trial \d never read max_length, which is in 'space': ", warning)
    # No trial can open a test set.
    trials = looks.history().trials.values()
    assert [trial.state for trial in trials] == ["FAIL", "FAIL"]
    for trial in trials:
        assert trial.curve == {}
        assert f"may not open the test set {trial.values['gate']}" in str(trial.error)


def test_logs_are_the_lines_of_the_run(ran: tuple[Sweep, str]) -> None:
    sweep, said = ran
    lines = re.findall(r"^trial +\d.*$", said, re.MULTILINE)
    assert {line.split()[2] for line in lines} == {"COMPLETE", "FAIL", "PRUNED"}
    told = asked(sweep, main, "logs", "tiny")
    assert told.output.startswith("".join(f"{line}\n" for line in lines))
    attached = asked(sweep, main, "logs", "tiny", "--follow")
    assert attached.output.startswith("tiny: 5 of 5 trials · best ")
    assert attached.output.count("\n") == 1


def test_models_beyond_the_best_are_deleted_and_everything_says_so(
    ran: tuple[Sweep, str], run_in_process, tmp_path: Path
) -> None:
    sweep, said = ran
    assert "1 model deleted; " in said
    trials = sweep.history().trials.values()
    (gone,) = [one for one in trials if one.model_deleted]
    kept = {folder.name for folder in (sweep.runs / "artifacts" / "models").iterdir()}
    assert kept == {one.key[:16] for one in list(trials)[3:]}
    for command, words in ((evaluate, [gone.key]), (leaderboard, ["show", gone.key])):
        told = asked(sweep, command, *words, code=int(command is evaluate)).output
        assert "it was deleted on" in told and "reproduce" in told
    exported = asked(sweep, leaderboard, "export", gone.key, tmp_path / "x", code=1)
    assert "it was deleted on" in exported.output
    assert "is already complete" in run_in_process(sweep).output


def test_bug_in_the_driver_ends_the_sweep_and_is_shown(run_in_process, new_sweep, tmp_path) -> None:
    sweep = new_sweep(tmp_path, **FIXED)
    errors = sweep.runs / "sweeps" / "tiny" / "errors"
    errors.parent.mkdir(parents=True)
    errors.touch()  # where the folder of tracebacks should be
    with pytest.raises(FileExistsError):
        run_in_process(sweep, catch_exceptions=False)
    assert sweep.events()[-1].state == "INTERRUPTED"


@pytest.mark.slow
def test_mlflow_that_is_down_for_the_whole_sweep(
    run_in_process, new_sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cse_platform.runner.driver.FLUSH_SECONDS", 1.0)
    sweep = new_sweep(tmp_path, search=ONE_TRIAL)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    down = run_in_process(sweep, "--set", f"stores.mlflow={nobody}")
    note, line = (line for line in down.stderr.splitlines() if nobody in line)
    assert note.startswith("note: ")  # before the first trial
    assert line.startswith(f"mlflow lacks {len(sweep.events())} events ")
    monkeypatch.setattr("cse_platform.runner.driver.FLUSH_SECONDS", 60.0)
    back = run_in_process(sweep)
    assert "is already complete" in back.stdout
    assert_stores_agree(sweep)


@pytest.mark.slow
def test_more_gpus_than_there_are(run_here, new_sweep, tmp_path: Path) -> None:
    result = run_here(new_sweep(tmp_path, resources={"gpu": 1}), code=1)
    assert "--set resources.gpu=0" in result.stderr


@pytest.fixture
def results_of(joined: None, tmp_path: Path) -> Callable[..., Any]:
    """What Tune, asked by somebody's own script, has of a trial with these settings."""
    from ray import tune

    from cse_platform import trainable

    def run(callbacks: list[Any], **changes: object) -> Any:
        how = tune.RunConfig(
            storage_path=str(tmp_path),
            failure_config=tune.FailureConfig(max_failures=len(callbacks)),
            callbacks=callbacks,
            verbose=0,
        )
        of_cheap = {"seed": 0, "backbone": "mini", "corpus": "builtin", "data": "builtin"}
        return tune.Tuner(trainable("cheap"), param_space=of_cheap | changes, run_config=how).fit()

    return run


@pytest.mark.slow
def test_ones_own_script_goes_on_from_tunes_checkpoint(results_of: Callable[..., Any]) -> None:
    from ray import tune

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

    killer = Killer()
    best = results_of([killer]).get_best_result("dev/stsb_spearman", mode="max")
    assert -1 <= best.metrics["dev/stsb_spearman"] <= 1
    # Tune takes a checkpoint over only after the callbacks: that of step 2 is its newest.
    assert [result["step"] for result in killer.results] == [0, 2, 4, 4, 6]
    before, after = killer.results[2:4]
    assert before["dev/stsb_spearman"] == after["dev/stsb_spearman"]
    assert len({result["pid"] for result in killer.results}) == 2


@pytest.mark.slow
def test_other_code_and_settings_that_mean_nothing_are_named(results_of) -> None:
    (error,) = results_of([], code="0" * 64).errors
    assert "the code of cheap" in str(error) and "run the same command again" in str(error)
    (error,) = results_of([], temperature=-1, kinds="a").errors
    assert "cheap refuses its settings: kinds: " in str(error)
    assert "did you mean 'kind'" in str(error)
    assert "temperature: expected more than 0, got -1" in str(error)
