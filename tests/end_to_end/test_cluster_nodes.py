import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import requests
from outside_methods import with_outside_methods
from processes import SECONDS, end_of, environment, run_command, start_command, wait_until
from ray_nodes import autoscaled_nodes, free_address, own_ray, ray_head, ray_nodes
from store_contents import assert_stores_agree

from cse_platform.tracking.events import SweepRequested, TrialPoint, TrialStarted

pytestmark = [pytest.mark.xdist_group("cluster nodes"), pytest.mark.slow]

DEPLOY = Path(__file__).parents[2] / "platform" / "deploy"
SCRIPT, WORKER = DEPLOY / "slurm.sh", DEPLOY / "slurm-worker.sh"
SRUN = """#!/bin/sh
[ "$1" = --cpus-per-task ] && shift 2
SLURM_PROCID=0 "$@" &
SLURM_PROCID=1 "$@" &
wait
"""
"""What Slurm's command does with two nodes, as far as the script needs it."""
SIX = {"search": {"sampler": "random", "trials": 6, "seed": 6}}


def test_trials_of_a_lost_node_go_on_elsewhere_and_a_node_that_joins_gets_trials(
    new_sweep, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.write_text("2")  # after the first checkpoint
    folders = tmp_path / "disturbed", tmp_path / "undisturbed"
    for folder in folders:
        folder.mkdir()
    disturbed, undisturbed = (new_sweep(f, **SIX, fixed={"gate": str(gate)}) for f in folders)
    with ray_nodes() as nodes:
        nodes.add("first", cpus=2)
        nodes.add("second", cpus=2)
        with end_of(disturbed.start("--address", nodes.address)) as process:
            disturbed.wait_for(process, TrialPoint, 4 * 2)
            nodes.kill("second")
            nodes.add("third", cpus=3)
            disturbed.wait_for(process, TrialStarted, 4 + 2 + 1)  # the third has room for one more
            gate.write_text("6")
            _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
        assert undisturbed.run("--address", nodes.address).returncode == 0
    assert disturbed.curves() == undisturbed.curves()
    starts = [e.resumed_from for e in disturbed.events(TrialStarted)]
    assert sorted(starts, key=bool) == [None] * 6 + [2] * 2
    assert {trial.state for trial in disturbed.history().trials.values()} == {"COMPLETE"}
    assert_stores_agree(disturbed)


def test_the_autoscaler_adds_a_node_for_each_trial_that_waits(new_sweep, tmp_path: Path) -> None:
    """Up to the sweep's limit, which a person lifts while it runs."""
    sweep = new_sweep(tmp_path, gate=2, resources={"at_most": 2}, search=SIX["search"])
    with (
        autoscaled_nodes(tmp_path, at_most=3) as address,
        end_of(sweep.start("--address", address)) as process,
    ):
        sweep.wait_for(process, TrialPoint, 2 * 2)
        asked = run_command("cse-sweep", "limit", sweep.name, "none", "--runs", str(sweep.runs))
        assert asked.returncode == 0, asked.stderr
        sweep.wait_for(process, TrialPoint, 3 * 2)
        begun = [event.time for event in sweep.events(TrialStarted)]
        [lifted] = [event.time for event in sweep.events(SweepRequested)]
        sweep.let(6)
        _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (0, "")
    assert [time > lifted for time in begun] == [False, False, True]
    assert {trial.state for trial in sweep.history().trials.values()} == {"COMPLETE"}


def test_a_submitted_sweep_goes_on_where_its_head_was_lost(new_sweep, tmp_path: Path) -> None:
    """On a node of Slurm, which joins the next head by itself."""
    sweep = new_sweep(tmp_path, gate=2, **SIX)
    address, web = free_address(), free_address()
    head = ("--dashboard-host=0.0.0.0", f"--dashboard-port={web.rpartition(':')[2]}")
    words = (str(sweep.file), "--address", web, "--runs", str(sweep.runs))

    def submit() -> None:
        submitted = run_command("cse-sweep", "submit", *words, **with_outside_methods())
        assert submitted.returncode == 0, submitted.stderr

    with own_ray(["bash", WORKER, address], SLURM_CPUS_PER_TASK="2"):
        with ray_head(address, *head):
            wait_until(lambda: has_slots(address, 2), "the node has joined")
            submit()
            wait_until(lambda: len(sweep.events(TrialPoint)) == 4, "both trials wait at the gate")
        with ray_head(address, *head):
            wait_until(lambda: has_slots(address, 2), "the node has joined again")
            submit()
            sweep.let(6)
            store = ("--store", sweep.stores["leaderboard"])
            followed = run_command("cse-sweep", "logs", sweep.name, *store, "--follow")
            jobs = f"http://{web}/api/jobs/"
            wait_until(lambda: '"RUNNING"' not in requests.get(jobs, timeout=60).text)
    assert followed.returncode == 0, followed.stdout
    starts = [e.resumed_from for e in sweep.events(TrialStarted)]
    assert sorted(starts, key=bool) == [None] * 6 + [2] * 2
    assert {trial.state for trial in sweep.history().trials.values()} == {"COMPLETE"}


def has_slots(address: str, cpus: int) -> bool:
    told = run_command("ray", "status", "--address", address, RAY_AUTH_MODE="disabled")
    return f"/{cpus}.0 CPU" in told.stdout


def test_the_script_for_slurm_runs_a_sweep_on_a_ray_of_its_own(new_sweep, tmp_path: Path) -> None:
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(SRUN)
    srun.chmod(0o755)
    path = os.pathsep.join([str(srun.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    sweep = new_sweep(tmp_path)
    said = tmp_path / "said.txt"
    with tempfile.TemporaryDirectory(prefix="ray") as temporary, said.open("w") as output:
        slurm = {
            "PATH": path,
            "RAY_TMPDIR": temporary,  # else the machine's other Rays would join this one
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_JOB_ID": str(os.getpid()),
        }
        command = ["bash", SCRIPT, sweep.file, "--runs", sweep.runs]
        env = environment() | with_outside_methods() | slurm
        with end_of(start_command(command, env=env, stdout=output, stderr=output)) as process:
            process.wait(timeout=SECONDS)
    assert process.returncode == 0, said.read_text()
    assert {trial.state for trial in sweep.history().trials.values()} == {"COMPLETE"}


@pytest.mark.parametrize(
    ("commands", "reason"),
    [(["srun"], "there is no ray here"), (["srun", "ray", "cse-sweep"], "Ray has not started")],
)
def test_the_script_for_slurm_ends_where_ray_cannot_start(commands, reason, tmp_path) -> None:
    """In a shell without the environment, or on a node where Ray fails."""
    for command in commands:
        file = tmp_path / command
        does = 'shift 2; SLURM_PROCID=0 "$@"' if command == "srun" else "exit 1"
        file.write_text(f"#!/bin/sh\n{does}\n")
        file.chmod(0o755)
    ended = subprocess.run(
        ["bash", SCRIPT, "sweep.yaml"],
        env={"PATH": f"{tmp_path}:{os.defpath}", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 1
    assert reason in ended.stderr
