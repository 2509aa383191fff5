"""A sweep that an older version began and was cut off in: its stores and its journal go on here.

The files in `tests/fixtures/older_stores` were written before the leaderboard had rooms: a sweep of
the method `cheap` with two complete trials, one that runs, and one test score.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from in_process import NewSpec

from cse_platform.errors import StoreError, SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.store import upgrade_store
from cse_platform.sweep.spec import SweepSpec

OLDER = Path(__file__).parents[2] / "fixtures" / "older_stores"


@pytest.fixture
def upgraded(tmp_path: Path) -> Path:
    """The folder of the sweep, as the older version left it, after `cse-leaderboard upgrade`."""
    shutil.copy(OLDER / "journal.jsonl", tmp_path)
    for name in ("leaderboard", "search"):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as store:
            store.executescript((OLDER / f"{name}.sql").read_text())
    with pytest.raises(StoreError, match=r"older schema '0003'(.*)cse-leaderboard upgrade"):
        open_leaderboard(tmp_path)
    upgrade_store(f"sqlite:///{tmp_path / 'leaderboard.db'}")
    return tmp_path


@pytest.fixture
def spec(new_spec: NewSpec) -> SweepSpec:
    return new_spec(seeds={"search": 42, "confirm": {"top": 2, "seeds": [1, 2]}}, tags=["old"])


def as_written(row: LeaderboardRow) -> dict[str, Any]:
    return {
        "method": row.method,
        "configuration": row.configuration.hash,
        "seeds": row.seeds,
        "values": {str(seed): value for seed, value in row.dev_score.values.items()},
        "mean": row.dev_score.mean,
        "scores": {column: score.mean for column, score in row.scores.items()},
        "trials": row.trials,
        "tags": row.tags,
    }


def by_values(drive: Any) -> dict[tuple[str, int], tuple[str, float | None, dict[int, float]]]:
    """(hyperparameters, seed) -> state, best value and dev curve; hashes know the code by now."""
    return {
        (str(sorted(t.values.items())), t.seed): (t.state, t.best_value, t.curve)
        for t in drive.trials
    }


def test_it_shows_the_same_rows(upgraded) -> None:
    with open_leaderboard(upgraded) as board:
        assert [as_written(row) for row in board.rows()] == json.loads(
            (OLDER / "rows.json").read_text()
        )
        assert board.sweep("small").counts["RUNNING"] == 1
        [running] = board.running("small")
        assert len(board.trial(running.key).curve) == 3
        scored = next(trial for trial in board.search("small").trials if trial.number == 0)
        assert [one.who for one in board.trial(scored.key).test_accesses] == ["ann"]


@pytest.mark.slow
def test_it_resumes(upgraded, spec, start, tmp_path_factory) -> None:
    before = (upgraded / "journal.jsonl").read_bytes()
    with pytest.raises(SweepRefusedError, match="--reuse-unknown"):
        start(spec)
    drive = start(spec, reuse="unknown code too").run().assert_sound()
    undisturbed = start(spec, folder=tmp_path_factory.mktemp("undisturbed")).run()
    assert by_values(drive) == by_values(undisturbed)
    codes = {trial.number: trial.code for trial in drive.trials}
    assert {number for number, code in codes.items() if code is None} == {0, 1, 2}
    assert (upgraded / "journal.jsonl").read_bytes().startswith(before)
    drive.close()
    with open_leaderboard(upgraded) as board:
        assert board.sweep("small").counts["COMPLETE"] == len(drive.outcome())
