"""Writes in the driver what the trials of a sweep print, as it comes with their reports."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_platform.render.formats import HASH_DIGITS, utc
from cse_platform.runner.failures import clean_text
from cse_platform.runner.output_capture import OUTPUT, decode_output, read_both_ends
from cse_platform.tracking.events import now
from cse_platform.tracking.history import TrialHistory
from cse_platform.tracking.output import OutputFile, output_file

_log = logging.getLogger(__name__)


@dataclass
class _Written:
    """What is written of the present process of a trial."""

    file: OutputFile
    total: int = 0
    offset: int = 0


class TrialOutputs:
    """Writes the files of a sweep's trials, without secrets and colours.

    Where a file cannot be written, what it would hold is lost, with one warning.

    Args:
        folder: of the sweep.
        checkpoints: the folder or URI where Ray has a folder for each process of a trial.
    """

    def __init__(self, folder: Path, checkpoints: str) -> None:
        self._folder, self._checkpoints = folder, checkpoints
        self._written: dict[str, _Written] = {}
        """By the keys of the trials that have a process."""
        self._failed = False

    def add(self, trial: TrialHistory, printed: Mapping[str, Any]) -> None:
        """Write what a trial has printed since its last report, as `OutputCapture.take` has it.

        A report that comes twice is written once, and one that a method has made up is not.
        """
        total, offset = printed.get("total"), printed.get("offset")
        if not isinstance(total, int) or not isinstance(offset, int):
            return
        with self._failure_noted(trial):
            written = self._open_file(trial)
            if total > written.total:
                written.file.append(clean_text(str(printed.get("text"))))
                written.total, written.offset = total, max(offset, 0)

    def end(self, trial: TrialHistory, process: str) -> None:
        """Note that the process of a trial has ended, or its trial in it.

        What it has printed since its last report is written, too, if its file is still there and
        this machine sees it: the process was killed. `process` is the name of Ray's folder for it.
        """
        with self._failure_noted(trial):
            file = Path(self._checkpoints, process, OUTPUT)
            if "://" not in self._checkpoints and file.exists():
                self._write_rest(trial, file)
                file.unlink(missing_ok=True)
            if (written := self._written.pop(trial.key, None)) is not None:
                written.file.compress()

    def _write_rest(self, trial: TrialHistory, file: Path) -> None:
        known = self._written.get(trial.key)
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            start = known.offset if known is not None else 0
            content = read_both_ends(stream.fileno(), start, size) if size > start else b""
        if content:
            self._open_file(trial).file.append(clean_text(decode_output(content)))

    def _open_file(self, trial: TrialHistory) -> _Written:
        """Open the file of a trial; a line there says that a process begins with it."""
        if trial.key not in self._written:
            file = OutputFile(output_file(self._folder, trial.number))
            begun = f"trial {trial.key[:HASH_DIGITS]} from step {trial.resumed_from or 0}"
            file.append(f"=== {utc(now())}: {begun}\n")
            self._written[trial.key] = _Written(file)
        return self._written[trial.key]

    @contextmanager
    def _failure_noted(self, trial: TrialHistory) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._failed:
                self._failed = True
                _log.warning("what trial %d prints cannot be written: %s", trial.number, error)
