"""A leaderboard with cosines behind its scores, so that rows can be ranked and compared."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from cse_methods.tasks import AVG_STS, STS_TASKS
from cse_platform.leaderboard.reader import LeaderboardReader
from cse_platform.leaderboard.store import Leaderboard
from cse_platform.leaderboard.writer import LeaderboardSink
from cse_platform.tracking.events import Event, SweepStarted, TrialEvaluated
from cse_platform.tracking.packing import pack

PAIRS = 80
Life = Callable[..., list[Event]]
Start = Callable[..., SweepStarted]
Make = Callable[..., TrialEvaluated]
Scored = Callable[..., TrialEvaluated]


def gold_of(task: str) -> np.ndarray:
    """The graded pairs of a task: the same for everyone."""
    return np.random.default_rng([1, *task.encode()]).uniform(0, 5, PAIRS)


@pytest.fixture(scope="session")
def scored(trial_evaluated: Make) -> Scored:
    """Makes the evaluation of a trial on all STS tasks, whose cosines follow gold so closely."""

    def make(
        trial: str,
        *,
        noise: float,
        seed: int = 0,
        reading: str = "cls",
        data: str = "real",
        tasks: tuple[str, ...] = STS_TASKS,
        cosines: bool = True,
    ) -> TrialEvaluated:
        values, similarities, identities = {}, [], {}
        for task in tasks:
            gold = gold_of(task)
            rng = np.random.default_rng([seed, *trial.encode(), *task.encode()])
            own = ((gold + rng.normal(0, noise, PAIRS)) / 20).astype(np.float32)
            values[task] = float(spearmanr(own, gold).statistic)
            name = f"{reading}-{data}-{task}"
            identities[name] = {
                "task": task,
                "reading": {"pooler": reading},
                "protocol": {"similarity": "cosine"},
                "data_sha256": f"{data}-{task}",
            }
            similarities.append(
                {
                    "task": task,
                    "split": "test",
                    "identity": name,
                    "cosines": pack(own),
                    "gold": pack(gold),
                    "subsets": {task: PAIRS},
                    "data_sha256": f"{data}-{task}",
                }
            )
        listed = [_score(task, value, f"{reading}-{data}-{task}") for task, value in values.items()]
        if tasks == STS_TASKS:
            whole = f"{reading}-{data}-mean"
            identities[whole] = {"task": AVG_STS, "protocol": {"mean over": sorted(identities)}}
            listed.append(_score(AVG_STS, float(np.mean(list(values.values()))), whole))
        told = {
            "tasks": tasks,
            "scores": listed,
            "similarities": similarities if cosines else (),
            "identities": identities,
        }
        return TrialEvaluated.model_validate(trial_evaluated(trial, {}).model_dump() | told)

    return make


def _score(task: str, value: float, identity: str) -> dict[str, Any]:
    score = {"task": task, "split": "test", "metric": "spearman"}
    return {**score, "value": value, "identity": identity}


@pytest.fixture(scope="session")
def two_methods(sweep_started: Start, trial_life: Life, scored: Scored) -> list[Event]:
    """`hicl`, three seeds and close to gold; `simcse`, two seeds and far; `sncse`, one seed."""
    told: list[Event] = []
    noises = {"hicl": (1.0, 3), "simcse": (3.0, 2), "sncse": (1.05, 1)}
    for number, (method, (noise, seeds)) in enumerate(noises.items()):
        told.append(sweep_started(method, method=method, spec={"tags": ["all", f"of-{method}"]}))
        for seed in range(seeds):
            key = f"{number + 10:02x}{seed:02x}" + "0" * 60
            life = trial_life(
                seed,
                {0: 0.5, 9: 0.7 + 0.01 * seed - 0.1 * number},
                sweep=method,
                method=method,
                configuration=f"{number + 10:x}" * 64,
                seed=seed,
                trial=key,
            )
            told += [*life[:-1], _on(life[-1], f"node-{number}", hours=number)]
            told.append(scored(key, noise=noise, seed=seed).model_copy(update={"sweep": method}))
    return told


def _on(finished: Any, host: str, *, hours: int) -> Event:
    """On a machine of its own, with half of its GPU, and later than the one before."""
    found: Event = finished.model_copy(
        update={
            "provenance": {"host": host, "gpu": f"GPU {host}", "cpu": "CPU"},
            "gpus": 0.5,
            "wall_seconds": 3600.0,
            "time": finished.time + timedelta(days=hours),
        }
    )
    return found


@pytest.fixture
def reader(board: Leaderboard, two_methods: list[Event]) -> LeaderboardReader:
    """The leaderboard of `two_methods`, to be asked."""
    LeaderboardSink(board).apply("j", list(enumerate(two_methods, start=1)))
    return LeaderboardReader(board)
