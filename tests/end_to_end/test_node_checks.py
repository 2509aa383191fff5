import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from outside_methods import with_outside_methods
from processes import SECONDS, end_of, environment, start_command
from ray_nodes import ray_nodes
from sweeps import CHEAP, Sweep

from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted

pytestmark = pytest.mark.slow

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def with_other_code(folder: Path) -> dict[str, str]:
    """The environment in which `cheap` is another version of itself."""
    site = with_outside_methods()["PYTHONPATH"].split(os.pathsep)[0]
    shutil.copytree(site, folder)
    file = folder / "cheap.py"
    file.write_text(file.read_text().replace("0.8 * (1 - ", "0.9 * (1 - "))
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def test_the_code_travels_to_nodes_with_other_code(cluster: str, new_sweep, tmp_path: Path) -> None:
    sweep = replace(new_sweep(tmp_path), surroundings=with_other_code(tmp_path / "edited"))
    done = sweep.run("--address", cluster)
    assert (done.returncode, done.stderr) == (0, "")
    events = sweep.events()
    assert max(e.metrics["dev/stsb_spearman"] for e in events if isinstance(e, TrialPoint)) > 0.9
    asked_for = {event.code for event in events if isinstance(event, TrialStarted)}
    trained_by = {e.provenance["code"] for e in events if isinstance(e, TrialFinished)}
    assert trained_by == asked_for and len(asked_for) == 1


def test_trials_run_on_the_nodes_that_have_passed_alone(new_sweep, tmp_path: Path) -> None:
    other = with_other_code(tmp_path / "edited")
    sweep: Sweep = new_sweep(tmp_path, gate=0, search=CHEAP["search"] | {"trials": 4})
    with ray_nodes() as nodes:
        nodes.add("alike", cpus=1)
        nodes.add("edited", cpus=3, **other)
        with end_of(sweep.start("--address", nodes.address, "--no-ship")) as process:
            sweep.wait_for(process, TrialStarted, 1)
            nodes.add("joins edited", cpus=2, **other)
            nodes.add("joins alike", cpus=1)
            sweep.wait_for(process, TrialStarted, 2)
            sweep.let(6)
            _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert said.count("gets no trials: the code of cheap ") == 2
    ends = [event.state for event in sweep.events(TrialFinished)]
    assert ends == ["COMPLETE"] * 4


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a Python with Ray, and with what stands for torch, which takes long."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = (folder / "bin" / "pip", "install", "--quiet", "--constraint", CONSTRAINTS)
    subprocess.run([*pip, "ray[default]"], check=True, env=environment())
    [site] = folder.glob("lib/python*/site-packages")
    metadata = site / f"torch-{version('torch')}.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: torch\nVersion: {version('torch')}\n"
    (metadata / "METADATA").write_text(text)
    return folder / "bin"


@contextmanager
def node_of(commands: Path, address: str) -> Iterator[None]:
    command = [commands / "ray", "start", "--block", f"--address={address}", "--num-cpus=1"]
    command += ["--object-store-memory=80000000", "--disable-usage-stats"]
    env = environment() | {"RAY_AUTH_MODE": "disabled"}
    with end_of(start_command(command, env=env, stderr=subprocess.STDOUT)) as process:
        assert process.stdout is not None
        assert any("Ray runtime started" in line for line in process.stdout)
        yield
        process.send_signal(signal.SIGTERM)  # which ends the node's other processes, too
        process.wait(timeout=SECONDS)


def test_a_node_with_ray_alone_trains_by_the_code_of_the_driver(bare, new_sweep, tmp_path) -> None:
    sweep: Sweep = new_sweep(tmp_path)
    with ray_nodes() as nodes, node_of(bare, nodes.address):
        done = sweep.run("--address", nodes.address)
    assert done.returncode == 0, done.stderr
    assert "more packages; Ray installs that there" in done.stderr
    events = sweep.events()
    ended = [event for event in events if isinstance(event, TrialFinished)]
    assert [event.state for event in ended] == ["COMPLETE"] * 3
    asked_for = {event.code for event in events if isinstance(event, TrialStarted)}
    assert {event.provenance["code"] for event in ended} == asked_for
    for name in ("cse-platform", "transformers"):
        assert {event.provenance[name] for event in ended} == {version(name)}
