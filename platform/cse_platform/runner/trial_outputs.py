"""Write in the driver what the trials of a sweep print, as their reports deliver it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cse_platform.render.formats import HASH_DIGITS, utc
from cse_platform.runner.failures import clean_text
from cse_platform.runner.output_capture import OUTPUT, decode_output, read_both_ends
from cse_platform.runner.reports import Printed
from cse_platform.tracking.events import now
from cse_platform.tracking.history import TrialHistory
from cse_platform.tracking.output import OutputFile, output_file, read_output

_log = logging.getLogger(__name__)


@dataclass
class _Written:
    """What has been written of a trial's current process."""

    file: OutputFile
    head: str
    """The line that precedes it."""
    total: int = 0
    offset: int = 0


class TrialOutputs:
    """Writes the output files of a sweep's trials, with secrets masked and colours removed.

    If a file cannot be written, its output is lost, with one warning.

    Args:
        folder: the sweep's folder.
        checkpoints: the folder or URI where Ray has a folder for each process of a trial.
    """

    def __init__(self, folder: Path, checkpoints: str) -> None:
        self._folder, self._checkpoints = folder, checkpoints
        self._written: dict[str, _Written] = {}
        """By key of each trial that has a process."""
        self._failed = False

    def add(self, trial: TrialHistory, printed: Printed) -> None:
        """Write what a trial printed since its last report; a repeated report is written once."""
        with self._failure_noted(trial):
            written = self._open_file(trial)
            if printed.total > written.total:
                written.file.append(clean_text(printed.text))
                written.total, written.offset = printed.total, printed.offset

    def end(self, trial: TrialHistory, process: str) -> str:
        """Note that a trial, or its process, has ended. Returns what the process has printed.

        If the process was killed, its output file still exists; where this machine can read it, the
        output since the last report is written, too. `process` is the name of Ray's folder for it.
        """
        with self._failure_noted(trial):
            file = Path(self._checkpoints, process, OUTPUT)
            if "://" not in self._checkpoints and file.exists():
                self._write_rest(trial, file)
                file.unlink(missing_ok=True)
            if (written := self._written.pop(trial.key, None)) is not None:
                written.file.compress()
                whole = read_output(output_file(self._folder, trial.number))
                return whole.rpartition(written.head)[2]
        return ""

    def _write_rest(self, trial: TrialHistory, file: Path) -> None:
        known = self._written.get(trial.key)
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            start = known.offset if known is not None else 0
            content = read_both_ends(stream.fileno(), start, size) if size > start else b""
        if content:
            self._open_file(trial).file.append(clean_text(decode_output(content)))

    def _open_file(self, trial: TrialHistory) -> _Written:
        """Open the file of a trial; its first line for each process is a header."""
        if trial.key not in self._written:
            file = OutputFile(output_file(self._folder, trial.number))
            begun = f"trial {trial.key[:HASH_DIGITS]} from step {trial.resumed_from or 0}"
            head = f"=== {utc(now())}: {begun}\n"
            file.append(head)
            self._written[trial.key] = _Written(file, head)
        return self._written[trial.key]

    @contextmanager
    def _failure_noted(self, trial: TrialHistory) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._failed:
                self._failed = True
                _log.warning("what trial %d prints cannot be written: %s", trial.number, error)
