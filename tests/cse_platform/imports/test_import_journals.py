from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from board_contents import contents
from stored_trials import stored_scores, url_of, write_journal
from sweep_events import check_counters, sweep_started

from cse_platform.errors import ImportRefusedError, JournalError
from cse_platform.imports.runs import import_runs
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.trials import read_trials
from cse_platform.stores.sql import sink as journal_sink
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import Base, SchemaRecord, SweepRecord, find_sweep
from cse_platform.tracking.journal import read_journal, read_journal_id

TABLES = [table for table in Base.metadata.sorted_tables if table is not SchemaRecord.__table__]
ALL = {"method": "simcse", "backbone": "bert-base", "started": "2027-01-15T08:00:00Z"}
ROWS = [
    {"run": "a", "seed": 1, "step": 5, "dev.stsb": 0.6, "state": "complete", **ALL},
    {"run": "a", "step": 10, "dev.stsb": 0.7, "test.sts12": 0.5},
    {"run": "b", "seed": 2, "step": 5, "dev.stsb": 0.5, "state": "pruned", **ALL},
]


def put(
    board: Store, runs: Path, rows: list[dict[str, Any]] = ROWS, sweep: str = "logs"
) -> tuple[int, int]:
    done = import_runs(pd.DataFrame(rows), sweep=sweep, runs=runs, store=url_of(board))
    return done.new, done.known


def states(board: Store) -> list[tuple[int, str, float | None]]:
    with board.session() as session:
        assert find_sweep(session, "logs").state == "COMPLETE"
        trials = read_trials(session, SweepRecord.name == "logs")
    return [(trial.seed, trial.state, trial.best_value) for trial in trials]


def test_an_older_copy_of_an_import_s_journal_is_refused_and_stays_as_it_is(here, tmp_path) -> None:
    put(here, tmp_path / "r")
    journal = tmp_path / "r" / "imports" / "logs.jsonl"
    older = journal.read_bytes()
    later = [*ROWS, {"run": "c", "seed": 3, "step": 5, "dev.stsb": 0.5, "state": "failed", **ALL}]
    assert put(here, tmp_path / "r", later)[0] == 1
    journal.write_bytes(older)
    with pytest.raises(JournalError, match="not the newest copy of this journal"):
        put(here, tmp_path / "r", later)
    assert journal.read_bytes() == older


def test_the_better_attempt_at_a_trial_is_shown(here, tmp_path) -> None:
    def attempt(run: str, step: int, state: str) -> dict[str, Any]:
        return ALL | {
            "run": run,
            "seed": 1,
            "step": step,
            "dev.stsb": 0.5 + step / 100,
            "state": state,
        }

    assert put(here, tmp_path / "r", [attempt("a", 10, "failed")])[0] == 1
    assert put(here, tmp_path / "r", [attempt("b", 5, "failed")])[0] == 0
    assert states(here) == [(1, "FAIL", 0.6)]
    assert put(here, tmp_path / "r", [attempt("b", 5, "complete")])[0] == 1
    assert states(here) == [(1, "COMPLETE", 0.55)]
    both = [attempt("b", 5, "complete"), attempt("a", 10, "failed")]
    assert put(here, tmp_path / "r", both) == (0, 1)
    both[0]["test.sts12"] = 0.5  # a later export has a further column
    assert put(here, tmp_path / "r", both) == (0, 1)
    journal = tmp_path / "r" / "imports" / "logs.jsonl"
    before = journal.read_bytes()
    assert put(here, tmp_path / "r", both) == (0, 1)
    changed = [both[0] | {"test.sts12": 0.9, "train.loss": 2.0}, both[1]]
    with pytest.raises(ImportRefusedError) as refused:
        put(here, tmp_path / "r", [changed[0] | {"test.sts13": 0.5}, both[1]])
    told = (
        "row 1 (b), test.sts12: 0.9, but 0.5 is on the leaderboard, and an import changes nothing"
    )
    assert str(refused.value).splitlines()[1:] == [
        f"  {told}; first delete it: cse-sweep delete logs; another run of that name belongs "
        "under another name of the sweep"
    ]
    assert before == journal.read_bytes()
    with here.session() as session:
        (trial,) = read_trials(session, SweepRecord.name == "logs")
        assert [score.task for score in stored_scores(session, trial.key)] == ["sts12"]
    with pytest.raises(ImportRefusedError, match=r"row 1 \(c\) and run b .*on the leaderboard"):
        put(here, tmp_path / "r", [attempt("c", 20, "complete")])
    assert put(here, tmp_path / "s", [attempt("c", 20, "complete")], "lab")[0] == 1
    with here.session() as session:  # labs share no row
        assert len({row.dev.identity for row in board_rows(session)}) == 2


def test_a_complete_run_comes_once_whatever_was_corrected_in_it(here, tmp_path) -> None:
    rows = [
        ALL
        | {
            "run": run,
            "seed": seed,
            "dev.stsb": 0.6,
            "param.learning_rate": 3e-5,
            "state": "complete",
        }
        for seed, run in enumerate(("a", "a (2)"))
    ]
    assert put(here, tmp_path / "r", rows) == (2, 0)
    before = contents(here)
    for corrected, told in (
        ({"seed": 10}, "seed: 10, but 1 is on the leaderboard"),
        (
            {"param.learning_rate": 4e-5},
            "param.learning_rate: 4e-05, but 3e-05 is on the leaderboard",
        ),
        ({"dev.stsb": 0.7}, "dev/stsb_spearman: 0.7, but 0.6 is on the leaderboard"),
        ({"step": 9}, "dev/stsb_spearman of step 9: 0.6, but nothing is on the leaderboard"),
    ):
        with pytest.raises(ImportRefusedError) as refused:
            put(here, tmp_path / "r", [rows[0], rows[1] | corrected])
        first = str(refused.value).splitlines()[1]
        assert first.startswith(f"  row 2 (a (2)), {told}, and an import changes nothing; first")
    with pytest.raises(ImportRefusedError, match=r"\n  row 2 \(a\), seed: 1, but 0 is on the"):
        put(here, tmp_path / "r", [rows[1], rows[0] | {"seed": 1, "state": "failed"}])
    assert contents(here) == before
    assert put(here, tmp_path / "r", [rows[1], rows[1] | {"run": "b", "seed": 10}]) == (1, 1)


def read_tables(board: Store, runs: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """What some tables hold, without the id of the one journal in a runs folder."""
    journal, stored = read_journal_id(runs / "imports" / "logs.jsonl"), contents(board)
    return {name: [row.replace(journal, "journal") for row in stored[name]] for name in names}


@pytest.mark.slow
def test_what_was_cut_off_goes_on(here, filled, tmp_path, monkeypatch) -> None:
    undisturbed, slices = filled([]), count()
    put(undisturbed, tmp_path / "other")

    def cut(_store: Store) -> None:
        if next(slices) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setitem(journal_sink.apply_journal.__kwdefaults__, "rows", 3)
        patch.setattr(Store, "let_others_write", cut)
        put(here, tmp_path / "r")
    with here.session() as session:
        assert find_sweep(session, "logs").state == "RUNNING"
    put(here, tmp_path / "r")
    assert states(here) == states(undisturbed)
    names = ("links", "points", "scores", "configurations", "groups")
    now = read_tables(here, tmp_path / "r", names)
    assert now == read_tables(undisturbed, tmp_path / "other", names)


def test_an_import_that_was_killed_at_any_event_is_completed(here, tmp_path) -> None:
    put(here, tmp_path / "whole")
    names = ("points", "scores", "configurations", "groups")
    whole, seen = read_tables(here, tmp_path / "whole", names), states(here)
    assert seen == [(1, "COMPLETE", 0.7), (2, "PRUNED", 0.5)]
    journal = tmp_path / "whole" / "imports" / "logs.jsonl"
    events = [event for _, event in read_journal(journal)]
    for length in range(1, len(events)):
        with here.writing() as session:
            for table in reversed(TABLES):
                session.execute(table.delete())
        write_journal(tmp_path / f"{length}" / "imports" / "logs.jsonl", events[:length])
        put(here, tmp_path / f"{length}")
        assert read_tables(here, tmp_path / f"{length}", names) == whole, length
        assert sorted(states(here)) == seen, length
        check_counters(here)


def test_what_is_here_keeps_its_sweep_if_a_second_backbone_comes(here, tmp_path) -> None:
    large = [row | {"backbone": "bert-large", "run": "L"} for row in ROWS[2:]]
    assert put(here, tmp_path / "r", ROWS[2:]) == (1, 0)
    assert put(here, tmp_path / "r", ROWS[2:] + large) == (1, 1)
    assert put(here, tmp_path / "r", large) == (0, 1)
    names = sorted(path.name for path in (tmp_path / "r" / "imports").glob("*.jsonl"))
    assert names == ["logs-bert-large.jsonl", "logs.jsonl"]
    new = [row | {"method": method} for row in ROWS[2:] for method in ("å/b", "a-b", "x" * 300)]
    assert put(here, tmp_path / "r", [r | {"run": n} for n, r in enumerate(new)], "x") == (3, 0)


def test_a_sweep_of_ours_is_not_added_to(filled, tmp_path) -> None:
    with pytest.raises(ImportRefusedError, match=r"sweep 'logs' .* one \(rankcse on mini\)"):
        put(filled([sweep_started("logs")]), tmp_path / "r")
