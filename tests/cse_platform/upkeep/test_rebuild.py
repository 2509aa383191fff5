import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
from board_contents import contents
from commands import invoke
from forked_processes import CONTEXT, rebuild_until
from scored_boards import few_resamples as few_resamples
from sqlalchemy import create_engine, inspect, text
from stored_trials import trials_of, url_of
from stored_trials import write_journal as write
from sweep_events import (
    check_counters,
    opening,
    sweep_started,
    trial_evaluated,
    trial_life,
    trial_reused,
)

from cse_platform.cli.leaderboard import main
from cse_platform.control.annotations import annotate
from cse_platform.errors import ImportRefusedError, JournalError, StoreError, SweepRefusedError
from cse_platform.imports.runs import import_runs
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores import rebuild as rebuilding
from cse_platform.stores.rebuild import fill_search_store, rebuild
from cse_platform.stores.sql import replacement
from cse_platform.stores.sql.lease import Lease, add_request, waiting_requests
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.tracking.events import (
    AnnotationWritten,
    DriverMessage,
    SweepFinished,
    SweepRequested,
    TrialEvaluated,
)
from cse_platform.tracking.journal import Journal, read_journal_id
from cse_platform.upkeep.deletion import plan_deletion

WAITING = "SELECT sweep, event FROM sweep_requests WHERE taken IS NULL"
LEASES = "SELECT sweep, journal, folder FROM sweep_leases"
WRITTEN = "SELECT about, name, field, word, text, stands, who, time FROM annotations"
TAKEN = "SELECT sweep, event FROM sweep_requests WHERE taken IS NOT NULL"


@pytest.fixture
def runs(tmp_path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def filled_runs(board, runs, two_methods) -> Path:
    """Three sweeps, of which one took a trial over; evaluations, an import, notes and requests."""
    paths = []
    for sweep in ("simcse", "hicl", "sncse"):
        events = [event for event in two_methods if event.sweep == sweep]
        own = [event for event in events if not isinstance(event, TrialEvaluated)]
        if sweep == "sncse":
            life = [e for e in two_methods if e.sweep == "hicl" and e.kind != "sweep_started"][:4]
            own += [
                trial_reused(life, sweep, number=7),
                SweepRequested(sweep=sweep, request="r1", action="retry", who="ann"),
                DriverMessage(sweep=sweep, level="warning", text="slow"),
            ]
        own.append(SweepFinished(sweep=sweep, state="COMPLETE"))
        paths.append(write(runs / "sweeps" / sweep / "journal.jsonl", own))
        for event in events:
            if isinstance(event, TrialEvaluated):
                of = {"sweep": sweep, "tasks": ("stsb",), "source": "builtin", "who": "ann@lab"}
                opened = opening(event.trial, **of)
                place = runs / "evaluations" / f"{event.trial[:16]}.jsonl"
                paths.append(write(place, [opened, event]))
    for path in paths:
        apply_journal(LeaderboardSink(board), path)
    import_logs(board, runs)
    with Journal(runs / "sweeps" / "other" / "journal.jsonl") as journal:
        Lease(board, "other", journal).close()
    add_request(board, SweepRequested(sweep="sncse", request="r2", action="stop", who="bob"))
    annotate(url_of(board), runs, "hicl", note="good", tags={"keep": True})
    return runs


def import_logs(board: Store, runs: Path) -> tuple[int, int]:
    row = {"run": "a", "method": "esimcse", "backbone": "bert-base", "seed": 1, "state": "complete"}
    row |= {"step": 10, "dev.stsb": 0.5, "test.sts12": 0.5, "param.temperature": 0.05}
    done = import_runs(pd.DataFrame([row]), sweep="logs", runs=runs, store=url_of(board))
    return done.new, done.known


def everything(url: str) -> dict[str, Any]:
    """All rows, without ids, and what the API says of them."""
    with open_store(url) as board:
        rows = contents(board)
        with board.session() as session:
            for query in (WAITING, LEASES, WRITTEN, TAKEN):
                rows[query] = sorted(map(repr, session.execute(text(query)).all()))
    with open_leaderboard(url) as asked:
        board_rows = asked.rows(per_configuration=True)
        sweeps = asked.sweeps()
        told = [board_rows, asked.catalogue(), asked.compare("hicl", "simcse"), sweeps]
        told += [asked.dev_curves(row) for row in board_rows]
        told += [asked.search(sweep.name) for sweep in sweeps if sweep.name != "logs"]
        told += [asked.messages(sweep.name) for sweep in sweeps]
    return {**rows, "told": [*map(repr, told)]}


def test_the_journals_give_back_what_the_sinks_wrote(filled_runs, leaderboard_url) -> None:
    before = everything(leaderboard_url)
    assert all(before[query] for query in (WAITING, LEASES, WRITTEN, TAKEN))
    with open_store(leaderboard_url) as opened:  # as a page server has it, all the time
        with opened.session() as session:
            session.execute(text("SELECT 1"))
        with opened.writing() as session:
            session.execute(text("DELETE FROM scores"))
            session.execute(text("UPDATE attempts SET best_value = 0.1"))
        done = rebuild(leaderboard_url, [filled_runs])
        assert (done.before["sweeps"], done.after["sweeps"], done.lost) == (4, 4, [])
        assert done.before["scores"] == 0 < done.after["scores"]
        with opened.session() as session:
            assert session.scalar(text("SELECT count(*) FROM scores")) == done.after["scores"]
        with opened.writing() as session:
            session.execute(text("UPDATE sweep_leases SET pid = 1"))
        check_counters(opened)
    assert everything(leaderboard_url) == before
    assert rebuild(leaderboard_url, [filled_runs]).lost == []
    assert everything(leaderboard_url) == before


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_journal_that_has_become_shorter_is_named(runs, leaderboard_url) -> None:
    life = trial_life(0, {0: 0.1, 10: 0.5})
    path = write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *life])
    rebuild(leaderboard_url, [runs])
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    left = len(whole) - len(lines[-1])
    says = (
        rf"sweep first: journal [\w-]+ was read up to byte {left}, and applied up to {len(whole)}"
    )
    with pytest.raises(JournalError, match=says):
        rebuild(leaderboard_url, [runs])
    path.write_bytes(whole)
    assert rebuild(leaderboard_url, [runs]).lost == []


def test_journals_that_are_gone_are_named_and_nothing_is_replaced(
    filled_runs, leaderboard_url
) -> None:
    before = everything(leaderboard_url)
    gone = {
        "logs": filled_runs / "imports" / "logs.jsonl",
        "hicl": filled_runs / "sweeps" / "hicl" / "journal.jsonl",
        "sncse": next((filled_runs / "evaluations").glob("0c00*")),  # of one of its trials
    }
    ids = {sweep: read_journal_id(path) for sweep, path in gone.items()}
    notes = read_journal_id(filled_runs / "annotations" / "journal.jsonl")
    for path in (*gone.values(), filled_runs / "annotations" / "journal.jsonl"):
        path.unlink()
    with pytest.raises(JournalError) as refused:
        rebuild(leaderboard_url, [filled_runs])
    told = str(refused.value)
    for sweep, journal in ids.items():
        assert f"sweep {sweep}: journal {journal} was not read" in told
    assert f"notes or openings of test sets: journal {notes} was not read" in told
    assert f"--without {notes},hicl,logs,sncse" in told
    assert everything(leaderboard_url) == before
    lost = rebuild(leaderboard_url, [filled_runs], dry_run=True).lost
    assert {journal.id for journal in lost} == {*ids.values(), notes}
    assert everything(leaderboard_url) == before
    with pytest.raises(JournalError, match=f"--without {notes}$"):
        rebuild(leaderboard_url, [filled_runs], without=ids)
    done = rebuild(leaderboard_url, [filled_runs], without={*ids, notes})
    assert (done.before["trials"], done.after["trials"]) == (7, 4)
    with open_store(leaderboard_url) as opened:
        assert import_logs(opened, filled_runs)[0] == 1
        with pytest.raises(ImportRefusedError, match=r"is not .*elsewhere.*rebuild --without logs"):
            import_logs(opened, filled_runs / "elsewhere")
    with open_leaderboard(leaderboard_url) as asked:
        assert {sweep.name for sweep in asked.sweeps()} == {"simcse", "sncse", "logs"}


@pytest.fixture
def before_the_swap(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Does something during a rebuild, after it has asked what would be lost."""
    asked = rebuilding._refuse_to_lose

    waiting: list[Callable[[], object]] = []

    def ask(*told: Any) -> None:
        asked(*told)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(rebuilding, "_refuse_to_lose", ask)
    return waiting.append


def test_a_sweep_that_is_written_during_a_rebuild_is_named_and_stays(
    runs, board, leaderboard_url, before_the_swap
) -> None:
    ours, theirs = runs / "sweeps" / "first", runs.with_name("theirs") / "sweeps" / "second"
    life = trial_life(0, {0: 0.1, 10: 0.5})
    write(ours / "journal.jsonl", [sweep_started(), *life])
    told = [sweep_started("second"), *trial_life(1, {0: 0.2}, sweep="second")]
    after: dict[str, Any] = {}

    def write_theirs() -> None:
        path = write(theirs / "journal.jsonl", told)
        apply_journal(LeaderboardSink(board), path)
        after.update(contents(board))

    rebuild(leaderboard_url, [runs])
    before_the_swap(write_theirs)
    with pytest.raises(
        JournalError, match=r"(?s)has results of.*sweep second: journal [\w-]+ was not"
    ):
        rebuild(leaderboard_url, [runs])
    assert contents(board) == after
    assert rebuild(leaderboard_url, [runs, theirs.parents[1]]).after["sweeps"] == 2


def test_a_later_note_in_another_folder_is_not_lost(runs, tmp_path, leaderboard_url) -> None:
    write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    rebuild(leaderboard_url, [runs])
    for folder, note in ((runs, "earlier"), (tmp_path / "theirs", "later")):
        annotate(leaderboard_url, folder, "first", note=note)
    theirs = read_journal_id(tmp_path / "theirs" / "annotations" / "journal.jsonl")
    with pytest.raises(JournalError, match=f"journal {theirs} was not read"):
        rebuild(leaderboard_url, [runs])
    assert rebuild(leaderboard_url, [runs, tmp_path / "theirs"]).lost == []


def test_a_sweep_that_is_deleted_meanwhile_does_not_come_back(
    runs, board, leaderboard_url, before_the_swap
) -> None:
    for name in ("first", "second"):
        life = trial_life(0, {0: 0.1}, sweep=name, configuration=name)
        write(runs / "sweeps" / name / "journal.jsonl", [sweep_started(name), *life])
    rebuild(leaderboard_url, [runs])

    def delete() -> None:
        plan_deletion(board, leaderboard_url, "first", runs=runs).carry_out(board)

    before_the_swap(delete)
    with pytest.raises(JournalError, match=r"first.* was removed .*run the command again"):
        rebuild(leaderboard_url, [runs])
    rebuild(leaderboard_url, [runs])
    with open_leaderboard(leaderboard_url) as asked:
        assert [sweep.name for sweep in asked.sweeps()] == ["second"]


def test_a_running_sweep_is_waited_for(filled_runs, board, leaderboard_url) -> None:
    with (
        Journal(filled_runs / "sweeps" / "hicl" / "journal.jsonl") as journal,
        Lease(board, "hicl", journal),
        pytest.raises(SweepRefusedError, match="runs sweep 'hicl'"),
    ):
        rebuild(leaderboard_url, [filled_runs])
    rebuild(leaderboard_url, [filled_runs])


def test_a_request_that_a_journal_has_waits_no_longer(runs, board, leaderboard_url) -> None:
    """Its driver was killed before the old leaderboard heard of it."""
    taken, waiting = (
        SweepRequested(sweep="first", request=name, action="retry", who="ann")
        for name in ("a", "b")
    )
    for request in (taken, waiting):
        add_request(board, request)
    write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), taken])
    rebuild(leaderboard_url, [runs])
    with board.session() as session:
        assert waiting_requests(session, "first") == [waiting]
        assert len(session.execute(text(TAKEN)).all()) == 1


def test_a_colleague_s_runs_come_and_the_best_attempt_is_shown(tmp_path, leaderboard_url) -> None:
    """A complete attempt, the first folder's of two, else the one that went furthest."""
    ours, theirs = tmp_path / "runs", tmp_path / "theirs"
    shown = {}
    for order in ([ours, theirs], [theirs, ours]):
        for folder, complete, further in ((ours, 0.5, 20), (theirs, 0.75, 30)):
            path = folder / "sweeps" / f"of-{folder.name}" / "journal.jsonl"
            if path.exists():
                continue
            sweep = path.parent.name
            events = [sweep_started(sweep)]
            events += trial_life(0, {0: 0.1, 10: complete}, sweep=sweep)
            events += trial_life(1, {0: 0.1, further: 0.3}, sweep=sweep, state="PRUNED")
            state = "COMPLETE" if folder == ours else "FAIL"
            events += trial_life(2, {0: 0.2, further: 0.4}, sweep=sweep, state=state)
            write(path, events)
        rebuild(leaderboard_url, order)
        with open_leaderboard(leaderboard_url) as asked:
            assert asked.count_sweeps() == 2
        with open_store(leaderboard_url) as board, board.session() as session:
            found = session.execute(
                text(
                    "SELECT state, best_value FROM trials JOIN attempts a ON a.id = shown_attempt "
                    "ORDER BY key"
                )
            )
            shown[order[0]] = [tuple(row) for row in found]
    for first, complete in ((ours, 0.5), (theirs, 0.75)):
        others = [("PRUNED", 0.3), ("COMPLETE", 0.4)]
        assert shown[first] == [("COMPLETE", complete), *others]


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_two_sweeps_of_one_name_stay_apart(tmp_path, leaderboard_url, caplog) -> None:
    ours, theirs, copy = tmp_path / "runs", tmp_path / "theirs", tmp_path / "copy"
    journals = {}
    for folder in (theirs, ours):
        told = trial_life(0, {0: 0.1, 10: 0.5}, configuration=f"of-{folder.name}")
        path = folder / "sweeps" / "first" / "journal.jsonl"
        journals[folder] = write(path, [sweep_started(), *told])
        of = {"sweep": "first", "about": "sweep", "name": "first"}
        note = AnnotationWritten(**of, who="ann", note=folder.name)
        write(folder / "annotations" / "journal.jsonl", [note])
    shutil.copytree(ours, copy)
    write(journals[ours], [SweepFinished(sweep="first", state="COMPLETE")])
    theirs_name = f"first.{read_journal_id(journals[theirs])[:4]}"
    for _ in range(2):
        rebuild(leaderboard_url, [ours, theirs, copy])
        with open_store(leaderboard_url) as board, board.session() as session:
            query = "SELECT s.name, state, text FROM sweeps s JOIN annotations a ON a.name = s.name"
            shown = {tuple(row) for row in session.execute(text(query))}
            trials = {name: trials_of(session, name)[0].key for name in ("first", theirs_name)}
        assert shown == {("first", "COMPLETE", "runs"), (theirs_name, "RUNNING", "theirs")}
        assert trials == {"first": "of-runs-42", theirs_name: "of-theirs-42"}
    caplog.clear()
    words = ("rebuild", "--store", leaderboard_url, "--only", "leaderboard", "--only", "search")
    invoke(main, *words, "--runs", ours, "--from", theirs)
    assert caplog.text.count(f"is shown as {theirs_name}, because") == 1
    with (
        open_store(leaderboard_url) as board,
        Journal(journals[theirs]) as journal,
        pytest.raises(StoreError, match="another sweep named 'first'"),
    ):
        Lease(board, "first", journal)
    ended = SweepFinished(sweep="first", state="INTERRUPTED")
    write(copy / "sweeps" / "first" / "journal.jsonl", [ended])
    with pytest.raises(JournalError, match="copies of one journal that have continued"):
        rebuild(leaderboard_url, [ours, copy])


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("other", ["sweeps/first-old/journal.jsonl", "imports/first.jsonl"])
def test_two_sweeps_of_one_name_in_one_folder_are_refused(runs, leaderboard_url, other) -> None:
    """None of them gets the other's name, nor is left out."""
    first = write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    second = write(runs / other, [sweep_started()])
    with pytest.raises(JournalError, match="both belong to a sweep first; move one") as refused:
        rebuild(leaderboard_url, [runs])
    assert str(first) in str(refused.value) and str(second) in str(refused.value)
    moved = runs.with_name("old") / other
    moved.parent.mkdir(parents=True)
    second.rename(moved)
    assert rebuild(leaderboard_url, [runs, runs.with_name("old")]).after["sweeps"] == 2


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_deleted_sweep_leaves_what_others_took_over_and_no_notes(
    runs, board, leaderboard_url
) -> None:
    life = trial_life(0, {0: 0.1, 10: 0.5}, model="/m")
    spent = {"costs": {"train_minutes": 2.0}, "provenance": {"host": "a", "cpu": "b"}}
    life[-1] = life[-1].model_copy(update=spent)
    first = write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *life])
    taken = [sweep_started("second"), trial_reused(life, "second", number=3, reused_from="first")]
    second = write(runs / "sweeps" / "second" / "journal.jsonl", taken)
    for path in (first, second):
        apply_journal(LeaderboardSink(board), path)
    for name in ("first", "first#0"):
        annotate(leaderboard_url, runs, name, note="mine")
    planned = plan_deletion(board, leaderboard_url, "first", runs=runs)
    assert (
        "a rebuilt leaderboard has scores and the search's dev curve, but no other metrics "
        "of a curve, no costs and no machine from here"
    ) in next(planned.effects())
    planned.carry_out(board)
    write(first, [sweep_started(), *trial_life(7, {0: 0.2})])
    apply_journal(LeaderboardSink(board), first)
    before = contents(board)

    def read_kept() -> tuple[Any, ...]:
        with open_leaderboard(leaderboard_url) as asked:
            shown = asked.trial("second#3")
        loss = [point.metrics.get("train/loss") for point in shown.curve]
        return [point.value for point in shown.curve], loss, dict(shown.costs), shown.machine

    assert read_kept() == ([0.1, 0.5], [1.0, 1.0], spent["costs"], "a · b")
    assert rebuild(leaderboard_url, [runs]).lost == []
    assert read_kept() == ([0.1, 0.5], [None, None], {}, None)
    with open_store(leaderboard_url) as opened:
        after = contents(opened)
        check_counters(opened)
        with opened.session() as session:
            assert session.execute(
                text("SELECT name FROM annotations WHERE stands")
            ).scalars().all() == ["c0-42"]
    assert after["links"] == before["links"] and len(after["points"]) == len(before["points"])
    assert len(after["trials"]) == 2


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_rebuild_names_once_the_trials_that_no_journal_has(
    tmp_path, board, leaderboard_url, caplog
) -> None:
    """And none that a journal has which it reads later; a sink names each trial at once."""
    ours, theirs = tmp_path / "runs", tmp_path / "theirs"
    life = trial_life(0, {0: 0.1, 10: 0.5})
    heir = [sweep_started("heir"), trial_reused(life, "heir", number=3, reused_from="first")]
    write(ours / "sweeps" / "heir" / "journal.jsonl", heir)
    scores = [
        trial_evaluated(f"t{n}", {f"test/{task}_spearman": 0.5}, sweep="gone")
        for n in range(5)
        for task in ("sts12", "sts13")
    ]
    missing = write(ours / "evaluations" / "t.jsonl", scores)
    write(theirs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *life])
    said = "sweep gone: the scores of 5 trials wait for its runs folder: t0, t1, t2, …"
    for dry_run in (True, False):
        caplog.clear()
        rebuild(leaderboard_url, [ours, theirs], dry_run=dry_run)
        assert caplog.messages == [said], dry_run
    caplog.clear()
    with open_store(f"sqlite:///{tmp_path / 'other.db'}") as other:
        apply_journal(LeaderboardSink(other), missing)
    says = "sweep gone: trial {} is not on this leaderboard, so its scores wait for its runs folder"
    assert caplog.messages == [says.format(f"t{n}") for n in range(5)]


REPLACEMENT = replacement.__name__
MOMENTS = (
    (REPLACEMENT, "make_tables", 1),
    (rebuild.__module__, "gather_journals", 1),
    (rebuild.__module__, "apply_journal", 1),
    (rebuild.__module__, "apply_journal", 2),
    (rebuild.__module__, "store_reused_trials", 1),
    (rebuild.__module__, "_refuse_to_lose", 1),
    (rebuild.__module__, "gather_journals", 2),
    (rebuild.__module__, "store_reused_trials", 2),
    (rebuild.__module__, "_refuse_to_lose", 2),
    (f"{REPLACEMENT}:Replacement", "_copy_live_rows", 1),
)
"""Functions by their homes, and at which of their calls the process dies."""
LAST_MOMENTS = {
    "sqlite": ((REPLACEMENT, "_finish_file", 1), (REPLACEMENT, "put_database", 1)),
    "postgresql": ((REPLACEMENT, "_copy_owner_and_grants", 1),),
}


def test_a_kill_at_any_moment_leaves_the_old_one_or_the_new_one(
    runs, board, leaderboard_url
) -> None:
    for sweep in ("first", "second"):
        life = trial_life(0, {0: 0.1, 10: 0.5}, sweep=sweep, configuration=sweep)
        path = write(runs / "sweeps" / sweep / "journal.jsonl", [sweep_started(sweep), *life])
        apply_journal(LeaderboardSink(board), path)
    whole = contents(board)
    with board.writing() as session:
        session.execute(text("DELETE FROM scores"))
    old, others = contents(board), find_others(board)
    board.close()
    kind = leaderboard_url.partition(":")[0].partition("+")[0]
    for home, name, times in (*MOMENTS, *LAST_MOMENTS[kind]):
        kill_rebuild(home, name, times, leaderboard_url, runs)
        with open_store(leaderboard_url) as opened:
            wait_for_end(opened, others)
            assert contents(opened) == old, name
    kill_rebuild(rebuild.__module__, "Rebuilt", 1, leaderboard_url, runs)
    with open_store(leaderboard_url) as opened:
        wait_for_end(opened, others)
        assert contents(opened) == whole
    assert rebuild(leaderboard_url, [runs]).lost == []
    assert not list(runs.glob("leaderboard.db.new*"))
    kept = {path.stat().st_ino for path in runs.glob("leaderboard.db*")}
    assert len(kept) == len(list(runs.glob("leaderboard.db*")))


def find_others(board: Store) -> set[int]:
    """The other connections to a PostgreSQL database; SQLite has none."""
    with board.session() as session:
        if session.get_bind().dialect.name != "postgresql":
            return set()
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        return {*session.scalars(text(f"{query} AND pid <> pg_backend_pid()"))}


def wait_for_end(board: Store, others: set[int]) -> None:
    """Wait until PostgreSQL has noticed that a process is dead, and only these are left."""
    while not find_others(board) <= others:
        time.sleep(0.01)


def kill_rebuild(home: str, name: str, times: int, url: str, runs: Path) -> None:
    """Rebuild in a process that dies as a function is called for so many times."""
    process = CONTEXT.Process(target=rebuild_until, args=(home, name, times, url, runs))
    process.start()
    process.join()
    assert process.exitcode == 9, name


def change_schema(file: Path) -> None:
    """Give it tables as another version may have them."""
    with closing(sqlite3.connect(file)) as opened:
        opened.executescript(
            "UPDATE cse_schema_version SET version_num = '0003'; DROP TABLE annotations; "
            "DROP TABLE attempts"
        )


HARMS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "another schema": change_schema,
    "garbage": lambda file: file.write_bytes(b"no database" * 999),
    "torn": lambda file: os.truncate(file, file.stat().st_size // 2),
}


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_leaderboard_that_is_lost_comes_back(filled_runs, leaderboard_url, board) -> None:
    before = contents(board)
    board.close()
    file, kept = filled_runs / "leaderboard.db", list[Path]()
    words = ["rebuild", "--only", "leaderboard", "--runs", filled_runs]
    for harm, do_harm in HARMS.items():
        do_harm(file)
        old = file.read_bytes() if file.exists() else None
        done = invoke(main, *words)
        assert f"sweeps: 4 ({4 if harm == 'another schema' else 0} before)" in done.output
        if old is not None:
            kept = sorted(filled_runs.glob("leaderboard.db.before-*"))
            assert kept[-1].read_bytes() == old
            assert f"The old leaderboard is kept as {kept[-1]}" in done.output
        with open_store(leaderboard_url) as opened:
            assert contents(opened) == before
    assert len(kept) == 3


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_foreign_leaderboard_gives_way_with_its_lease_and_requests(
    runs, tmp_path, leaderboard_url, board
) -> None:
    ours = write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    theirs = write(tmp_path / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    apply_journal(LeaderboardSink(board), theirs)
    with Journal(theirs) as journal:
        Lease(board, "first", journal).close()
    add_request(board, SweepRequested(sweep="first", request="r1", action="stop", who="bob"))
    with pytest.raises(JournalError, match=f"sweep first: journal {read_journal_id(theirs)} was"):
        rebuild(leaderboard_url, [runs])
    rebuild(leaderboard_url, [runs], without=["first"])
    with board.session() as session:
        assert [session.execute(text(query)).all() for query in (LEASES, WAITING)] == [[], []]
    with Journal(ours) as journal, Lease(board, "first", journal):
        pass


def test_a_dry_run_makes_nothing(runs, leaderboard_url) -> None:
    write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    done = rebuild(leaderboard_url, [runs], dry_run=True)
    assert (done.before["sweeps"], done.after["sweeps"], done.lost) == (0, 1, [])
    assert not (runs / "leaderboard.db").exists()
    if not leaderboard_url.startswith("sqlite"):
        engine = create_engine(leaderboard_url)
        there = inspect(engine)
        assert not there.has_table("sweeps") and "cse_rebuild" not in there.get_schema_names()
        engine.dispose()


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_without_takes_names_and_dry_run_is_refused_for_other_stores(runs, leaderboard_url) -> None:
    for name in ("first", "second", "third"):
        write(runs / "sweeps" / name / "journal.jsonl", [sweep_started(name)])
    rebuild(leaderboard_url, [runs])
    for name in ("first", "second"):
        shutil.rmtree(runs / "sweeps" / name)
    words = ["rebuild", "--runs", runs, "--only"]
    done = invoke(main, *words, "search", "--dry-run", code=2)
    assert "--dry-run covers the leaderboard" in done.output
    done = invoke(main, *words, "leaderboard", "--without", "first, second")
    assert "sweeps: 1 (3 before)" in done.output


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_another_database_is_not_replaced(filled_runs, tmp_path) -> None:
    other = tmp_path / "mlflow.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE experiments (id)")
    with pytest.raises(StoreError, match="not a leaderboard: it has the tables experiments"):
        rebuild(f"sqlite:///{other}", [filled_runs])


def test_a_study_of_another_journal_stays_and_ends_nothing(tmp_path, monkeypatch) -> None:
    """In the search store of the runs folder it is replaced, whichever folder its journal is in."""
    ours, theirs, bobs = (tmp_path / name for name in ("runs", "theirs", "bobs"))
    for runs, sweeps in ((ours, "z"), (theirs, "s"), (bobs, "sz")):
        for name in sweeps:
            space = {"temperature": {"low": 0.01, "high": 1.0}}
            search = {"sampler": "random", "trials": 1}
            spec = {
                "sweep": name, "method": "rankcse", "backbone": "mini", "corpus": "builtin",
                "data": "builtin", "space": space, "search": search,
            }  # fmt: skip
            life = trial_life(
                0, {10: 0.5}, sweep=name, searched=("temperature",), values={"temperature": 0.5}
            )
            path = runs / "sweeps" / name / "journal.jsonl"
            write(path, [sweep_started(name, spec=spec), *life])
    ids = {
        runs: read_journal_id(runs / "sweeps" / "s" / "journal.jsonl") for runs in (theirs, bobs)
    }

    def read_studies(url: str) -> dict[str, str]:
        studies = optuna.get_all_study_summaries(url)
        return {study.study_name: study.user_attrs["journal"] for study in studies}

    assert fill_search_store([ours, theirs]) == []
    own = f"sqlite:///{ours / 'search.db'}"
    assert read_studies(own)["s"] == ids[theirs]
    assert fill_search_store([ours, bobs, theirs]) == []
    assert read_studies(own)["s"] == ids[bobs]
    assert read_studies(own)[f"s.{ids[theirs][:4]}"] == ids[theirs]

    shared = f"sqlite:///{tmp_path / 'shared.db'}"
    monkeypatch.setenv("CSE_SEARCH_STORE", shared)
    assert fill_search_store([theirs]) == []
    assert fill_search_store([bobs]) == ["s"]
    studies = read_studies(shared)
    assert studies.keys() == {"s", "z"} and studies["s"] == ids[theirs]
    monkeypatch.setenv("CSE_SEARCH_STORE", "nonsense")
    with pytest.raises(StoreError, match="search store nonsense"):
        fill_search_store([bobs])


@pytest.mark.postgres
@pytest.mark.parametrize("leaderboard_url", ["postgres"], indirect=True)
def test_grants_on_the_tables_stay(filled_runs, leaderboard_url, board) -> None:
    with board.writing() as session:
        session.execute(text("DROP ROLE IF EXISTS rebuild_reader"))
        session.execute(text("CREATE ROLE rebuild_reader"))
        session.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO rebuild_reader"))
        session.execute(text("CREATE TABLE a_neighbour (id int)"))
    rebuild(leaderboard_url, [filled_runs])
    asked = "SELECT has_table_privilege('rebuild_reader', 'trials', :what)"
    with board.session() as session:
        assert session.scalar(text(asked), {"what": "SELECT"})
        assert not session.scalar(text(asked), {"what": "INSERT"})
        assert session.scalar(text("SELECT count(*) FROM a_neighbour")) == 0
    with board.writing() as session:
        session.execute(text("DROP OWNED BY rebuild_reader"))
        session.execute(text("DROP ROLE rebuild_reader"))


@pytest.mark.postgres
@pytest.mark.parametrize("leaderboard_url", ["postgres"], indirect=True)
def test_a_table_that_refers_to_ours_stays(runs, leaderboard_url, board) -> None:
    write(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    rebuild(leaderboard_url, [runs])
    with board.writing() as session:
        session.execute(text("CREATE TABLE lab_notes (sweep int REFERENCES sweeps)"))
        session.execute(text("INSERT INTO lab_notes SELECT id FROM sweeps"))
    with pytest.raises(StoreError, match=r"nothing was replaced.*on table lab_notes.*; drop these"):
        rebuild(leaderboard_url, [runs])
    with board.writing() as session:
        assert session.scalar(text("SELECT count(*) FROM lab_notes")) == 1
        session.execute(text("DROP TABLE lab_notes"))
    rebuild(leaderboard_url, [runs])
