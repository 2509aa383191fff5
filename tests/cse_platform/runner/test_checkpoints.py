import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from cse_platform import kept_models
from cse_platform.runner import checkpoints, report_messages
from cse_platform.runner.checkpoints import TrialCheckpoints, request_checkpoints, withdraw_request
from cse_platform.runner.report_messages import REPORT, Report, read_report

FILE = "state"


@dataclass
class Sweep:
    """The storage of a sweep, and what its driver hears."""

    root: Path
    storage: str
    now: float = 0.0
    told: dict[int, tuple[int, str] | None] = field(default_factory=dict)
    """By reported step, the step of its checkpoint and what lies there."""

    @property
    def trial(self) -> Path:
        return self.root / "attempt"

    def seconds(self) -> float:
        return self.now

    def checkpoints(self, every: float) -> TrialCheckpoints:
        return TrialCheckpoints(every, root=self.storage, seconds=self.seconds)

    def report(self, result: dict[str, Any], *, checkpoint: Any = None) -> None:
        reported = read_report(result[REPORT])
        assert checkpoint is None  # of which Ray would make copies
        made = reported.checkpoint_step
        self.told[reported.step] = (
            None if made is None else (made, (self.trial / f"checkpoint_{made}" / FILE).read_text())
        )

    def kept(self) -> dict[int, tuple[int, str]]:
        return {step: told for step, told in self.told.items() if told}

    def left(self) -> list[str]:
        return sorted(place.name for place in self.trial.glob("*"))


class Training:
    """A trial whose state is the last step that it has done."""

    def __init__(self, written: Callable[[], None] = lambda: None, *, steps: int = 9) -> None:
        self.step, self.steps, self._written = 0, steps, written
        self.copies: list[int] = []

    @property
    def last(self) -> bool:
        return self.step == self.steps

    def __call__(self, folder: Path) -> None:
        (folder / FILE).write_text(str(self.step))

    def copied(self) -> Callable[[Path], None]:
        step = self.step
        self.copies.append(step)

        def write(folder: Path) -> None:
            self._written()
            (folder / FILE).write_text(str(step))

        return write


@pytest.fixture(params=["a folder", "an object store"])
def sweep(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """One whose checkpoints are moved into a folder, and one that copies them into a store."""
    fake = Sweep(tmp_path, str(tmp_path))
    if request.param == "an object store":
        fake.storage = f"store://{tmp_path}"
        store = SubTreeFileSystem("/", LocalFileSystem())
        for module in (checkpoints, kept_models):
            monkeypatch.setattr(
                module, "filesystem", lambda place: (store, place.partition("://")[2])
            )
    monkeypatch.setattr(checkpoints, "find_attempt", lambda: "attempt")
    monkeypatch.setattr(report_messages, "tune", fake)
    return fake


def report(own: TrialCheckpoints, step: int, save: Any) -> None:
    own.report_point(Report(attempt="attempt", step=step), step=step, save=save)


def run(
    sweep: Sweep, training: Training, *, every: float = 3, apart: float = 1, wait: bool = True
) -> None:
    """Train to the end, with a dev point a step; wait for what is written in between."""
    own = sweep.checkpoints(every)
    report(own, 0, None)
    while training.step < training.steps:
        training.step, sweep.now = training.step + 1, sweep.now + apart
        report(own, training.step, training)
        if wait and own._copy is not None:
            own._copy[1].exception()
    own.close()


def test_checkpoints_come_by_time_from_copies_and_the_last_one_by_itself(sweep) -> None:
    training = Training()
    run(sweep, training)
    assert training.copies == [3, 6]
    assert sweep.kept() == {4: (3, "3"), 7: (6, "6"), 9: (9, "9")}
    assert sweep.left() == ["checkpoint_3", "checkpoint_6", "checkpoint_9"]


@pytest.mark.parametrize("every", [0, 3])
def test_where_dev_points_are_far_apart_each_has_its_own(sweep, every) -> None:
    training = Training(steps=2)
    run(sweep, training, every=every, apart=3 if every else 0.1)
    assert (training.copies, sweep.told) == ([], {0: None, 1: (1, "1"), 2: (2, "2")})


def test_a_save_that_cannot_wait_is_written_at_each_dev_point(sweep) -> None:
    own = sweep.checkpoints(60)
    for step in (1, 2):
        text = str(step)
        report(own, step, lambda folder, text=text: (folder / FILE).write_text(text))
    own.close()
    assert sweep.told == {1: (1, "1"), 2: (2, "2")}


def test_training_goes_on_while_a_copy_is_written(sweep) -> None:
    go_on = threading.Event()
    training = Training(lambda: go_on.wait(10), steps=6)
    own = sweep.checkpoints(2)
    for step in range(1, 6):
        training.step, sweep.now = step, float(step)
        report(own, step, training)
    assert (training.copies, set(sweep.told.values())) == ([2], {None})
    go_on.set()
    own.close()
    assert sweep.left() == []  # nobody knows of it


def test_a_request_of_the_driver_is_heard_at_the_next_dev_point(sweep) -> None:
    own = sweep.checkpoints(60)
    training = Training()
    for step in (1, 2, 3):
        training.step = step
        if step == 2:
            request_checkpoints(sweep.storage)
        if step == 3:
            withdraw_request(sweep.storage)
        report(own, step, training)
    own.close()
    assert sweep.told == {1: None, 2: (2, "2"), 3: None}


def test_a_full_disk_stops_no_training_and_the_next_dev_point_tries_again(sweep) -> None:
    full = OSError(errno.ENOSPC, "full")
    training = Training(Mock(side_effect=[full, *[None] * 9]), steps=6)
    run(sweep, training)
    assert training.copies == [3, 4]
    assert sweep.kept() == {5: (4, "4"), 6: (6, "6")}
    with pytest.raises(PermissionError):
        run(sweep, Training(Mock(side_effect=PermissionError("no"))))
