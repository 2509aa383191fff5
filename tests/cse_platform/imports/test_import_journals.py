import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from board_contents import contents
from stored_trials import write_journal
from sweep_events import check_counters, sweep_started

from cse_platform.errors import ImportRefusedError, JournalError
from cse_platform.imports.runs import read_runs
from cse_platform.imports.trials import import_trials
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.trials import read_trials
from cse_platform.stores.sql import sink as journal_sink
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import Base, SchemaRecord, SweepRecord, find_sweep
from cse_platform.tracking.journal import read_journal

TABLES = [table for table in Base.metadata.sorted_tables if table is not SchemaRecord.__table__]
ROWS = [
    {"seed": 1, "step": 5, "dev": 0.6, "state": "finished"},
    {"seed": 1, "step": 10, "dev": 0.7, "state": "finished", "sts12": 0.5},
    {"seed": 2, "step": 5, "dev": 0.5, "state": "pruned"},
]


def put(
    board: Store, runs: Path, rows: list[dict[str, Any]] = ROWS, sweep: str = "logs"
) -> tuple[int, int]:
    runs.mkdir(exist_ok=True)
    table, mapping = runs / "runs.json", runs / "mapping.yaml"
    table.write_text(json.dumps(rows))
    os.utime(table, (1.8e9, 1.8e9))  # when the runs ended
    mapping.write_text(
        f"{{sweep: {sweep}, method: simcse, backbone: bert-base, seed: {{param: seed}}, "
        "step: step, dev: dev, scores: {sts12: sts12}}"
    )
    trials, source, _ = read_runs(str(table), mapping, mlflow=False)
    return import_trials(board, trials, source=source, runs=runs)


def states(board: Store) -> list[tuple[int, str, float | None]]:
    with board.session() as session:
        assert find_sweep(session, "logs").state == "COMPLETE"
        trials = read_trials(session, SweepRecord.name == "logs")
    return [(trial.seed, trial.state, trial.value) for trial in trials]


def test_an_older_copy_of_an_import_s_journal_is_refused_and_stays_as_it_is(here, tmp_path) -> None:
    put(here, tmp_path / "r")
    journal = tmp_path / "r" / "imports" / "logs.jsonl"
    older = journal.read_bytes()
    later = [*ROWS, {"seed": 3, "step": 5, "dev": 0.5, "state": "failed", "sts12": None}]
    assert put(here, tmp_path / "r", later)[0] == 1
    journal.write_bytes(older)
    with pytest.raises(JournalError, match="not the newest copy of this journal"):
        put(here, tmp_path / "r", later)
    assert journal.read_bytes() == older


def test_the_better_attempt_at_a_trial_is_shown(here, tmp_path) -> None:
    def attempt(step: int, state: str) -> dict[str, Any]:
        return {"seed": 1, "step": step, "dev": 0.5 + step / 100, "state": state, "sts12": 0.5}

    assert put(here, tmp_path / "r", [attempt(10, "crashed")])[0] == 1
    assert put(here, tmp_path / "r", [attempt(5, "crashed")])[0] == 0
    assert states(here) == [(1, "FAIL", 0.6)]
    assert put(here, tmp_path / "r", [attempt(5, "finished")])[0] == 1
    assert states(here) == [(1, "COMPLETE", 0.55)]
    assert put(here, tmp_path / "r", [attempt(5, "finished"), attempt(5, "finished")])[0] == 0
    with pytest.raises(ImportRefusedError, match=r"row 1 and table run .*on the leaderboard"):
        put(here, tmp_path / "r", [attempt(20, "finished")])
    assert put(here, tmp_path / "s", [attempt(20, "finished")], "lab")[0] == 1
    with here.session() as session:  # labs share no row
        assert len({row.dev.identity for row in board_rows(session)}) == 2


@pytest.mark.slow
def test_what_was_cut_off_goes_on(here, filled, tmp_path, monkeypatch) -> None:
    undisturbed, slices = filled([]), count()
    put(undisturbed, tmp_path / "other")

    def cut() -> None:
        if next(slices) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setitem(journal_sink.apply_journal.__kwdefaults__, "rows", 3)
        patch.setattr(here, "let_others_write", cut)
        put(here, tmp_path / "r")
    with here.session() as session:
        assert find_sweep(session, "logs").state == "RUNNING"
    put(here, tmp_path / "r")
    assert states(here) == states(undisturbed)
    now, whole = contents(here), contents(undisturbed)
    for table in ("links", "points", "scores", "configurations", "contests"):
        assert now[table] == whole[table]


def test_an_import_that_was_killed_at_any_event_is_completed(here, tmp_path) -> None:
    put(here, tmp_path / "whole")
    whole, seen = contents(here), states(here)
    assert seen == [(1, "COMPLETE", 0.7), (2, "PRUNED", 0.5)]
    journal = tmp_path / "whole" / "imports" / "logs.jsonl"
    events = [event for _, event in read_journal(journal)]
    for length in range(1, len(events)):
        with here.writing() as session:
            for table in reversed(TABLES):
                session.execute(table.delete())
        write_journal(tmp_path / f"{length}" / "imports" / "logs.jsonl", events[:length])
        put(here, tmp_path / f"{length}")
        now = contents(here)
        for name in ("points", "scores", "configurations", "contests"):
            assert now[name] == whole[name], (length, name)
        assert sorted(states(here)) == seen, length
        check_counters(here)


def test_a_sweep_of_ours_is_not_added_to(filled, tmp_path) -> None:
    with pytest.raises(ImportRefusedError, match=r"sweep 'logs' .* one \(rankcse on mini\)"):
        put(filled([sweep_started("logs")]), tmp_path / "r")
