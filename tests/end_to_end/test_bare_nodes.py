"""Nodes that have Python, torch and Ray alone: trials run there all the same."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from processes import SECONDS, end_of, environment
from ray_nodes import ray_nodes
from sweeps import Sweep

from cse_platform.tracking.events import DriverMessage, TrialFinished, TrialStarted

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"

pytestmark = pytest.mark.slow


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
def node_of(commands: Path, address: str, **variables: str) -> Iterator[None]:
    """A node of another Python joins a cluster."""
    with end_of(
        subprocess.Popen(
            [
                *(commands / "ray", "start", "--block", f"--address={address}", "--num-cpus=1"),
                *("--object-store-memory=80000000", "--disable-usage-stats"),
            ],
            env=environment() | {"RAY_AUTH_MODE": "disabled"} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    ) as process:
        assert process.stdout is not None
        assert any("Ray runtime started" in line for line in process.stdout)
        yield
        process.send_signal(signal.SIGTERM)  # which ends the node's other processes, too
        process.wait(timeout=SECONDS)


def test_a_node_with_ray_alone_trains_by_the_code_of_the_driver(
    bare: Path, new_sweep, tmp_path: Path
) -> None:
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


def test_a_node_that_can_install_nothing_does_not_hold_up_the_others(
    bare: Path, new_sweep, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.write_text("0")
    sweep: Sweep = new_sweep(tmp_path, fixed={"gate": str(gate)})
    no_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    with ray_nodes() as nodes, node_of(bare, nodes.address, **no_index):
        nodes.add("has all", cpus=1)
        with end_of(sweep.start("--address", nodes.address)) as process:
            sweep.wait_for(process, DriverMessage, 2)  # what it lacks, and that it gets no trials
            gate.write_text("6")
            _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    [refused] = [line for line in said.splitlines() if "gets no trials" in line]
    assert "Ray cannot install that there (No matching distribution found for " in refused
    ends = [event.state for event in sweep.events() if isinstance(event, TrialFinished)]
    assert ends == ["COMPLETE"] * 3
