"""The script for Slurm, on two nodes that are this machine."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from outside_methods import with_outside_methods
from processes import SECONDS, end_of, environment

pytestmark = [pytest.mark.xdist_group("cluster nodes"), pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "platform" / "deploy" / "slurm.sh"
SRUN = """#!/bin/sh
[ "$1" = --cpus-per-task ] && shift 2
SLURM_PROCID=0 "$@" &
SLURM_PROCID=1 "$@" &
wait
"""
"""What Slurm's command does with two nodes, as far as the script needs it."""


def test_a_sweep_runs_on_a_ray_of_its_own(new_sweep, tmp_path: Path) -> None:
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
            "CSE_DASHBOARD": "",
        }
        command = subprocess.Popen(
            ["bash", str(SCRIPT), str(sweep.file), "--runs", str(sweep.runs)],
            env=environment() | with_outside_methods() | slurm,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
        )
        with end_of(command) as process:
            process.wait(timeout=SECONDS)
    assert process.returncode == 0, said.read_text()
    assert {trial.state for trial in sweep.history().trials.values()} == {"COMPLETE"}
