"""Nodes of a cluster get the code of the driver's machine; those that differ get no trials."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from outside_methods import lay_metadata, with_outside_methods
from processes import SECONDS, end_of
from ray_nodes import ray_nodes
from sweeps import Sweep

from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted

pytestmark = pytest.mark.slow

FOUR = {"search": {"sampler": "random", "trials": 4, "seed": 6}}


def with_other_code(folder: Path) -> dict[str, str]:
    """The environment in which `cheap` is another version of itself."""
    site = with_outside_methods()["PYTHONPATH"].split(os.pathsep)[0]
    shutil.copytree(site, folder)
    file = folder / "cheap.py"
    file.write_text(file.read_text().replace("0.8 * (1 - ", "0.9 * (1 - "))
    return {"PYTHONPATH": str(folder)}


def test_the_code_travels_to_nodes_with_other_code(cluster: str, new_sweep, tmp_path: Path) -> None:
    sweep = replace(new_sweep(tmp_path), surroundings=with_other_code(tmp_path / "edited"))
    done = sweep.run("--address", cluster)
    assert (done.returncode, done.stderr) == (0, "")
    events = sweep.events()
    assert max(e.metrics["dev/stsb_spearman"] for e in events if isinstance(e, TrialPoint)) > 0.9
    asked_for = {event.code for event in events if isinstance(event, TrialStarted)}
    trained_by = {e.provenance["code"] for e in events if isinstance(e, TrialFinished)}
    assert trained_by == asked_for and len(asked_for) == 1


def test_a_cluster_with_other_code_is_refused_if_none_travels(
    cluster: str, new_sweep, tmp_path: Path
) -> None:
    sweep = replace(new_sweep(tmp_path), surroundings=with_other_code(tmp_path / "edited"))
    done = sweep.run("--address", cluster, "--no-ship")
    assert done.returncode == 1
    assert "gets no trials: the code of cheap " in done.stderr
    assert not any(isinstance(event, TrialStarted) for event in sweep.events())


def test_a_node_with_another_torch_is_refused_before_anything_is_installed_there(
    new_sweep, tmp_path: Path
) -> None:
    metadata = tmp_path / "older" / "torch-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    lay_metadata(tmp_path / "older", "numpy", {})  # would be installed in the right version
    sweep: Sweep = new_sweep(tmp_path)
    with ray_nodes() as nodes:
        nodes.add("older", cpus=1, PYTHONPATH=str(tmp_path / "older"))
        done = sweep.run("--address", nodes.address)
    assert done.returncode == 1
    assert "gets no trials: torch is 0.1 and not " in done.stderr
    assert "installs" not in done.stderr


def test_trials_run_on_the_nodes_that_have_passed_alone(new_sweep, tmp_path: Path) -> None:
    other = with_other_code(tmp_path / "edited")
    gate = tmp_path / "gate"
    gate.write_text("0")
    sweep: Sweep = new_sweep(tmp_path, **FOUR, fixed={"gate": str(gate)})
    with ray_nodes() as nodes:
        nodes.add("alike", cpus=1)
        nodes.add("edited", cpus=3, **other)
        with end_of(sweep.start("--address", nodes.address, "--no-ship")) as process:
            sweep.wait_for(process, TrialStarted, 1)
            nodes.add("joins edited", cpus=2, **other)
            nodes.add("joins alike", cpus=1)
            sweep.wait_for(process, TrialStarted, 2)
            gate.write_text("6")
            _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert said.count("gets no trials: the code of cheap ") == 2
    ends = [event.state for event in sweep.events() if isinstance(event, TrialFinished)]
    assert ends == ["COMPLETE"] * 4
