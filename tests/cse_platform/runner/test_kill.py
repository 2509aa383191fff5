"""A driver killed between any two of its writes, and started again: as if nothing had been."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive

from cse_platform.tracking.events import Event, TrialFinished


class Witness:
    """Copies the journal after each write, as a kill would leave it."""

    def __init__(self, drive: Any, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.drive, self.folder = drive, folder
        self.ends_of_trials: list[int] = []
        self.count = 0
        record = drive.recorder.record

        def record_and_copy(event: Event) -> Event:
            written = record(event)
            target = self.folder / str(self.count)
            target.mkdir(parents=True)
            shutil.copy(self.drive.folder / "journal.jsonl", target)
            self.count += 1
            if isinstance(event, TrialFinished):
                self.ends_of_trials.append(self.count)
            return written

        patch.setattr(drive.recorder, "record", record_and_copy)


def check_each_kill(
    start: NewDrive, patch: pytest.MonkeyPatch, *, all_of_it: bool, **changes: Any
) -> None:
    """Go on from each copy, or from every other of one trial's life; the end is the same."""
    with patch.context() as watching:
        drive = start(**changes, folder="undisturbed")
        killed = drive.folder.parent / "killed"
        witness = Witness(drive, killed, watching)
        drive.run().close()
    expected = drive.outcome()
    first, second, *_ = witness.ends_of_trials
    life = range(first, second + 1)
    assert len(life) > 4
    for kill in range(witness.count) if all_of_it else life[::2]:
        again = start(**changes, folder=killed / str(kill)).run().assert_sound().close()
        assert again.outcome() == expected, kill


REPEATING: dict[str, Any] = {
    "space": {"kind": ["a", "b"]}, "search": {"trials": 4},
    "seeds": {"confirm": {"top": 1, "seeds": [0]}},
}  # fmt: skip


def test_killed_anywhere_in_the_life_of_a_trial(start, monkeypatch) -> None:
    check_each_kill(start, monkeypatch, all_of_it=False, search={"trials": 2})


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"search": {"trials": 4}}, REPEATING])
def test_killed_anywhere(start, monkeypatch, changes) -> None:
    check_each_kill(start, monkeypatch, all_of_it=True, **changes)
