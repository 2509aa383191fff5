"""Events as a sweep would write them, and empty leaderboards for them."""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from cse_platform.leaderboard.store import Leaderboard, open_leaderboard
from cse_platform.tracking.events import (
    Event,
    SweepStarted,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialStarted,
    TrialState,
)

Life = Callable[..., list[Event]]

# Counters of configurations, then the sums of GPU seconds: each beside what it is counted from.
RECOUNTED = (
    "SELECT hash, c.trials, c.n, c.mean, c.m2, count(*), "
    "sum(CASE WHEN state = 'COMPLETE' THEN 1 ELSE 0 END), "
    "avg(CASE WHEN state = 'COMPLETE' THEN best_value END), "
    "sum(CASE WHEN state = 'COMPLETE' THEN best_value * best_value END) "
    "FROM configurations c JOIN trials ON configuration_id = c.id GROUP BY c.id"
)
RESPENT = (
    "SELECT key, t.gpu_seconds, sum(l.gpu_seconds) FROM trials t "
    "JOIN sweep_trials l ON l.trial_id = t.id GROUP BY t.id",
    "SELECT hash, c.gpu_seconds, sum(t.gpu_seconds) FROM configurations c "
    "JOIN trials t ON t.configuration_id = c.id GROUP BY c.id",
    "SELECT x.id, x.gpu_seconds, sum(c.gpu_seconds) FROM contests x "
    "JOIN configurations c ON c.contest_id = x.id GROUP BY x.id",
    "SELECT x.id, x.trials, sum(c.trials) FROM contests x "
    "JOIN configurations c ON c.contest_id = x.id GROUP BY x.id",
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def leaderboard_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs' / 'leaderboard.db'}"
    server = os.environ["CSE_TEST_POSTGRES"]
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return server


@pytest.fixture
def board(leaderboard_url: str) -> Iterator[Leaderboard]:
    """An empty leaderboard in each kind of store."""
    with open_leaderboard(leaderboard_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def check_counters() -> Callable[[Leaderboard], None]:
    """Compares the counters of a leaderboard with what its trials say."""

    def check(board: Leaderboard) -> None:
        with board.session() as session:
            for name, trials, n, mean, m2, count, complete, average, squares in session.execute(
                text(RECOUNTED)
            ):
                assert (trials, n) == (count, complete), name
                if n:
                    assert mean == pytest.approx(average)
                    assert m2 == pytest.approx(squares - n * average**2, abs=1e-12)
            for query in RESPENT:
                for name, counted, expected in session.execute(text(query)):
                    assert counted == pytest.approx(expected), (query, name)

    return check


@pytest.fixture(scope="session")
def sweep_started() -> Callable[..., SweepStarted]:
    """Makes the first event of a sweep."""

    def make(sweep: str = "first", **changes: Any) -> SweepStarted:
        fields = {
            "sweep": sweep,
            "method": "rankcse",
            "backbone": "mini",
            "spec": {"trials": 4},
            "provenance": {"host": "here"},
        }
        return SweepStarted.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def trial_life() -> Life:
    """Makes the events of one trial, from its start to its end."""

    def make(
        number: int,
        curve: Mapping[int, float],
        *,
        sweep: str = "first",
        configuration: str | None = None,
        seed: int = 42,
        trial: str | None = None,
        state: TrialState | None = "COMPLETE",
        model: str | None = None,
        **started: Any,
    ) -> list[Event]:
        configuration = f"c{number}" if configuration is None else configuration
        trial = f"{configuration}-{seed}" if trial is None else trial
        fields: dict[str, Any] = {
            "sweep": sweep,
            "trial": trial,
            "number": number,
            "role": "search",
            "search_number": number,
            "seed": seed,
            "method": "rankcse",
            "revision": 1,
            "backbone": "mini",
            "configuration": configuration,
            "values": {"tau2": 0.025, "batch_size": 64, "rank_loss": "listnet"},
            "searched": ("tau2", "rank_loss"),
            "dev": {
                "checkpoint": "stsb",
                "search": "stsb",
                "identity": "dev-1",
                "source": "builtin",
                "corpus": "builtin",
            },
        }
        events: list[Event] = [TrialStarted.model_validate(fields | started)]
        for step, value in curve.items():
            metrics = {"dev/stsb_spearman": value, "train/loss": 1.0}
            events.append(
                TrialPoint(sweep=sweep, trial=trial, step=step, value=value, metrics=metrics)
            )
        if state is None:
            return events
        best = max(curve, key=lambda step: curve[step], default=None)
        value = None if best is None else curve[best]
        finished = TrialFinished(
            sweep=sweep,
            trial=trial,
            state=state,
            best_step=best,
            best_value=value,
            best_metrics={} if value is None else {"dev/stsb_spearman": value},
            model=model,
            error="loss is NaN" if state == "FAIL" else None,
            wall_seconds=1.5,
            provenance={"device": "cpu"},
        )
        return [*events, finished]

    return make


@pytest.fixture(scope="session")
def trial_evaluated() -> Callable[..., TrialEvaluated]:
    """Makes the event of an evaluation, from scores such as `test/stsb_spearman`."""

    def make(
        trial: str, scores: Mapping[str, float], *, identity: str = "e1", **changes: Any
    ) -> TrialEvaluated:
        listed = []
        for name, value in scores.items():
            split, _, named = name.partition("/")
            task, _, metric = named.rpartition("_")
            score = {"task": task, "split": split, "metric": metric, "value": value}
            listed.append({**score, "identity": identity})
        fields = {
            "time": NOON,
            "sweep": "first",
            "trial": trial,
            "tasks": tuple(sorted({score["task"] for score in listed})),
            "scores": listed,
            "similarities": (),
            "identities": {identity: {"pooler": "cls"}},
            "seconds": {"encoding": 1.0},
        }
        return TrialEvaluated.model_validate(fields | changes)

    return make
