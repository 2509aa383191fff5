"""Stores that are lost, while a sweep runs or between two starts; a message may name a way out."""

import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from functools import cache
from itertools import product, starmap
from pathlib import Path

from faults import Fault, Scene, driver_and_children_killed, wait_for_points
from processes import run_command
from servers import new_folder
from sweeps import CHEAP, write_sweep

STORES = ("leaderboard", "search", "mlflow")
FILLED_AGAIN = {*product(STORES, ("deleted", "older")), ("search", "foreign")}
WAY_OUT = re.compile(r"cse-leaderboard rebuild|move it away")


def _make_fault(store: str, harm: str, moment: str) -> Fault:
    def fault(scene: Scene) -> None:
        file = scene.sweep.runs / f"{store}.db"
        replacement = _make_replacement(harm, file)
        if harm == "older":
            wait_for_points(scene, 3)
        _read_errors(scene)
        if moment == "between starts":
            driver_and_children_killed(scene)
        for end in ("", "-wal", "-shm", "-journal"):
            file.with_name(file.name + end).unlink(missing_ok=True)
        if replacement.exists():
            shutil.copy(replacement, file)
        if moment == "between starts":
            scene.restart()
        if (store, harm) not in FILLED_AGAIN:
            _take_way_out(scene, store, file)
        if moment == "in the middle":
            wait_for_points(scene, 3)
            assert not scene.process.poll(), _read_errors(scene)

    fault.__name__ = f"{store} {harm} {moment}"
    return fault


def _make_replacement(harm: str, file: Path) -> Path:
    """Make what takes the place of a store, if anything does."""
    new = new_folder() / file.name
    if harm == "garbage":
        new.write_bytes(os.urandom(1 << 16))
    elif harm != "deleted":
        old = file if harm == "older" else run_other_lab() / file.name
        with closing(sqlite3.connect(new)) as target:
            sqlite3.connect(old).backup(target)
    return new


@cache
def run_other_lab() -> Path:
    """Run another sweep of the same name. Returns its runs folder."""
    sweep = write_sweep(new_folder(), CHEAP, search={**CHEAP["search"], "seed": 9})
    sweep.run().check_returncode()
    return sweep.runs


def _take_way_out(scene: Scene, store: str, file: Path) -> None:
    """Wait until the sweep names a way out, and take it."""
    said = ""
    while not WAY_OUT.search(said):
        runs, new = scene.runs, _read_errors(scene)
        assert runs or new, f"no way out is named: {said!r}"
        said += new
        time.sleep(0.1)
    if "move it away" in said:
        file.rename(file.with_suffix(".theirs"))
        return
    words = ["cse-leaderboard", "rebuild", "--only", store, "--runs", str(scene.sweep.runs)]
    done = run_command(*words)
    if named := re.search(r"--without (\S+)", done.stderr):
        done = run_command(*words, "--without", named[1])
    assert done.returncode == 0, done.stderr


def _read_errors(scene: Scene) -> str:
    """Read what the driver has written to its standard error since the last time."""
    assert scene.process.stderr is not None
    os.set_blocking(scene.process.stderr.fileno(), False)
    with suppress(BlockingIOError):
        return os.read(scene.process.stderr.fileno(), 1 << 20).decode()
    return ""


HARMS, MOMENTS = ("deleted", "older", "foreign", "garbage"), ("in the middle", "between starts")
OF_LOST_STORES = tuple(starmap(_make_fault, product(STORES, HARMS, MOMENTS)))
