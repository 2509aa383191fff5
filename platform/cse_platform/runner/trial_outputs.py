"""Write in the driver what the trials of a sweep print, as their reports deliver it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_platform.numbers import HASH_DIGITS, utc
from cse_platform.runner.failures import clean_text
from cse_platform.runner.output_capture import OUTPUT, decode_output, read_both_ends
from cse_platform.runner.report_messages import Printed
from cse_platform.runner.state import LiveTrial
from cse_platform.tracking.events import now
from cse_platform.tracking.output import OutputFile, output_file, read_output

_log = logging.getLogger(__name__)


class TrialOutputs:
    """Writes the output files of a sweep's trials, with secrets masked and colours removed.

    If a file cannot be written, its output is lost, with one warning.

    Args:
        folder: the sweep's folder.
        checkpoints: the folder or URI where Ray has a folder for each process of a trial.
    """

    def __init__(self, folder: Path, checkpoints: str) -> None:
        self._folder, self._checkpoints = folder, checkpoints
        self._failed = False

    def add(self, live: LiveTrial, printed: Printed) -> None:
        """Write what a trial printed since its last report; a repeated report is written once."""
        with self._failure_noted(live):
            output = self._open_file(live)
            if printed.total > output.total:
                output.append(clean_text(printed.text))
                output.total, output.offset = printed.total, printed.offset

    def end_process(self, live: LiveTrial, process: str) -> str:
        """Note that a trial, or its process, has ended. Returns what the process has printed.

        If the process was killed, its output file still exists; where this machine can read it, the
        output since the last report is written, too. `process` is the name of Ray's folder for it.
        """
        with self._failure_noted(live):
            file = Path(self._checkpoints, process, OUTPUT)
            if "://" not in self._checkpoints and file.exists():
                start = 0 if live.output is None else live.output.offset
                with file.open("rb") as stream:
                    size = os.fstat(stream.fileno()).st_size
                    tail = read_both_ends(stream.fileno(), start, size) if size > start else b""
                if tail:
                    self._open_file(live).append(clean_text(decode_output(tail)))
                file.unlink(missing_ok=True)
            output, live.output = live.output, None
            if output is not None:
                output.compress()
                printed = read_output(output_file(self._folder, live.trial.number))
                return printed.rpartition(output.head)[2]
        return ""

    def _open_file(self, live: LiveTrial) -> OutputFile:
        """Open the file of a trial; its first line for each process is a header."""
        if live.output is None:
            trial = live.trial
            output = OutputFile(output_file(self._folder, trial.number))
            described = f"trial {trial.key[:HASH_DIGITS]} from step {trial.resumed_from or 0}"
            output.head = f"=== {utc(now())}: {described}\n"
            output.append(output.head)
            live.output = output
        return live.output

    @contextmanager
    def _failure_noted(self, live: LiveTrial) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._failed:
                self._failed = True
                number = live.trial.number
                _log.warning("the output of trial %d cannot be written: %s", number, error)
