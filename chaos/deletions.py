"""Kill commands that delete a sweep at random moments, and repeat them."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random

import optuna
from mlflow import MlflowClient
from mlflow.entities import ViewType
from processes import environment, script
from servers import new_folder
from sqlalchemy import create_engine, text
from store_contents import assert_stores_agree
from sweeps import CHEAP, Sweep, write_sweep

KILLS = 4
"""The default number of kills."""


@dataclass(frozen=True)
class Kept:
    """Two sweeps in one runs folder, and a copy of that folder."""

    sweep: Sweep
    other: Sweep
    copy: Path

    def put_back(self) -> None:
        """Restore the folder as both sweeps have left it."""
        shutil.rmtree(self.sweep.runs)
        shutil.copytree(self.copy, self.sweep.runs)


def kill_deletions(random: Random, kills: int = KILLS) -> Iterator[tuple[float, list[str]]]:
    """Yield for each killed deletion the seconds to finish it, and what is wrong afterwards."""
    folder = new_folder()
    search = {"sampler": "random", "trials": 8, "seed": 6}
    sweep = write_sweep(folder, CHEAP, search=search)
    others = folder / "other"
    others.mkdir()
    named = {"sweep": "other", "search": {**search, "trials": 4, "seed": 7}}
    other = write_sweep(others, CHEAP, **named)
    kept = Kept(sweep, Sweep(other.file, sweep.runs, other.name), folder / "copy")
    for one in (kept.sweep, kept.other):
        if (ended := one.run()).returncode:
            raise SystemExit(f"the sweep failed: {ended.stderr}")
    shutil.copytree(sweep.runs, kept.copy)
    command = ["delete", sweep.name, "--yes"]
    began = time.monotonic()
    _run_command(kept, command)
    takes = time.monotonic() - began
    for _ in range(kills):
        kept.put_back()
        process = _start_command(kept, command)
        time.sleep(random.uniform(0.3, 1.0) * takes)
        process.kill()
        process.communicate()
        began = time.monotonic()
        wrong = _run_command(kept, command)
        yield time.monotonic() - began, [*wrong, *_check_anew(kept)]


def _start_command(kept: Kept, command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [script("cse-sweep"), *command, "--runs", str(kept.sweep.runs)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run_command(kept: Kept, command: list[str]) -> list[str]:
    """Run a command to its end. Returns its error, except that there is nothing left to do."""
    process = _start_command(kept, command)
    said = process.communicate()[1]
    return [] if "there is no sweep" in said or not process.returncode else [said]


def _check_anew(kept: Kept) -> list[str]:
    """Check in a new process, because this one still has replaced files open."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_check_deleted, kept).result()


def _check_deleted(kept: Kept) -> list[str]:
    """List what is left of the deleted sweep, and what the other one lost."""
    name, stores = kept.sweep.name, kept.sweep.stores
    engine = create_engine(stores["leaderboard"])
    with engine.connect() as connection:
        sweeps = connection.execute(text("SELECT name FROM sweeps")).scalars().all()
        held = "SELECT trial_id FROM sweep_trials"
        unheld = text(f"SELECT count(*) FROM trials WHERE id NOT IN ({held})")
        orphans = connection.execute(unheld).scalar_one()
    engine.dispose()
    client = MlflowClient(stores["mlflow"])
    runs = client.search_runs(
        [one.experiment_id for one in client.search_experiments()],
        f"tags.sweep = '{name}'",
        ViewType.ALL,
    )
    found = {
        "rows": name in sweeps or bool(orphans),
        "a study": name in optuna.get_all_study_names(stores["search"]),
        "runs": bool(runs),
        "a folder": any((kept.sweep.runs / "sweeps" / name).glob("*")),
    }
    return [*(what for what, left in found.items() if left), *_compare_stores(kept.other)]


def _compare_stores(sweep: Sweep) -> list[str]:
    try:
        assert_stores_agree(sweep)
    except AssertionError as difference:
        return [str(difference)[:2000]]
    return []
