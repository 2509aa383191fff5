"""What questions cost on a SQLite store, in steps of its virtual machine."""

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import create_engine, event, insert, text, update

from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.filters import Filters
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    GroupRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)

TIME = datetime(2030, 1, 1, tzinfo=UTC)
STEPS = 100
"""Between two counts."""


def key_of(trial: int) -> str:
    return sha256(str(trial).encode()).hexdigest()


def fill(url: str, *, sweeps: range, trials: int) -> None:
    """Sweeps of so many complete trials, each of a configuration of its own."""
    group = {"id": 1, "method": "m", "backbone": "b", "dev_identity": "d"} | dict.fromkeys(
        ("dev_checkpoint", "dev_search", "dev_source"), "stsb"
    )
    named = {"method": "m", "backbone": "b", "spec": {}, "state": "COMPLETE", "started": TIME}
    named["journal"] = "j"
    made = [(sweep, sweep * trials + n) for sweep in sweeps for n in range(1, trials + 1)]
    configuration = {"group_id": 1, "revision": 1, "corpus": "c", "values": {}, "searched": []}
    ended = {"journal": "j", "state": "COMPLETE", "started": TIME, "finished": TIME}
    rows: dict[Any, list[dict[str, Any]]] = {
        GroupRecord: [] if sweeps.start else [group],
        SweepRecord: [{"id": s + 1, "name": f"sweep-{s}", **named} for s in sweeps],
        ConfigurationRecord: [
            {"id": n, "hash": key_of(-n), "trials": 1, "n": 1, "mean": 1 / n, **configuration}
            for _, n in made
        ],
        TrialRecord: [
            {"id": n, "key": key_of(n), "configuration_id": n, "seed": 1, "shown_attempt": n}
            for _, n in made
        ],
        AttemptRecord: [{"id": n, "trial_id": n, "best_value": 1 / n, **ended} for _, n in made],
        SweepTrialRecord: [
            {"sweep_id": s + 1, "trial_id": n, "number": n, "role": "search"} for s, n in made
        ],
    }
    engine = create_engine(url)
    with engine.begin() as connection:
        for table, some in rows.items():
            if some:
                connection.execute(insert(table), some)
    engine.dispose()


def steps_of(store: Store, ask: Callable[[], Any]) -> int:
    """How many steps SQLite's virtual machine takes for a question."""
    counts: list[int] = []

    def count(connection: Any, _record: Any) -> None:
        connection.set_progress_handler(lambda: counts.append(1), STEPS)

    store._engine.dispose()
    event.listen(store._engine, "connect", count)
    ask()
    event.remove(store._engine, "connect", count)
    return len(counts) + 1


QUESTIONS: dict[str, Callable[[Leaderboard], Any]] = {
    "sweeps": lambda board: board.sweeps(),
    "sweep": lambda board: board.sweep("sweep-0"),
    "page of sweeps": lambda board: board.sweeps(limit=2),
    "trial by key": lambda board: board.trial(key_of(7)[:12]),
    "trial by number": lambda board: board.trial("sweep-0#7"),
    "row of a trial": lambda board: board.row(key_of(7)[:12]),
    "configuration": lambda board: board.row(f"m@{key_of(-7)[:12]}"),
    "board": lambda board: board.rows(ranked=False),
    "board of a sweep": lambda board: board.rows(Filters(sweep="sweep-0"), ranked=False),
}


def costs_of(url: str, *, sweeps: int, trials: int, old: bool = False) -> dict[str, int]:
    """What each question costs on a store of so many sweeps with so many trials each.

    The statistics are those of a time when there was one sweep, or there are none.
    """
    fill(url, sweeps=range(1), trials=trials)
    if old:
        with create_engine(url).begin() as connection:
            connection.execute(text("ANALYZE"))
    fill(url, sweeps=range(1, sweeps), trials=trials)
    with open_store(url) as store:
        return {
            name: steps_of(store, lambda ask=ask: ask(Leaderboard(store)))
            for name, ask in QUESTIONS.items()
        }


def test_more_sweeps_make_no_question_dearer(tmp_path, empty_leaderboard) -> None:
    few = costs_of(empty_leaderboard(tmp_path / "few.db"), sweeps=8, trials=50)
    many = costs_of(empty_leaderboard(tmp_path / "many.db"), sweeps=32, trials=50)
    dearer = {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + 20}
    assert dearer.keys() <= {"sweeps"}, dearer


@pytest.mark.parametrize("old", [pytest.param(False, marks=pytest.mark.slow), True])
def test_cost_is_at_most_linear(old, tmp_path, empty_leaderboard) -> None:
    few = costs_of(empty_leaderboard(tmp_path / "few.db"), sweeps=4, trials=40, old=old)
    many = costs_of(empty_leaderboard(tmp_path / "many.db"), sweeps=8, trials=160, old=old)
    dear = {name: (few[name], many[name]) for name in few if many[name] > 10 * few[name] + 20}
    assert not dear, dear


def test_writer_leaves_statistics(tmp_path, empty_leaderboard) -> None:
    url = empty_leaderboard(tmp_path / "leaderboard.db")
    fill(url, sweeps=range(2), trials=5)
    with open_store(url) as store, store.writing() as session:
        session.execute(text("DELETE FROM journal_cursors"))
    with open_store(url) as store, store.session() as session:
        counted = text("SELECT stat FROM sqlite_stat1 WHERE tbl = 'sweep_trials'")
        assert session.scalars(counted).all()


def test_a_papers_table_reads_only_what_can_stand_in_it(tmp_path, empty_leaderboard) -> None:
    fill(url := empty_leaderboard(tmp_path / "leaderboard.db"), sweeps=range(2), trials=20)
    with create_engine(url).begin() as connection:
        connection.execute(update(GroupRecord).values(method="rankcse", backbone="bert-base"))
        settings = {"rank_loss": "listnet", "gamma": 1}
        connection.execute(update(ConfigurationRecord).values(values=settings))
        score = {"task": "sts12", "split": "test", "metric": "spearman", "identity": "i"}
        connection.execute(
            insert(ScoreRecord), [{"attempt_id": 3, "value": 0.7, "measured": TIME, **score}]
        )
    asked: list[str] = []
    with Leaderboard(store := open_store(url)) as board:
        event.listen(
            store._engine,
            "before_cursor_execute",
            lambda c, cursor, sql, given, *more: asked.append(f"{sql} {given}"),
        )
        table = board.paper_table("rankcse", "2")
    seeds = [sql for sql in asked if "best_value" in sql]
    assert seeds and all("IN (?)" in sql and sql.endswith("3, 'COMPLETE')") for sql in seeds)
    assert len(table.lines) > 10
