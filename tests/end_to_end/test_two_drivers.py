import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from processes import SECONDS, end_of
from sqlalchemy import create_engine, text
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.tracking.events import SweepFinished, TrialPoint

pytestmark = pytest.mark.slow

STORES = {
    "CSE_STORE": "leaderboard.db",
    "CSE_SEARCH_STORE": "search.db",
    "CSE_MLFLOW_URI": "mlflow.db",
}


@pytest.fixture
def first(new_sweep: Callable[..., Sweep], tmp_path: Path) -> Sweep:
    """A sweep whose trials wait before their second report."""
    return new_sweep(tmp_path, gate=0, search={"sampler": "tpe", "trials": 3})


@pytest.fixture
def second(first: Sweep, tmp_path: Path) -> Sweep:
    """The same on the same stores, with another runs folder."""
    urls = {variable: f"sqlite:///{first.runs / name}" for variable, name in STORES.items()}
    return replace(first, runs=tmp_path / "elsewhere", surroundings=urls)


def move_journal(source: Sweep, target: Sweep) -> None:
    """Where the sweep's folder is copied to, its driver goes on."""
    shutil.copytree(source.journal_file.parent, target.journal_file.parent, dirs_exist_ok=True)


def refused(second: Sweep) -> str:
    """What it says; it is refused and has written nothing."""
    done = second.run()
    assert done.returncode == 1, done.stderr
    assert all(line.endswith("…") for line in done.stdout.splitlines())  # steps of the start alone
    assert second.events() == []
    return done.stderr


def test_killed_driver_is_replaced_where_the_journal_is(first, second, cluster) -> None:
    with end_of(first.start("--address", cluster)) as process:
        first.wait_for(process, TrialPoint, 2)
        process.kill()
    first.let(6)
    assert str(first.journal_file.parent) in refused(second)
    shutil.rmtree(second.runs)
    move_journal(first, second)
    done = second.run("--address", cluster)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(second.curves()) == 3 * 4
    move_journal(second, first)
    assert_stores_agree(first)


def test_suspended_driver_that_lost_its_sweep_stops(first, second, cluster) -> None:
    with end_of(first.start("--address", cluster)) as process:
        first.wait_for(process, TrialPoint, 2)
        suspend(process, first)
        move_journal(first, second)
        engine = create_engine(f"sqlite:///{first.runs / 'leaderboard.db'}")
        with engine.begin() as connection:  # as if time had passed
            long_ago = text("UPDATE sweep_leases SET heartbeat = '2020-01-01 00:00:00'")
            assert connection.execute(long_ago).rowcount == 1
        engine.dispose()
        first.let(6)
        done = second.run()  # on a Ray of its own: the trials of the first hold the cluster
        assert (done.returncode, done.stderr) == (0, "")
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "took over sweep" in said
    assert not first.events(SweepFinished)
    assert len(first.events()) < len(second.events())
    move_journal(second, first)
    assert_stores_agree(first)


def suspend(process: subprocess.Popen[str], sweep: Sweep) -> None:
    """While it holds no lock, which on SQLite would hold everyone."""
    deadline = time.monotonic() + SECONDS
    process.send_signal(signal.SIGSTOP)
    while any(is_locked(sweep.runs / name) for name in STORES.values()):
        assert time.monotonic() < deadline
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)


def is_locked(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0)) as store:
        try:
            store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False
