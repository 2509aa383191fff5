import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from outside_methods import lay_metadata, with_outside_methods
from processes import SECONDS, end_of, environment, run_command, script, start_command, wait_until
from ray_nodes import RayNodes, ray_nodes
from sweeps import CHEAP, Sweep

from cse_platform.tracking.events import Event, SweepStarted, TrialFinished, TrialPoint

pytestmark = pytest.mark.slow

PASSWORD = "Zq01x7Kp9Lm01Wd4"
PAIRS = ["sentence1\tsentence2\tscore", *(f"cat {n}\tdog {n}\t{n / 4}" for n in range(21))]
SNOOP = """
import json
import os
from pathlib import Path

from cheap import CheapConfig, train as train_cheaply
from cse_methods.contract import Paper
from cse_methods.registry import register


@register("snoop", config=CheapConfig, paper=Paper("Snoop", "https://a.org", 2020), revision=1)
def train(config, run):
    seen = {"environment": dict(os.environ), "here": os.listdir()}
    Path(config.gate + ".seen").write_text(json.dumps(seen))
    return train_cheaply(config, run)
"""
"""A method that tells all that its process knows."""


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab") / f"{PASSWORD}.db"


@pytest.fixture(scope="module")
def nodes(mlflow: Path) -> Iterator[RayNodes]:
    """A head with a dashboard that knows the lab's stores, and a node that does not."""
    known = {"CSE_MLFLOW_URI": f"sqlite:///{mlflow}", "MLFLOW_TRACKING_PASSWORD": PASSWORD}
    with ray_nodes(include_dashboard=True, dashboard_port=0, env_vars=known) as cluster:
        cluster.add("one", cpus=2)
        yield cluster


def start_submit(
    sweep: Sweep, nodes: RayNodes, *arguments: str, **surroundings: str
) -> "subprocess.Popen[str]":
    """`cse-sweep submit` on a laptop, in a process group of its own."""
    to = ("--address", nodes.dashboard, "--runs", str(sweep.runs))
    command = [script("cse-sweep"), "submit", str(sweep.file), *to, *arguments]
    env = environment() | with_outside_methods() | surroundings
    return start_command(command, cwd=sweep.file.parent, env=env)


def submit(
    sweep: Sweep, nodes: RayNodes, *arguments: str, **surroundings: str
) -> tuple[int, str, str]:
    """Its exit code, and what it has said on stdout and stderr."""
    with end_of(start_submit(sweep, nodes, *arguments, **surroundings)) as process:
        out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def ask(command: str, sweep: Sweep, *options: str) -> "subprocess.CompletedProcess[str]":
    """One of the other commands, on a machine that has the leaderboard's URL alone."""
    store = sweep.stores["leaderboard"]
    return run_command("cse-sweep", command, sweep.name, "--store", store, *options)


def wait_for(sweep: Sweep, what: type[Event], count: int = 1) -> None:
    wait_until(lambda: len(sweep.events(what)) >= count)


def jobs_of(nodes: RayNodes) -> str:
    return requests.get(f"http://{nodes.dashboard}/api/jobs/", timeout=60).text


def wait_for_jobs(nodes: RayNodes) -> None:
    """Until all have ended: on a busy machine stores get the last events later."""
    wait_until(lambda: not any(s in jobs_of(nodes) for s in ('"PENDING"', '"RUNNING"')))


def test_it_outlives_the_laptop_that_was_killed(nodes, new_sweep, tmp_path) -> None:
    """Followed, refused a second time, stopped, and begun again, all from elsewhere."""
    gated = new_sweep(tmp_path, gate=2)
    with end_of(start_submit(gated, nodes)) as laptop:
        wait_for(gated, SweepStarted)
        os.killpg(laptop.pid, signal.SIGKILL)
    wait_for(gated, TrialPoint, 4)
    code, _, said = submit(gated, nodes)
    assert code == 1 and "'tiny' is already running as job tiny-" in said
    assert len(said.splitlines()) == 1
    assert "RUNNING" in ask("status", gated).stdout
    assert ask("stop", gated).returncode == 0
    assert ask("logs", gated, "--follow").returncode == 130
    wait_for_jobs(nodes)
    gated.let(6)
    code, said, wrong = submit(gated, nodes)
    assert code == 0, wrong
    assert "has started as job tiny-" in said
    attached = ask("logs", gated, "--follow")
    assert attached.returncode == 0, attached
    ends = [line for line in ask("logs", gated).stdout.splitlines() if line.startswith("trial ")]
    assert len(ends) == 3
    trials = gated.history().trials.values()
    assert {(trial.state, len(trial.curve)) for trial in trials} == {("COMPLETE", 4)}
    assert any(trial.resumed_from for trial in trials)
    wait_for_jobs(nodes)
    code, said, wrong = submit(gated, nodes)
    assert (code, wrong) == (0, "") and "is already complete" in said


def test_what_travels_and_what_workers_know(nodes, mlflow, new_sweep, tmp_path) -> None:
    """A method and a dev set of one's own go there; of the stores no worker knows a thing."""
    lab, gate = tmp_path / "lab", tmp_path / "gate"
    lab.mkdir()
    gate.write_text("6")
    (lab / "snoop.py").write_text(SNOOP)
    lay_metadata(lab, "snoop", {"snoop": "snoop"})
    (tmp_path / "own-dev.tsv").write_text("\n".join(PAIRS))
    (tmp_path / "stores.env").write_text(PASSWORD)
    own = {"checkpoint": "own-dev.tsv", "search": "own-dev.tsv"}
    sweep = new_sweep(tmp_path, CHEAP, method="snoop", dev=own, fixed={"gate": str(gate)})
    path = os.pathsep.join([str(lab), with_outside_methods()["PYTHONPATH"]])
    code, said, wrong = submit(sweep, nodes, "--trials", "1", PYTHONPATH=path)
    assert code == 0, wrong
    assert said.startswith("dev set own-dev: 21 pairs of ")
    attached = ask("logs", sweep, "--follow")
    assert attached.returncode == 0, attached
    [ended] = sweep.events(TrialFinished)
    assert ended.state == "COMPLETE"
    [started] = sweep.events(SweepStarted)
    told = started.provenance
    assert told["job"].startswith("tiny-") and told["cluster"] == f"http://{nodes.dashboard}"
    assert told["command"].startswith("cse-sweep submit ") and told["folder"] == str(tmp_path)
    wait_until(mlflow.exists)  # the store that the environment of the head names
    seen = gate.with_name("gate.seen").read_text()
    assert PASSWORD not in seen
    known, here = json.loads(seen)["environment"], json.loads(seen)["here"]
    assert "sweep.yaml" not in here  # the job's own folder is the driver's alone
    assert not [name for name in known if name.startswith(("CSE_", "MLFLOW_"))]
    jobs = jobs_of(nodes)
    assert told["job"] in jobs
    assert PASSWORD not in jobs and "CSE_" not in jobs and "MLFLOW_" not in jobs
