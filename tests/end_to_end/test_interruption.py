import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from object_store import *  # noqa: F403
from processes import SECONDS, end_of, wait_until
from sqlalchemy import select
from store_contents import assert_stores_agree
from sweeps import CHEAP, TINY, Sweep, write_sweep

from cse_platform.stores.mlflow.store import open_experiment
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import AttemptRecord
from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialReused, TrialStarted

pytestmark = pytest.mark.slow

INTERRUPTED = "Interrupted; the same command goes on from here.\n"
ONE_TRIAL = {"space": {}, "search": {"sampler": "random", "trials": 1}}


def test_an_older_copy_of_the_journal_is_refused_and_the_ways_out_work(new_sweep, tmp_path) -> None:
    sweep = new_sweep(tmp_path, search=CHEAP["search"] | {"trials": 24})
    older, newest = tmp_path / "older", tmp_path / "newest"
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialFinished, 3)
        shutil.copy(sweep.journal_file, older)
        known = older.read_bytes().count(b'"trial_finished"')
        wait_until(lambda: _states(sweep).count("COMPLETE") > known)  # the leaderboard, in its time
        process.kill()
        process.wait()
    shutil.copy(sweep.journal_file, newest)
    shutil.copy(older, sweep.journal_file)
    refused = sweep.run()
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert "is an older copy; put the newest copy back" in refused.stderr
    assert sweep.journal_file.read_bytes() == older.read_bytes()
    shutil.copy(newest, sweep.journal_file)
    assert sweep.run().returncode == 0
    assert_stores_agree(sweep)
    shutil.copy(older, sweep.journal_file)
    again = replace(sweep, name="again")
    assert sweep.run("--set", "sweep=again").returncode == 0
    assert [trial.state for trial in again.history().trials.values()] == 24 * ["COMPLETE"]
    assert len(again.events(TrialReused)) > 3
    assert _states(sweep) == 24 * ["COMPLETE"]


def _states(sweep: Sweep) -> Sequence[str]:
    with open_store(sweep.stores["leaderboard"]) as board, board.session() as session:
        return session.scalars(select(AttemptRecord.state)).all()


def test_killed_workers_then_ctrl_c(swept: Sweep, tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, TINY, resources={"checkpoint_every": "0s"})
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 5)  # both have passed step 0
        below = psutil.Process(process.pid).children(recursive=True)
        workers = [one for one in below if one.name().startswith("ray::ResourceTrainable")]
        assert workers, [one.name() for one in below]
        for worker in workers:
            worker.kill()
        sweep.wait_for(process, TrialStarted, 4)
        known = len(sweep.events(TrialPoint))
        sweep.wait_for(process, TrialPoint, known + 1)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    went_on = [e.resumed_from for e in sweep.events(TrialStarted)][2:]
    assert any(went_on)
    assert process.returncode == 130
    assert said.endswith(INTERRUPTED)
    assert "Traceback" not in said
    assert sweep.run().returncode == 0
    assert sweep.curves() == swept.curves()
    assert_stores_agree(sweep)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_a_trial_that_is_cut_off_between_checkpoints(new_sweep, tmp_path, sent) -> None:
    """After SIGTERM it goes on from a checkpoint that was asked for, else from the beginning."""
    asked = sent == signal.SIGTERM
    written = new_sweep(tmp_path, gate=2, resources={"checkpoint_every": "1h"}, **ONE_TRIAL)
    sweep = replace(written, surroundings={"CHEAP_LATE": "1"})
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 2)
        process.send_signal(sent)
        if asked:
            request = sweep.journal_file.parent / "ray" / "save_now"
            while not request.exists():
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            sweep.let(4)
        _, said = process.communicate(timeout=SECONDS)
    if asked:
        assert (process.returncode, said) == (143, INTERRUPTED)
    (trial,) = sweep.history().trials.values()
    known = (4, [0, 2, 4]) if asked else (None, [0, 2])
    assert (trial.checkpoint and trial.checkpoint[0], [*trial.curve]) == known
    sweep.let(6)
    assert sweep.run().returncode == 0
    starts = [event.resumed_from for event in sweep.events(TrialStarted)]
    assert starts == [None, 4 if asked else 0]
    points = [event.step for event in sweep.events(TrialPoint)]
    assert points == [0, 2, 4, 6]
    assert_stores_agree(sweep)


def test_lack_of_memory_ends_a_trial_and_not_the_sweep(new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, gate=0, **ONE_TRIAL)
    # Ray ends trials where more memory is used, and more always is.
    ended = replace(sweep, surroundings={"RAY_memory_usage_threshold": "0.001"})
    done = ended.run()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (trial,) = ended.history().trials.values()
    assert (trial.state, trial.number) == ("FAIL", 0)
    assert "low on memory" in trial.error
    starts = len(ended.events(TrialStarted))
    assert starts == 1 + 3
    assert ended.events()[-1].state == "COMPLETE"


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["driver", "everyone"])
def test_sigterm(new_sweep, tmp_path: Path, send: Callable[[int, int], None]) -> None:
    sweep = new_sweep(tmp_path, gate=2, **ONE_TRIAL)
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 2)
        below = psutil.Process(process.pid).children(recursive=True)
        send(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=SECONDS)
        _, alive = psutil.wait_procs(below, timeout=SECONDS)
    assert (process.returncode, said, alive) == (143, INTERRUPTED, [])
    sweep.let(6)
    assert sweep.run().returncode == 0
    (trial,) = sweep.history().trials.values()
    assert (trial.state, trial.resumed_from, sorted(trial.curve)) == ("COMPLETE", 2, [0, 2, 4, 6])
    assert_stores_agree(sweep)


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_ray_that_dies_is_started_again(new_sweep, tmp_path: Path, name: str) -> None:
    sweep = new_sweep(tmp_path, gate=2, **ONE_TRIAL)
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 2)
        for below in psutil.Process(process.pid).children():
            if below.name() == name:
                below.kill()
        sweep.wait_for(process, TrialStarted, 2)
        sweep.let(6)
        out, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert "Ray on this machine died" in said
    assert "[state-dump]" not in out + said
    (trial,) = sweep.history().trials.values()
    assert (trial.state, trial.resumed_from, sorted(trial.curve)) == ("COMPLETE", 2, [0, 2, 4, 6])
    assert_stores_agree(sweep)


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_ctrl_c_ends_a_start_that_hangs(new_sweep, tmp_path: Path, name: str) -> None:
    """Nothing of Ray is left, and a second Ctrl-C is not waited for."""
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        sweep = new_sweep(folder, **ONE_TRIAL)
        with end_of(sweep.start()) as process:
            below = _wait_for_process(process, name)
            below.suspend()  # for ever; Ray itself waits for half a minute, and tries once more
            started = psutil.Process(process.pid).children(recursive=True)
            for _ in range(count):
                process.send_signal(signal.SIGINT)
                time.sleep(0.2)  # else both are one
            _, said = process.communicate(timeout=SECONDS)
            _, alive = psutil.wait_procs(started, timeout=SECONDS)
        assert (process.returncode, said, alive) == (130, INTERRUPTED, [])
        assert not sweep.journal_file.exists()


def _wait_for_process(process: subprocess.Popen[str], name: str) -> psutil.Process:
    """Wait until a command has started a process of that name."""
    deadline = time.monotonic() + SECONDS
    while True:
        for below in psutil.Process(process.pid).children():
            if below.name() == name:
                return below
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)


def test_a_ray_that_does_not_start_is_started_once_more(new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, **ONE_TRIAL)
    with end_of(sweep.start()) as process:
        _wait_for_process(process, "gcs_server").suspend()  # for ever, as a busy machine seems to
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    # Beside it stand warnings of Ray's native code about the process that does not answer.
    assert ["trying once more" in line for line in said.splitlines()].count(True) == 1


def test_killed_while_mlflow_makes_its_tables(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, TINY)

    def unfinished() -> list[Path]:
        return list(sweep.runs.glob("mlflow.db.*.part"))

    with end_of(sweep.start()) as process:
        while not any(file.stat().st_size > 100_000 for file in unfinished()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.kill()
    assert not (sweep.runs / "mlflow.db").exists()
    store = f"sqlite:///{sweep.runs / 'mlflow.db'}"
    assert open_experiment(store, "cse", artifacts=sweep.runs / "artifacts")
    assert not unfinished()


def test_a_killed_driver_goes_on_from_the_object_store(new_sweep, tmp_path, bucket) -> None:
    written = new_sweep(tmp_path, storage=f"{bucket.uri}/cse", gate=2, **ONE_TRIAL)
    sweep = replace(written, surroundings=bucket.environment)
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 2)
        process.kill()
    sweep.let(6)
    ended = sweep.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    (trial,) = sweep.history().trials.values()
    assert (trial.state, trial.resumed_from, sorted(trial.curve)) == ("COMPLETE", 2, [0, 2, 4, 6])
    assert trial.model is not None and trial.model.startswith(f"{bucket.uri}/cse/artifacts/models/")
    folder = trial.model.removeprefix(f"{bucket.uri}/")
    assert bucket.names() == [f"{folder}/cse_trial.txt", f"{folder}/model.json"]
    assert not (tmp_path / "runs" / "artifacts" / "models").exists()
    assert_stores_agree(sweep)
    told = [path for path in tmp_path.rglob("*") if path.is_file()]
    secret = bucket.environment["AWS_SECRET_ACCESS_KEY"].encode()
    assert not [path for path in told if secret in path.read_bytes()]
