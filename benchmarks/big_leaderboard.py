"""Fill a leaderboard in bulk with what many labs would produce in years."""

import json
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import product
from typing import Any

from rich.progress import track
from sqlalchemy import Connection, Engine

from cse_methods.tasks import AVG_STS, STS_TASKS
from cse_platform.counting_seeds import rate_seeds, select_counting_seeds

METHODS = ("simcse", "esimcse", "sncse", "compcse", "hicl", "rankcse", "whitenedcse")
BACKBONES = ("bert-base", "bert-large", "roberta-base", "roberta-large", "mini")
DEV_SETS = ("builtin", "senteval")
GROUPS = tuple(product(METHODS, BACKBONES, DEV_SETS))

TRIALS_A_SWEEP = 200
SECONDS = 3600.0
"""Duration of a trial, on one whole GPU."""
CONFIRMED, SEEDS = 4, 5
"""Number of configurations per sweep with several seeds, and the number of their seeds."""
POINTS, TASKS = 20, (*STS_TASKS, AVG_STS)
DAY_ONE = datetime(2026, 1, 1, tzinfo=UTC)
SWEEPS_AT_ONCE = 50
GATHERED = 1_000_000
"""Id of the sweep that contains all trials."""
SPEC = {
    "dev": {"checkpoint": "stsb", "search": "stsb"},
    "space": {
        "learning_rate": {"low": 1e-5, "high": 5e-5},
        "temperature": {"low": 0.0, "high": 1.0},
    },
}


COLUMNS = {
    "groups": (
        "id method backbone dev_identity dev_checkpoint dev_search dev_source trials gpu_seconds"
    ),
    "machines": "id host hardware",
    "evaluations": "identity settings source",
    "sweeps": "id name method backbone spec state started finished",
    "sweep_tags": "sweep_id tag",
    "configurations": ("id group_id hash revision corpus values searched n mean standing"),
    "trials": "id key configuration_id seed gpu_seconds shown_attempt",
    "attempts": (
        "id trial_id state started finished best_step best_value start_value wall_seconds "
        "machine_id"
    ),
    "sweep_trials": "sweep_id trial_id number role gpu_seconds",
    "dev_points": "attempt_id step reported_at value metrics",
    "scores": "attempt_id task split metric identity value measured place",
    "test_accesses": "trial_id opened who command tasks source",
}


SAME = {
    "sweeps": {
        "journal": "j",
        "confirming": 0,
        "budget": "{}",
        "sampler": "",
        "dev": "stsb",
        "confirms_all": False,
    },
    "attempts": {
        **{"journal": "j", "reached": (POINTS - 1) * 125, "costs": "{}", "provenance": "{}"},
        "has_shown_model": True,
    },
}
"""Columns with the same value in all rows."""


def fill(engine: Engine, *, sweeps: int) -> None:
    """Fill an empty store that has this version's schema, without the planner's statistics.

    Args:
        engine: the store's engine.
        sweeps: number of sweeps of 200 trials, each with 20 dev points and 10 scores.
    """
    dice = random.Random(0)
    with engine.begin() as connection:
        _load(connection, _frame(sweeps))
    for first in track(range(0, sweeps, SWEEPS_AT_ONCE), description="filling"):
        told: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
        for sweep in range(first, min(first + SWEEPS_AT_ONCE, sweeps)):
            _sweep(sweep, told, dice)
        with engine.begin() as connection:
            _load(connection, told)


def gather(engine: Engine, *, name: str) -> None:
    """Add a running sweep that contains all trials of the store.

    Args:
        engine: the engine of a filled store.
        name: the sweep's name.
    """
    started = _at(DAY_ONE)
    row = (GATHERED, name, "simcse", "bert-base", json.dumps(SPEC), "RUNNING", started, None)
    with engine.begin() as connection:
        _load(connection, {"sweeps": [row]})
        connection.exec_driver_sql(
            "INSERT INTO sweep_trials (sweep_id, trial_id, number, role, gpu_seconds) "
            f"SELECT {GATHERED}, trial_id, trial_id - 1, role, gpu_seconds FROM sweep_trials"
        )


def _frame(sweeps: int) -> dict[str, list[tuple[Any, ...]]]:
    shares = [len(range(place, sweeps, len(GROUPS))) for place in range(len(GROUPS))]
    return {
        "groups": [
            (n, method, backbone, _hash("dev", dev), "stsb", "stsb", dev, *_effort(share))
            for n, ((method, backbone, dev), share) in enumerate(
                zip(GROUPS, shares, strict=True), start=1
            )
        ],
        "machines": [(n, f"node-{n}", ("A100", "H200", "EPYC")[n % 3]) for n in range(1, 65)],
        "evaluations": [
            (_hash("test", dev, task), json.dumps(_settings(dev, task)), dev)
            for dev in DEV_SETS
            for task in TASKS
        ],
    }


def _effort(sweeps: int) -> tuple[int, float]:
    """Return the trials and GPU-seconds of this many sweeps."""
    return sweeps * TRIALS_A_SWEEP, sweeps * TRIALS_A_SWEEP * SECONDS


def _settings(dev: str, task: str) -> dict[str, Any]:
    if task == AVG_STS:
        members = sorted(_hash("test", dev, one) for one in STS_TASKS)
        return {"task": task, "protocol": {"mean over": members}}
    return {"task": task, "reading": {"pooler": "cls"}, "protocol": {}, "data_sha256": dev + task}


def _sweep(number: int, told: dict[str, list[tuple[Any, ...]]], dice: random.Random) -> None:
    place = number % len(GROUPS)
    method, backbone, dev = GROUPS[place]
    started = DAY_ONE + timedelta(minutes=number)
    identity = number + 1
    name = f"{method}-{backbone}-{number}"
    told["sweeps"].append(
        (identity, name, method, backbone, "{}", "COMPLETE", _at(started), _at(started))
    )
    told["sweep_tags"].append((identity, f"paper-{number % 100}"))
    alone = TRIALS_A_SWEEP - CONFIRMED * SEEDS
    seeds = [1] * alone + [SEEDS] * CONFIRMED
    trial = number * TRIALS_A_SWEEP
    for index, n in enumerate(seeds):
        configuration = number * len(seeds) + index + 1
        quality = dice.gauss(0.7, 0.03)
        values = [min(1.0, dice.gauss(quality, 0.01)) for _ in range(n)]
        counted = select_counting_seeds(range(n), [0])  # the search's own seed chose it
        mean, standing = (
            sum(values[seed] for seed in counted) / len(counted),
            rate_seeds(n, n - 1, 0),
        )
        settings = {"learning_rate": dice.uniform(1e-5, 5e-5), "temperature": dice.random()}
        row = (configuration, place + 1, _hash("c", configuration), 1, "wiki1m")
        searched = json.dumps(["learning_rate", "temperature"])
        estimate = len(counted), mean, standing
        told["configurations"].append((*row, json.dumps(settings), searched, *estimate))
        for seed, value in enumerate(values):
            trial += 1
            _trial(trial, configuration, seed, value, dev, started, told, dice)
            role = "confirm" if seed else "search"
            told["sweep_trials"].append((identity, trial, trial % TRIALS_A_SWEEP, role, SECONDS))
    told["test_accesses"].append(
        (trial, _at(started), "ann", "cse-sweep", json.dumps(["sts"]), dev)
    )


def _trial(
    trial: int,
    configuration: int,
    seed: int,
    value: float,
    dev: str,
    started: datetime,
    told: dict[str, list[tuple[Any, ...]]],
    dice: random.Random,
) -> None:
    finished = _at(started + timedelta(hours=1))
    told["trials"].append((trial, _hash("t", trial), configuration, seed, SECONDS, trial))
    row = (trial, trial, "COMPLETE", _at(started), finished, 2000, value, 0.5, SECONDS)
    told["attempts"].append((*row, trial % 64 + 1))
    for point in range(POINTS):
        reached = value - (POINTS - 1 - point) * 0.002
        metrics = {"dev/stsb_spearman": reached, "dev/sickr_spearman": reached, "train/loss": 0.1}
        told["dev_points"].append((trial, point * 125, finished, reached, json.dumps(metrics)))
    for task in ("stsb", "sickr"):
        own = (trial, task, "dev", "spearman", _hash("dev", dev))
        told["scores"].append((*own, value, finished, 0))
    for task in TASKS:
        scored = min(1.0, dice.gauss(value, 0.01))
        identity = _hash("test", dev, task)
        told["scores"].append((trial, task, "test", "spearman", identity, scored, finished, 0))


def _load(connection: Connection, told: dict[str, list[tuple[Any, ...]]]) -> None:
    for table, rows in told.items():
        same = SAME.get(table, {})
        names, rows = [*COLUMNS[table].split(), *same], [(*row, *same.values()) for row in rows]
        columns = ", ".join(f'"{name}"' for name in names)
        if connection.dialect.name == "sqlite":
            places = ", ".join("?" * len(names))
            driver = connection.connection.cursor()
            driver.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)
        else:
            _copy(connection, f"COPY {table} ({columns}) FROM STDIN", rows)


def _copy(connection: Connection, command: str, rows: Iterable[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.cursor()
    with driver.copy(command) as copy:
        for row in rows:
            copy.write_row(row)


def _hash(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()


def _at(time: datetime) -> str:
    """Format a time as SQLAlchemy stores it in SQLite; PostgreSQL reads it as UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


def runs(sweeps: int) -> Iterator[tuple[str, dict[str, list[tuple[Any, ...]]]]]:
    """Yield the same sweeps by name, with their rows, for another store."""
    dice = random.Random(0)
    for number in range(sweeps):
        told: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
        _sweep(number, told, dice)
        yield told["sweeps"][0][1], told
