"""Figures of a search that are kept, and made anew behind when a trial has ended."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from cse_dashboards.page.app import create_app

VIEW = "/parts/search/sweeps/simcse"
PART = {"X-Part": "1"}
PATIENCE = 60.0


def change(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as store, store:
        return store.execute(statement, values).fetchall()


def test_what_is_known_is_shown_at_once_and_says_of_how_many_trials(
    lab_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "leaderboard.db"
    shutil.copyfile(lab_url.removeprefix("sqlite:///"), file)
    held = "FROM sweep_trials WHERE sweep_id = (SELECT id FROM sweeps WHERE name = 'simcse')"
    *_, last = change(file, f"SELECT * {held} ORDER BY trial_id")
    (total,) = change(file, f"SELECT count(*) {held}")[0]
    change(file, f"DELETE {held} AND trial_id = (SELECT max(trial_id) {held})")
    client = create_app(f"sqlite:///{file}").test_client()
    assert "counted in" not in client.get(VIEW, headers=PART).text

    change(file, f"INSERT INTO sweep_trials VALUES ({', '.join('?' * len(last))})", *last)

    earlier = client.get(VIEW, headers=PART).text
    assert f"From {total - 1} trials; 1 more is being counted in." in earlier
    assert "data-again" in earlier
    deadline = time.monotonic() + PATIENCE
    while "counted in" in client.get(VIEW, headers=PART).text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
