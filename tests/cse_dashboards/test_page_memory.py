import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from cse_dashboards.page.app import create_app
from cse_dashboards.page.memory import Memory

PATIENCE = 60.0


def test_a_result_is_computed_once_for_its_source() -> None:
    memory = Memory[str]()

    assert memory.ask("question", 1, lambda: "one") == "one"
    assert memory.ask("question", 1, lambda: "never") == "one"
    assert memory.ask("question", 2, lambda: "two") == "two"
    assert memory.recall("question", 1) is None


def test_who_asks_the_same_at_once_waits_for_one_answer() -> None:
    memory, begun, go_on = Memory[int](), threading.Event(), threading.Event()
    computed: list[int] = []

    def compute() -> int:
        computed.append(1)
        begun.set()
        assert go_on.wait(PATIENCE)
        return 7

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(memory.ask, "question", 1, compute)
        assert begun.wait(PATIENCE)
        second = threads.submit(memory.ask, "question", 1, compute)
        go_on.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (7, 7)
    assert computed == [1]


def test_what_is_known_is_shown_until_the_new_one_is_there() -> None:
    memory, go_on, done = Memory[str](), threading.Event(), threading.Event()

    def renew() -> str:
        assert go_on.wait(PATIENCE)
        return "new"

    assert memory.ask_stale("question", 1, lambda: "old") == "old"
    assert memory.ask_stale("question", 2, renew) == "old"
    assert memory.ask_stale("question", 2, lambda: "another") == "old"  # one is being made
    go_on.set()
    memory.ask_stale("next", 1, lambda: "")
    memory.ask_stale("next", 2, lambda: str(done.set()))  # in the line behind it
    assert done.wait(PATIENCE)
    assert memory.ask_stale("question", 2, lambda: "another") == "new"


def test_what_fails_behind_is_computed_by_who_asks_next() -> None:
    memory, done = Memory[str](), threading.Event()
    memory.ask_stale("question", 1, lambda: "old")
    memory.ask_stale("question", 2, lambda: str(1 // 0))
    memory.ask_stale("next", 1, lambda: "")
    memory.ask_stale("next", 2, lambda: str(done.set()))
    assert done.wait(PATIENCE)
    assert memory.ask_stale("question", 2, lambda: "new") == "new"


VIEW = "/parts/search/sweeps/simcse"
PART = {"X-Part": "1"}


def change(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as store, store:
        return store.execute(statement, values).fetchall()


def test_what_is_known_is_shown_at_once_and_says_of_how_many_trials(lab_url, tmp_path) -> None:
    file = tmp_path / "leaderboard.db"
    shutil.copyfile(lab_url.removeprefix("sqlite:///"), file)
    held = "FROM sweep_trials WHERE sweep_id = (SELECT id FROM sweeps WHERE name = 'simcse')"
    *_, last = change(file, f"SELECT * {held} ORDER BY trial_id")
    (total,) = change(file, f"SELECT count(*) {held}")[0]
    change(file, f"DELETE {held} AND trial_id = (SELECT max(trial_id) {held})")
    change(file, "UPDATE sweeps SET state = 'RUNNING', finished = NULL WHERE name = 'simcse'")
    client = create_app(f"sqlite:///{file}").test_client()
    assert "counted in" not in client.get(VIEW, headers=PART).text

    change(file, f"INSERT INTO sweep_trials VALUES ({', '.join('?' * len(last))})", *last)
    change(file, "UPDATE journal_cursors SET position = position + 1")  # as every write does

    earlier = client.get(VIEW, headers=PART).text
    assert f"From {total - 1} trials; 1 more is being counted in." in earlier
    assert "data-again" in earlier
    deadline = time.monotonic() + PATIENCE
    while "counted in" in client.get(VIEW, headers=PART).text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
