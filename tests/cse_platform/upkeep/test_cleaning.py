import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands import invoke
from sqlalchemy import text
from stored_trials import apply_events, url_of
from sweep_events import sweep_started

from cse_methods.files.cache import cache_folder, written_once
from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.databases import sqlite_file
from cse_platform.tracking.events import DriverMessage
from cse_platform.upkeep.cleaning import plan_cleaning

LONG_AGO = datetime.now(UTC) - timedelta(days=100)
DAYS = 86_400.0


def ages(path: Path, *, days: float) -> Path:
    """Let a file, and the folders above it below `tmp_path`, be so many days old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 1000)
    then = time.time() - days * DAYS
    for place in (path, path.parent):
        os.utime(place, (then, then))
    return path


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder for Ray, whose path is short enough for sockets."""
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield Path(folder, f"ray-{os.getuid()}")


def test_messages_go_by_age(board, tmp_path) -> None:
    said = [
        DriverMessage(sweep="first", level="note", text=name, time=then)
        for name, then in (("old", LONG_AGO), ("new", datetime.now(UTC)))
    ]
    apply_events(board, [sweep_started(), *said])
    plan = plan_cleaning(board, url_of(board), runs=tmp_path, older_than=90 * DAYS)
    assert plan.messages == 1
    plan.carry_out(board)
    with board.session() as session:
        left = session.execute(text("SELECT text FROM driver_messages")).scalars().all()
    assert left == ["new"]
    assert plan_cleaning(board, url_of(board), runs=tmp_path, older_than=90 * DAYS).parts == []


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_leaderboards_that_were_replaced_go_by_age(board, tmp_path) -> None:
    file = sqlite_file(url_of(board))
    kept = file.with_name(f"{file.name}.before-20260101T000000.000000Z")
    kept.write_bytes(file.read_bytes())
    assert not plan_cleaning(board, url_of(board), runs=tmp_path, older_than=DAYS).parts
    plan = plan_cleaning(board, url_of(board), runs=tmp_path, older_than=-DAYS)
    assert plan.paths["replaced leaderboards"] == [kept]
    plan.carry_out(board)
    assert file.exists() and not kept.exists()


def test_files_go_by_their_last_use(tmp_path, short) -> None:
    read = ages(cache_folder("teachers") / "read.npy", days=100)
    unread = ages(cache_folder("teachers") / "unread.npy", days=100)
    copy = ages(cache_folder("copies") / "encoder" / "weights", days=100)
    recent = ages(cache_folder("copies") / "newer" / "weights", days=10)
    over = ages(short / "ray" / "session_2020-01-01_00-00-00_0_1" / "log", days=100)
    lives = ages(short / "ray" / "session_2020-01-01_00-00-00_0_2" / "log", days=1)
    ages(short / "ray" / "mine" / "log", days=100)
    os.utime(lives.parent, (0, 0))
    written_once(read, read=str, write=lambda stream: None)  # on a disk that notes no reading
    words = ["clean", "--runs", tmp_path / "runs"]
    invoke(cse_sweep, *words, "--dry-run")
    assert all(map(Path.exists, (unread, copy, over)))
    invoke(cse_sweep, *words)
    assert all(map(Path.exists, (read, recent, lives, short / "ray" / "mine")))
    assert not any(map(Path.exists, (unread, copy.parent, over.parent)))
    assert "nothing is older" in invoke(cse_sweep, *words).output


def test_the_job_of_an_unfinished_sweep_stays(board, tmp_path) -> None:
    needed, over = (ages(tmp_path / "submitted" / job / "order.json", days=0) for job in "ab")
    over.with_name("link").symlink_to(tmp_path / "gone")
    (tmp_path / "submitted" / "note.txt").touch()  # of a person
    submitted = {"job": "a", "folder": "/home/ada"}  # the folder is the submitter's
    began = sweep_started(provenance=submitted)
    apply_events(board, [began])
    time.sleep(0.05)
    plan = plan_cleaning(board, url_of(board), runs=tmp_path, older_than=0.01)
    assert plan.paths["submitted jobs"] == [over.parent]
    plan.carry_out(None)
    assert needed.exists() and not over.parent.exists()


def test_jobs_that_a_link_leads_to_are_not_removed(tmp_path) -> None:
    """As in a runs folder from elsewhere, whose link names a folder of ours."""
    thesis = ages(tmp_path / "home" / "thesis" / "chapter.tex", days=100)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "submitted").symlink_to(tmp_path / "home")
    time.sleep(0.05)
    words = ("clean", "--older-than", "0.01s", "--runs", tmp_path / "runs")
    assert "submitted is a link" in invoke(cse_sweep, *words, code=1).output and thesis.exists()
    (tmp_path / "link").symlink_to(tmp_path / "home")  # the user's own, to a runs folder
    (tmp_path / "home" / "submitted").mkdir()
    invoke(cse_sweep, *words[:-1], tmp_path / "link")
    assert thesis.exists()


def test_a_file_that_resists_is_named_and_the_others_go(tmp_path, monkeypatch) -> None:
    theirs, ours = (ages(cache_folder("teachers") / name, days=100) for name in ("a", "b"))
    remove = Path.unlink

    def refuse_theirs(path: Path, missing_ok: bool = False) -> None:
        if path == theirs:
            raise PermissionError(path)
        remove(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_theirs)
    result = invoke(cse_sweep, "clean", "--runs", tmp_path)
    assert theirs.exists() and not ours.exists()
    assert result.output.splitlines()[-2:] == ["removed, except:", f"  {theirs}"]


def test_the_rest_of_a_folder_goes_and_a_link_that_came_since_is_not_followed(
    tmp_path, monkeypatch
) -> None:
    stays, goes = (ages(cache_folder("copies") / "encoder" / name, days=100) for name in "ab")
    elsewhere = ages(tmp_path / "elsewhere" / "mine", days=100)
    ages(cache_folder("teachers") / "mine", days=100)
    plan = plan_cleaning(None, "", runs=tmp_path, older_than=90 * DAYS)
    cache_folder("teachers").rename(tmp_path / "away")
    cache_folder("teachers").symlink_to(elsewhere.parent)
    remove = os.unlink

    def refuse(path: str, **options: int) -> None:
        if Path(path).name == stays.name:
            raise PermissionError(path)
        remove(path, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    left = plan.carry_out(None)
    assert left == [cache_folder("teachers") / "mine", stays.parent]
    assert stays.exists() and elsewhere.exists() and not goes.exists()


def test_an_age_that_means_nothing_is_refused() -> None:
    for age in ("2w", "0d", "-1d", "36501d", f"{'9' * 400}d"):
        result = invoke(cse_sweep, "clean", "--older-than", age, code=2)
        assert "s, min, h or d" in result.output, age
