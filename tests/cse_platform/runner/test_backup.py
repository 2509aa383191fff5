"""Backups of stores that are written to: restored, they agree with the journals, or come to."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from cse_platform.errors import BackupError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.tables import SweepLeaseRecord
from cse_platform.sweep.stores import sweep_folder
from cse_platform.tracking.events import TrialPoint
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder
from cse_platform.upkeep import backup
from cse_platform.upkeep.backup import Places, back_up, restore
from cse_platform.upkeep.catch_up import catch_up


def places_in(runs: Path) -> Places:
    urls = {name: f"sqlite:///{runs / name}.db" for name in ("leaderboard", "search", "mlflow")}
    return Places(runs, urls)  # type: ignore[arg-type]


def test_a_restored_sweep_goes_on_as_if_nothing_had_been(start, tmp_path) -> None:
    """It was backed up in the midst of a trial, and went on to its end."""

    def drive_in(runs: Path) -> Any:
        return start(folder=sweep_folder(runs, "small"), leaderboard=runs)

    runs, kept, other = (tmp_path / name for name in ("runs", "backup", "other"))
    runs.mkdir()
    cut = drive_in(runs)
    for _ in range(5):
        cut.start()
        for key in list(cut.running):
            cut.advance(key)
    back_up(places_in(runs), kept)
    cut.run().close()
    restore(kept, places_in(other))
    with pytest.raises(BackupError, match=r"overwrite .*leaderboard\.db"):
        restore(kept, places_in(runs))
    began = (sweep_folder(other, "small") / "journal.jsonl").read_bytes()
    assert cut.folder.joinpath("journal.jsonl").read_bytes().startswith(began)
    url = f"sqlite:///{other / 'leaderboard.db'}"
    assert catch_up(url, other) == []
    with open_store(url) as board, board.writing() as session:  # this process lives, with its lease
        session.execute(update(SweepLeaseRecord).values(heartbeat=datetime(2020, 1, 1, tzinfo=UTC)))
    again = drive_in(other)
    assert 0 < len(again.trials) < 3
    assert again.run().outcome() == cut.outcome()
    told, expected = (
        {trial.number: trial.intermediate_values for trial in drive.state.search.study.trials}
        for drive in (again, cut)
    )
    assert told == expected


@pytest.mark.slow
def test_no_store_is_ahead_of_its_journal_while_a_driver_writes(
    tmp_path, empty_leaderboard, trial_life, sweep_started, monkeypatch
) -> None:
    """Before each part is copied, something happens, and the leaderboard hears of it."""
    runs, other, steps = tmp_path / "busy", tmp_path / "other", count()
    runs.mkdir()
    url, target = (
        empty_leaderboard(runs / "leaderboard.db"),
        f"sqlite:///{other / 'leaderboard.db'}",
    )
    path, copy = (sweep_folder(folder, "first") / "journal.jsonl" for folder in (runs, other))
    board = open_store(url)
    recorder = Recorder(Journal(path), [LeaderboardSink(board)])
    for event in (sweep_started(), *trial_life(0, {}, state=None)):
        recorder.record(event)

    def after_news(copied: Callable[..., Any]) -> Callable[..., Any]:
        def call(*asked: Any) -> Any:
            point = {"sweep": "first", "trial": "c0-42", "value": 0.5, "metrics": {}}
            recorder.record(TrialPoint(step=next(steps), **point))
            assert not recorder.flush(10)[0].behind
            return copied(*asked)

        return call

    for name in ("_copy_store", "_copy_files"):
        monkeypatch.setattr(backup, name, after_news(getattr(backup, name)))
    back_up(places_in(runs), tmp_path / "backup")
    recorder.close(10)
    board.close()
    restore(tmp_path / "backup", places_in(other))
    assert copy.read_bytes() == path.read_bytes()
    for behind in (3, 0):
        with open_store(target) as restored, Journal(copy) as journal:
            assert journal.count_after(LeaderboardSink(restored).position(journal.id)) == behind
        assert catch_up(target, other) == []
