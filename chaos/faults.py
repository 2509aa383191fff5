"""What can break while a sweep runs: each fault breaks one thing, and repairs it if necessary."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import psutil
from cheap import STRAY
from processes import SECONDS, environment, run_command, script, wait_until
from servers import MlflowServer, Postgres, new_folder
from sqlalchemy import create_engine, text
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint

OUTAGE = (1.0, 6.0)
"""The range of seconds that something is down."""
HALF_WAY = (0.2, 3.0)
"""The range of seconds after which a command that takes about two is killed."""
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
FAKED_STARTS = 3


@dataclass
class Scene:
    """A running sweep, and the servers and disk that it uses."""

    sweep: Sweep
    process: subprocess.Popen[str]
    random: Random
    postgres: Postgres | None = None
    mlflow: MlflowServer | None = None
    disk: Path | None = None

    def outage(self) -> None:
        """Wait for the length of an outage."""
        time.sleep(self.random.uniform(*OUTAGE))

    def points(self) -> int:
        """Count the dev points in the journal."""
        return sum(isinstance(event, TrialPoint) for event in self.sweep.events())

    def below(self, name: str) -> list[psutil.Process]:
        """List the driver's descendant processes whose names start with `name`."""
        if not self.runs:
            return []
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if _name(child).startswith(name)]

    @property
    def runs(self) -> bool:
        """Whether the driver is still running."""
        return self.process.poll() is None

    def end(self) -> None:
        """Wait for the end of the driver and of its output."""
        self.process.communicate(timeout=SECONDS)

    def restart(self, **surroundings: str) -> None:
        """Start the same command again."""
        around = {**self.sweep.surroundings, **surroundings}
        self.process = replace(self.sweep, surroundings=around).start()


Fault = Callable[[Scene], None]


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def driver_killed(scene: Scene) -> None:
    """Kill the driver alone; Ray's processes notice by themselves."""
    scene.process.kill()
    scene.end()


def driver_and_children_killed(scene: Scene) -> None:
    """Kill the driver and all of its descendants, as a power cut would."""
    for child in psutil.Process(scene.process.pid).children(recursive=True):
        _kill(child)
    scene.process.kill()
    scene.end()


def worker_killed(scene: Scene) -> None:
    """Kill a training process, as the system does when it is out of memory."""
    _kill_one(scene, "ray::ResourceTrainable")


def raylet_killed(scene: Scene) -> None:
    """Kill Ray's process for this machine."""
    _kill_one(scene, "raylet")


def gcs_killed(scene: Scene) -> None:
    """Kill Ray's process for the cluster."""
    _kill_one(scene, "gcs_server")


def sink_process_killed(scene: Scene) -> None:
    """Kill the process that fills MLflow and the search store."""
    for child in psutil.Process(scene.process.pid).children():
        with suppress(psutil.Error):
            if any("sink_process" in word for word in child.cmdline()):
                child.kill()


def _kill_one(scene: Scene, name: str) -> None:
    wait_until(lambda: bool(scene.below(name)) or not scene.runs, f"{name} runs")
    if found := scene.below(name):
        _kill(scene.random.choice(found))


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # it has ended already
        process.kill()


def worker_hangs(scene: Scene) -> None:
    """Suspend a worker, which never resumes by itself."""
    wait_until(lambda: bool(scene.below("ray::ResourceTrainable")), "a worker runs")
    for worker in scene.below("ray::ResourceTrainable")[:1]:
        worker.suspend()


def sigterm(scene: Scene) -> None:
    """Send SIGTERM, as a scheduler does before it takes the machine away."""
    scene.process.terminate()
    scene.end()


def ctrl_c(scene: Scene) -> None:
    """Send SIGINT to the driver and everything that it has started, as a terminal does."""
    os.killpg(scene.process.pid, signal.SIGINT)
    scene.end()


def ctrl_c_twice(scene: Scene) -> None:
    """Send SIGINT twice, as somebody in a hurry does."""
    for _ in range(2):
        os.killpg(scene.process.pid, signal.SIGINT)
        time.sleep(scene.random.uniform(0.1, 1.0))
    scene.end()


def second_driver(scene: Scene) -> None:
    """Start the same sweep in another runs folder on the same stores, which must be refused."""
    stores = scene.sweep.stores
    names = {"leaderboard": "STORE", "search": "SEARCH_STORE", "mlflow": "MLFLOW_URI"}
    urls = {f"CSE_{names[name]}": url for name, url in stores.items()}
    around = {**scene.sweep.surroundings, **urls}
    other = replace(scene.sweep, runs=scene.sweep.runs.parent / "other", surroundings=around)
    refused = other.run()
    assert refused.returncode == 1 or not scene.runs, refused


def out_of_memory(scene: Scene) -> None:
    """Restart with a threshold that makes Ray kill trials for lack of memory, then kill it."""
    sigterm(scene)
    before = len(scene.sweep.events())
    scene.restart(RAY_memory_usage_threshold="0.001")
    wait_until(lambda: _lost_a_worker(scene, before) or not scene.runs, "it ends")
    driver_killed(scene)


def late_reports(scene: Scene) -> None:
    """Restart with trials that leave a thread behind, which reports to the trials after them."""
    sigterm(scene)
    scene.restart(**{STRAY: "1"})
    wait_for_points(scene, 13)
    sigterm(scene)


def _lost_a_worker(scene: Scene, before: int) -> bool:
    new = scene.sweep.events()[before:]
    starts = [event.trial for event in new if event.kind == "trial_started"]
    return len(starts) > len(set(starts))


def clock_jumps(scene: Scene) -> None:
    """Restart the driver with a clock a day ahead, kill it, and let it go on with the right clock.

    libfaketime can deadlock a process that forks while it has threads; then it is tried again.
    """
    driver_killed(scene)
    around = {"LD_PRELOAD": FAKETIME, "FAKETIME": "+1d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    known = scene.points()
    for _ in range(FAKED_STARTS):
        scene.restart(**around)
        with suppress(TimeoutError):
            wait_until(lambda: scene.points() > known or not scene.runs, "it goes on", 60)
            break
        driver_and_children_killed(scene)
    if scene.runs:
        driver_killed(scene)


def disk_full(scene: Scene) -> None:
    """Fill the disk with the journal and the stores for a while."""
    assert scene.disk is not None
    ballast = scene.disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as stream:  # until the disk is full
        while True:
            stream.write(b"\0" * (1 << 12))
    scene.outage()
    ballast.unlink()


def disk_read_only(scene: Scene) -> None:
    """Restart the command on a read-only disk, where it must be refused without a traceback."""
    assert scene.disk is not None
    driver_and_children_killed(scene)
    mount = ["mount", "-o", "remount,ro", str(scene.disk)]
    wait_until(lambda: not subprocess.run(mount, stderr=subprocess.DEVNULL).returncode, "it is so")
    refused = scene.sweep.run()
    subprocess.run(["mount", "-o", "remount,rw", str(scene.disk)], check=True)
    if refused.returncode != 1 or "Traceback" in refused.stderr:
        raise AssertionError(f"on a read-only disk: {refused.returncode}, {refused.stderr}")


def postgres_restarted(scene: Scene) -> None:
    """Restart PostgreSQL at once, as after a crash."""
    assert scene.postgres is not None
    scene.postgres.stop()
    scene.postgres.start()


def postgres_down(scene: Scene) -> None:
    """Stop PostgreSQL for some seconds."""
    assert scene.postgres is not None
    scene.postgres.stop()
    scene.outage()
    scene.postgres.start()


def too_many_connections(scene: Scene) -> None:
    """Occupy every connection for some seconds."""
    assert scene.postgres is not None
    held = []
    try:
        while True:
            held.append(scene.postgres.connect())
    except Exception as refusal:  # psycopg raises one of several classes
        assert held, refusal
    cut_off(scene, held)
    scene.outage()
    for connection in held:
        connection.close()


def cut_off(scene: Scene, kept: list[object] | None = None) -> None:
    """Cut every connection of the sweep, even within a transaction."""
    assert scene.postgres is not None
    own = [c.info.backend_pid for c in kept or []]  # type: ignore[attr-defined]
    cut = f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND NOT pid = ANY(ARRAY{own}::int[])"""
    if kept:
        kept[0].execute(cut)  # type: ignore[attr-defined]
    else:
        scene.postgres.execute(cut)


def mlflow_down(scene: Scene) -> None:
    """Stop MLflow for some seconds."""
    assert scene.mlflow is not None
    scene.mlflow.stop()
    scene.outage()
    scene.mlflow.start()


def rebuild_killed(scene: Scene) -> None:
    """Give the leaderboard another schema, kill a rebuild of it, and rebuild it again."""
    driver_and_children_killed(scene)
    runs = str(scene.sweep.runs)
    engine = create_engine(scene.sweep.stores["leaderboard"])
    with engine.begin() as connection:
        connection.execute(text("UPDATE cse_schema_version SET version_num = 0"))
    engine.dispose()
    refused = scene.sweep.run()
    assert refused.returncode == 1 and "cse-leaderboard rebuild" in refused.stderr, refused
    _start_and_kill(scene, "rebuild", "--runs", runs)
    done = run_command("cse-leaderboard", "rebuild", "--runs", runs)
    assert done.returncode == 0, done.stderr


def runs_copied(scene: Scene) -> None:
    """Copy the runs folder, and let the copy go on: the original keeps what it has."""
    driver_and_children_killed(scene)
    _let_go_on(scene.sweep.copied(new_folder()), scene)


def journal_forged(scene: Scene) -> None:
    """Let a copy go on whose journal names the original's models and checkpoints as its own."""
    driver_and_children_killed(scene)
    copy = scene.sweep.copied(new_folder())
    lines = copy.journal_file.read_text().splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    for event in events:
        for name in ("model", "checkpoint"):
            if event.get(name) is not None:
                event[name] = str(scene.sweep.runs / event[name])
    copy.journal_file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    for store in copy.runs.glob("*.db*"):
        store.unlink()  # it is filled from the journal, whose events end elsewhere now
    _let_go_on(copy, scene)


def journal_older(scene: Scene) -> None:
    """Put an older copy of the journal in its place, which is refused, and take both ways out."""
    journal, older = scene.sweep.journal_file, new_folder() / "older"
    shutil.copy(journal, older)
    wait_for_points(scene, 8)
    driver_and_children_killed(scene)
    newest = shutil.copy(journal, older.with_name("newest"))
    shutil.copy(older, journal)
    copy, refused = scene.sweep.copied(new_folder()), scene.sweep.run()
    assert "older copy; put the newest copy back" in refused.stderr, refused
    shutil.copy(newest, journal)
    _let_go_on(replace(copy, name="again"), scene, "--set", "sweep=again")


def wait_for_points(scene: Scene, count: int) -> None:
    """Wait until the sweep has that many more dev points, or its command has ended."""
    known = scene.points()
    wait_until(lambda: scene.points() >= known + count or not scene.runs, "the sweep goes on")


def _let_go_on(copy: Sweep, original: Scene, *arguments: str) -> None:
    """Let a copy of a sweep go on for a while, and delete all of its models but one."""
    copy.change(keep={"models": 1})
    before = _list_kept(original.sweep)
    scene = Scene(copy, copy.start(*arguments), original.random)
    known = scene.points()
    wait_for_points(scene, 13)
    if scene.points() == known:
        raise AssertionError(f"the copy does not go on: {scene.process.communicate()[1]}")
    sigterm(scene)
    if lost := before - _list_kept(original.sweep):
        raise AssertionError(f"a copy has deleted {sorted(lost)}")


def _list_kept(sweep: Sweep) -> set[Path]:
    """List the files of a sweep's models and checkpoints."""
    folders = (sweep.runs / "artifacts", sweep.runs / "sweeps" / sweep.name / "ray")
    return {file for folder in folders for file in folder.rglob("*") if file.is_file()}


def _start_and_kill(scene: Scene, *arguments: str) -> None:
    """Start `cse-leaderboard`, and kill it while it starts or works."""
    quiet = subprocess.DEVNULL
    started = [script("cse-leaderboard"), *arguments]
    process = subprocess.Popen(started, env=environment(), stdout=quiet, stderr=quiet)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=scene.random.uniform(*HALF_WAY))
    process.kill()
    process.wait()


OF_PROCESSES: tuple[Fault, ...] = (
    *(driver_killed, driver_and_children_killed, worker_killed, raylet_killed, gcs_killed),
    sink_process_killed,
    *(worker_hangs, sigterm, ctrl_c, ctrl_c_twice, second_driver, out_of_memory, late_reports),
)
OF_STORES: tuple[Fault, ...] = (
    *(postgres_restarted, postgres_down, too_many_connections, cut_off, mlflow_down),
)
OF_DISKS: tuple[Fault, ...] = (disk_full, disk_read_only)
OF_UPKEEP: tuple[Fault, ...] = (
    *(rebuild_killed, rebuild_killed, runs_copied, journal_forged, journal_older),
)
