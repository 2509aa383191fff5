"""A search store that is down, hangs, or comes back as another one, while a sweep runs."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from in_process import NewDrive, NewSpec

from cse_platform.errors import StoreLostError


def test_a_store_that_is_down_stops_new_trials_and_is_made_up_for(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """The running trial ends meanwhile, and the sweep does not before the store is back."""
    drive = new_drive(tmp_path, new_spec(search={"trials": 2}), capacity=2)
    drive.start()
    away = tmp_path / "away.db"
    drive.state.search.study._storage._backend.engine.dispose()
    with sqlite3.connect(tmp_path / "search.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.move(tmp_path / "search.db", away)
    (tmp_path / "search.db").mkdir()
    drive.run_until_idle()
    assert [t.state for t in drive.history.trials.values()] == ["COMPLETE", "COMPLETE"]
    assert not drive.state.finished
    assert "unable to open database file" in drive.state.search_error
    assert sum("no new trials until it is back" in text for text in caplog.messages) == 1
    (tmp_path / "search.db").rmdir()
    shutil.move(away, tmp_path / "search.db")
    drive.run()
    assert drive.state.search_error is None
    assert "the search store is back" in caplog.messages
    drive.assert_sound()


@pytest.mark.slow
def test_a_store_that_hangs_is_left_alone_for_a_while(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Trials go on reporting; the driver does not wait for the store at each report."""
    file = tmp_path / "search.db"
    drive = new_drive(tmp_path, new_spec(), search=f"sqlite:///{file}?timeout=1.2")
    (plan,) = drive.start()
    with closing(sqlite3.connect(file)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        drive.advance(plan.key)
        drive.advance(plan.key)
    assert "locked" in drive.state.search_error
    assert sorted(drive.history.trials[plan.key].curve) == [0, 2]
    drive.advance(plan.key)
    assert drive.state.search_error is not None  # it would answer by now
    time.sleep(drive.state.search_rests - time.monotonic())
    drive.run()
    assert drive.state.search_error is None
    drive.assert_sound()


@pytest.mark.slow
def test_a_search_store_that_comes_back_without_a_trial_is_filled_by_the_next_start(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """It was down and an old copy was put in its place: waiting would last for ever."""
    drive = new_drive(tmp_path, new_spec(), capacity=1)
    [plan] = drive.start()
    drive.report(plan.key, 0)
    with closing(sqlite3.connect(tmp_path / "search.db")) as store, store:
        for table in ("trial_params", "trial_intermediate_values", "trials"):
            store.execute(f"DELETE FROM {table}")
    drive.state.search_error = "it is down"
    with pytest.raises(StoreLostError, match=r"lost .*trial.* of sweep .small.*fills the store"):
        drive.run_until_idle()
    drive.close()
    again = new_drive(tmp_path, drive.spec, capacity=1)
    again.run()
    again.assert_sound()
