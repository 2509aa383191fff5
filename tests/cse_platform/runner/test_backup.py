"""Backups of stores that are written to: restored, they agree with the journals, or come to."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from in_process import NewDrive, NewSpec
from sqlalchemy import create_engine, update

from cse_platform.cli.leaderboard import main
from cse_platform.copies import restore_postgres
from cse_platform.errors import BackupError, StoreError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import Store, open_store
from cse_platform.leaderboard.tables import SweepLeaseRecord
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import sweep_folder
from cse_platform.tracking.events import Event, TrialPoint
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder
from cse_platform.upkeep import backup
from cse_platform.upkeep.backup import MANIFEST, UNFINISHED, Places, back_up, restore
from cse_platform.upkeep.catch_up import catch_up

Contents = Callable[[Store], dict[str, list[Any]]]


def places_in(runs: Path, leaderboard: str | None = None) -> Places:
    urls = {name: f"sqlite:///{runs / name}.db" for name in ("leaderboard", "search", "mlflow")}
    return Places(runs, {**urls, "leaderboard": leaderboard or urls["leaderboard"]})  # type: ignore[dict-item]


def run(*words: object) -> Result:
    unset = dict.fromkeys(("CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI"))
    return CliRunner().invoke(main, [*map(str, words)], env=unset)


@pytest.fixture
def drive_in(new_drive: NewDrive, empty_search: Callable[[Path], str]) -> Callable[..., Any]:
    """Starts the sweep `small` in a runs folder, with the stores of that folder."""

    def start(runs: Path, spec: SweepSpec) -> Any:
        if not (search := runs / "search.db").exists():
            empty_search(search)
        how = {"leaderboard": runs, "search": f"sqlite:///{search}"}
        return new_drive(sweep_folder(runs, "small"), spec, **how)

    return start


@contextmanager
def held(url: str, contents: Contents) -> Iterator[dict[str, list[Any]]]:
    with open_store(url) as board:
        yield contents(board)


def let_leases_run_out(url: str) -> None:
    """The driver of the backup is this process, and lives; a minute later it would not count."""
    with open_store(url) as board, board.writing() as session:
        session.execute(update(SweepLeaseRecord).values(heartbeat=datetime(2020, 1, 1, tzinfo=UTC)))


@pytest.fixture
def cut(tmp_path: Path, drive_in: Callable[..., Any], new_spec: NewSpec) -> Any:
    """A sweep that was backed up in the midst of a trial, and went on to its end."""
    runs = tmp_path / "runs"
    drive = drive_in(runs, new_spec())
    for _ in range(5):
        drive.start()
        for key in list(drive.running):
            drive.advance(key)
    back_up(places_in(runs), tmp_path / "backup")
    drive.run()
    drive.close()
    return drive


def test_a_restored_sweep_goes_on_as_if_nothing_had_been(
    cut: Any, tmp_path: Path, drive_in: Callable[..., Any], new_spec: NewSpec
) -> None:
    other = tmp_path / "other"
    restore(tmp_path / "backup", places_in(other))
    began = (sweep_folder(other, "small") / "journal.jsonl").read_bytes()
    assert cut.folder.joinpath("journal.jsonl").read_bytes().startswith(began)
    url = f"sqlite:///{other / 'leaderboard.db'}"
    assert catch_up(url, other) == []
    let_leases_run_out(url)
    again = drive_in(other, new_spec())
    assert 0 < len(again.history.trials) < 3
    again.run()
    assert again.outcome() == cut.outcome()
    told = {trial.number: trial.intermediate_values for trial in again.state.search.study.trials}
    assert told == {t.number: t.intermediate_values for t in cut.state.search.study.trials}
    again.close()


@pytest.mark.slow
def test_older_stores_are_caught_up_from_the_journals(
    cut: Any, tmp_path: Path, drive_in: Callable[..., Any], new_spec: NewSpec, contents: Contents
) -> None:
    runs = tmp_path / "runs"
    url = f"sqlite:///{runs / 'leaderboard.db'}"
    with held(url, contents) as whole:
        assert len(whole["trials"]) == 3
    for name in ("leaderboard", "search"):
        for file in runs.glob(f"{name}.db*"):
            file.unlink()
    restore(tmp_path / "backup", places_in(runs), only=["leaderboard", "search"])
    with held(url, contents) as older:
        assert older["trials"] != whole["trials"]
    assert catch_up(url, runs) == []
    with held(url, contents) as now:
        assert now == whole
    let_leases_run_out(url)
    more = drive_in(runs, new_spec(search={"trials": 5}))
    more.run()
    undisturbed = drive_in(tmp_path / "undisturbed", new_spec(search={"trials": 5}))
    undisturbed.run()
    assert more.outcome() == undisturbed.outcome()
    states = {t.number: (t.state, t.params) for t in more.state.search.study.trials}
    assert states == {t.number: (t.state, t.params) for t in undisturbed.state.search.study.trials}


@pytest.mark.slow
def test_no_store_is_ahead_of_its_journal_while_a_driver_writes(
    tmp_path: Path,
    board: Store,
    leaderboard_url: str,
    trial_life: Callable[..., list[Event]],
    sweep_started: Callable[..., Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before each part is copied, something happens, and the leaderboard hears of it."""
    runs, other, steps = tmp_path / "busy", tmp_path / "other", count()
    path = sweep_folder(runs, "first") / "journal.jsonl"
    recorder = Recorder(Journal(path), [LeaderboardSink(board)])
    for event in (sweep_started(), *trial_life(0, {}, state=None)):
        recorder.record(event)

    def after_news(copy: Callable[..., Any]) -> Callable[..., Any]:
        def call(*asked: Any) -> Any:
            point = {"sweep": "first", "trial": "c0-42", "value": 0.5, "metrics": {}}
            recorder.record(TrialPoint(step=next(steps), **point))
            assert not recorder.flush(10)[0].behind
            return copy(*asked)

        return call

    for name in ("_copy_store", "_copy_files"):
        monkeypatch.setattr(backup, name, after_news(getattr(backup, name)))
    back_up(places_in(runs, leaderboard_url), tmp_path / "backup")
    recorder.close(10)
    board.close()
    target = url_for(leaderboard_url, other)
    restore(tmp_path / "backup", places_in(other, target))
    copy = sweep_folder(other, "first") / "journal.jsonl"
    assert copy.read_bytes() == path.read_bytes()
    with open_store(target) as restored, Journal(copy) as journal:
        assert journal.count_after(LeaderboardSink(restored).position(journal.id)) == 3
    assert catch_up(target, other) == []
    with open_store(target) as restored, Journal(copy) as journal:
        assert LeaderboardSink(restored).position(journal.id) == journal.end


def url_for(kind: str, runs: Path) -> str:
    """A new place for a leaderboard of this kind; on PostgreSQL a database of its own."""
    if kind.startswith("sqlite"):
        return f"sqlite:///{runs / 'leaderboard.db'}"
    engine = create_engine(kind, isolation_level="AUTOCOMMIT")
    name = f"cse_{runs.name.replace('-', '_')}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return engine.url.set(database=name).render_as_string(hide_password=False)


@pytest.mark.slow
def test_nothing_is_overwritten(cut: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    with pytest.raises(BackupError, match=r"overwrite .*leaderboard\.db, .*search\.db;"):
        restore(tmp_path / "backup", places_in(runs))
    other = tmp_path / "other"
    journal = sweep_folder(other, "small") / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text('{"journal":"another"}\n')
    with pytest.raises(BackupError, match=rf"overwrite {journal};"):
        restore(tmp_path / "backup", places_in(other))
    assert not (other / "leaderboard.db").exists()
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "leaderboard.db-wal").write_text("of another one")
    with pytest.raises(BackupError, match=r"overwrite .*leaderboard\.db-wal"):
        restore(tmp_path / "backup", places_in(tmp_path / "third"))
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before
    with pytest.raises(BackupError, match="is not empty"):
        back_up(places_in(runs), runs)
    with pytest.raises(BackupError, match="is not empty"):
        back_up(places_in(runs), tmp_path / "backup")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["leaderboard.db", "runs/sweeps/small/journal.jsonl"])
def test_a_file_that_is_not_what_was_backed_up_is_refused(
    cut: Any, tmp_path: Path, name: str
) -> None:
    content = bytearray((tmp_path / "backup" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "backup" / name).write_bytes(content)
    with pytest.raises(BackupError, match=rf"{name} is not what was backed up"):
        restore(tmp_path / "backup", places_in(tmp_path / "other"))
    (tmp_path / "backup" / name).unlink()
    with pytest.raises(BackupError, match=rf"{name} is not what was backed up"):
        restore(tmp_path / "backup", places_in(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_what_was_killed_is_not_whole_and_is_done_again(
    cut: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    folder, other = tmp_path / "second", tmp_path / "other"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(backup, "_copy_files", killed)
        back_up(places_in(tmp_path / "runs"), folder)
    assert (folder / "leaderboard.db").exists()
    with pytest.raises(BackupError, match="holds no whole backup"):
        restore(folder, places_in(other))
    back_up(places_in(tmp_path / "runs"), folder)
    assert not (folder / UNFINISHED).exists()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        puts = iter((backup._put_back,))
        patch.setattr(backup, "_put_back", lambda *pair: next(puts, killed)(*pair))
        restore(folder, places_in(other))
    assert (other / "leaderboard.db").exists() and not (other / "search.db").exists()
    restore(folder, places_in(other))
    sums = json.loads((folder / MANIFEST).read_text())["sha256"]
    assert sums.keys() >= {"leaderboard.db", "search.db", "runs/sweeps/small/journal.jsonl"}
    for name in ("leaderboard.db", "search.db"):
        assert (other / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
def test_another_kind_of_store_and_a_newer_backup_are_refused(cut: Any, tmp_path: Path) -> None:
    server = "postgresql+psycopg://lab:hidden@127.0.0.1:1/leaderboard"
    with pytest.raises(BackupError, match=r"leaderboard\.db cannot be restored into") as caught:
        restore(tmp_path / "backup", places_in(tmp_path / "other", server))
    assert "hidden" not in str(caught.value)
    file = tmp_path / "backup" / MANIFEST
    made = file.read_text()
    for name in ("runs/../../x", "/etc/x"):
        file.write_text(made.replace("runs/sweeps/small/journal.jsonl", name))
        with pytest.raises(BackupError, match=rf"names '{name}', which is not in the folder"):
            restore(tmp_path / "backup", places_in(tmp_path / "other"))
    file.write_text(made.replace('"version": 1', '"version": 2'))
    with pytest.raises(BackupError, match="written by a newer version"):
        restore(tmp_path / "backup", places_in(tmp_path / "other"))


@pytest.mark.slow
def test_the_commands(cut: Any, tmp_path: Path) -> None:
    runs, copy, other = tmp_path / "runs", tmp_path / "copy", tmp_path / "other"
    assert run("backup", copy, "--runs", runs).exit_code == 0
    done = run("restore", copy, "--runs", other)
    assert done.exit_code == 0, done.output
    assert run("backup", copy, "--runs", runs).exit_code == 1
    again = run("restore", tmp_path / "backup", "--runs", other)
    assert again.exit_code == 1 and "cse-leaderboard catch-up" in again.output
    shown = [run("--runs", folder, "--json").output for folder in (runs, other)]
    assert shown[0] == shown[1] != "[]\n"
    (other / "leaderboard.db").unlink()
    for left in other.glob("leaderboard.db-*"):
        left.unlink()
    shutil.copyfile(tmp_path / "backup" / "leaderboard.db", other / "leaderboard.db")
    assert run("catch-up", "--runs", other).exit_code == 0
    assert run("--runs", other, "--json").output == shown[0]


@pytest.mark.slow
def test_a_copy_of_a_journal_that_is_older_than_the_leaderboard_is_told(
    cut: Any, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    journal = cut.folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-3]))
    [line] = catch_up(f"sqlite:///{runs / 'leaderboard.db'}", runs)
    assert line.startswith(f"{journal}: leaderboard lacks ") and "not the newest copy" in line


@pytest.mark.slow
@pytest.mark.parametrize("place", ["lab:hidden@db/x", "lab@db/x?password=hidden&sslmode=require"])
def test_no_password_is_on_the_command_line_of_a_tool(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, told = tmp_path / "pg_restore", tmp_path / "told"
    tool.write_text(f'#!/bin/sh\necho "$PGPASSWORD" "$@" > {told}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    restore_postgres(f"postgresql+psycopg://{place}", tmp_path / "x.dump")
    password, *words = told.read_text().split()
    assert password == "hidden" and "hidden" not in " ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "leaderboard_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_a_server_that_refuses_is_one_sentence_without_password(
    tmp_path: Path, leaderboard_url: str
) -> None:
    wrong = leaderboard_url.replace("p%40ss", "hidden")
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        back_up(places_in(tmp_path / "runs", wrong), tmp_path / "backup")
    assert "hidden" not in str(caught.value)
