"""When a trial's checkpoints are written, by whom, and what of them is reported."""

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from ray import tune

from cse_platform.runner import checkpoints, reports
from cse_platform.runner.checkpoints import (
    TrialCheckpoints,
    request_checkpoints,
    withdraw_request,
)
from cse_platform.runner.reports import REPORT, Report, read_report

FILE = "state"


@dataclass
class Tune:
    """What a worker has of Ray Tune: a storage, and a report that persists a checkpoint there."""

    root: Path
    files: FileSystem = field(default_factory=LocalFileSystem)
    now: float = 0.0
    told: dict[int, tuple[int, str] | None] = field(default_factory=dict)
    """By reported step, the step of its checkpoint and what lies there."""
    index: int = -1
    Checkpoint: Any = tune.Checkpoint

    @property
    def trial(self) -> Path:
        return self.root / "trial"

    def seconds(self) -> float:
        return self.now

    def get_context(self) -> Any:
        return SimpleNamespace(get_storage=lambda: self)

    # Those of Ray's storage.
    @property
    def storage_filesystem(self) -> FileSystem:
        return self.files

    @property
    def experiment_fs_path(self) -> str:
        return "" if isinstance(self.files, SubTreeFileSystem) else str(self.root)

    @property
    def trial_fs_path(self) -> str:
        return str(self.trial)

    @property
    def current_checkpoint_index(self) -> int:
        return self.index

    def _make_checkpoint_dir_name(self, index: int) -> str:
        return f"checkpoint_{index:06d}"

    def report(self, result: dict[str, Any], *, checkpoint: Any = None) -> None:
        reported = read_report(result[REPORT])
        self.told[reported.step] = None
        if checkpoint is not None:
            self.index += 1
            place = self.trial / self._make_checkpoint_dir_name(self.index)
            place.mkdir(parents=True, exist_ok=True)
            for file in Path(checkpoint.path).iterdir():
                (place / file.name).write_text(f"copied {file.read_text()}")
            assert reported.checkpoint.folder == place.name
            self.told[reported.step] = reported.checkpoint.step, (place / FILE).read_text()

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


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tune]:
    fake = Tune(tmp_path)
    monkeypatch.setattr(checkpoints, "tune", fake)
    monkeypatch.setattr(reports, "tune", fake)
    yield fake


def report(own: TrialCheckpoints, step: int, save: Any) -> None:
    own.report(Report(attempt="attempt", step=step), step=step, save=save)


def run(
    ray: Tune, training: Training, *, every: float = 3, apart: float = 1, wait: bool = True
) -> None:
    """Train to the end, with a dev point a step; wait for what is written in between."""
    own = TrialCheckpoints(every, seconds=ray.seconds)
    report(own, 0, None)
    while training.step < training.steps:
        training.step, ray.now = training.step + 1, ray.now + apart
        report(own, training.step, training)
        if wait and own._written is not None:
            own._written.exception()
    own.close()


def test_checkpoints_come_by_time_from_copies_and_the_last_one_by_itself(ray) -> None:
    training = Training()
    run(ray, training)
    assert training.copies == [3, 6]
    assert ray.kept() == {4: (3, "3"), 7: (6, "6"), 9: (9, "9")}
    assert ray.left() == [f"checkpoint_00000{n}" for n in range(3)]  # nothing was copied


@pytest.mark.parametrize("every", [0, 3])
def test_where_dev_points_are_far_apart_each_has_its_own(ray, every) -> None:
    training = Training(steps=2)
    run(ray, training, every=every, apart=3 if every else 0.1)
    assert (training.copies, ray.told) == ([], {0: None, 1: (1, "1"), 2: (2, "2")})


def test_a_save_that_cannot_wait_is_written_at_each_dev_point(ray) -> None:
    own = TrialCheckpoints(60, seconds=ray.seconds)
    for step in (1, 2):
        text = str(step)
        report(own, step, lambda folder, text=text: (folder / FILE).write_text(text))
    own.close()
    assert ray.told == {1: (1, "1"), 2: (2, "2")}


def test_training_goes_on_while_a_copy_is_written(ray) -> None:
    go_on = threading.Event()
    training = Training(lambda: go_on.wait(10), steps=6)
    own = TrialCheckpoints(2, seconds=ray.seconds)
    for step in range(1, 6):
        training.step, ray.now = step, float(step)
        report(own, step, training)
    assert (training.copies, set(ray.told.values())) == ([2], {None})
    go_on.set()
    own.close()
    assert ray.left() == []  # nobody knows of it


def test_a_request_of_the_driver_is_heard_at_the_next_dev_point(ray) -> None:
    own = TrialCheckpoints(60, seconds=ray.seconds)
    training = Training()
    for step in (1, 2, 3):
        training.step = step
        if step == 2:
            request_checkpoints(str(ray.root))
        if step == 3:
            withdraw_request(str(ray.root))
        report(own, step, training)
    own.close()
    assert ray.told == {1: None, 2: (2, "2"), 3: None}


def test_a_full_disk_stops_no_training_and_the_next_dev_point_tries_again(ray) -> None:
    full = OSError(errno.ENOSPC, "full")
    training = Training(Mock(side_effect=[full, *[None] * 9]), steps=6)
    run(ray, training)
    assert training.copies == [3, 4]
    assert ray.kept() == {5: (4, "4"), 6: (6, "6")}
    with pytest.raises(PermissionError):
        run(ray, Training(Mock(side_effect=PermissionError("no"))))  # another fault ends the trial


def test_an_object_store_gets_copies_by_ray(ray) -> None:
    ray.files = SubTreeFileSystem(str(ray.root), LocalFileSystem())
    run(ray, Training(steps=4))
    assert ray.kept() == {4: (4, "copied 4")}
