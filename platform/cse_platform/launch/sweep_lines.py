"""Make the log lines of a sweep: its messages, and its trials' ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cse_platform.leaderboard.records import Trial
from cse_platform.numbers import HASH_DIGITS, percent, short_settings
from cse_platform.presentation.sweeps import message_line
from cse_platform.tracking.events import DriverMessage
from cse_platform.tracking.history import TrialHistory

ShownTrial = Trial | TrialHistory
"""A trial as the leaderboard has it, or as its driver does."""


@dataclass(frozen=True)
class SweepLine:
    """One line of a sweep's log."""

    time: datetime
    text: str
    is_news: bool = True
    """Whether to print it even beside a table of the trials."""


class SweepLines:
    """Returns each line once, in chronological order."""

    def __init__(self, *, errors: Path | None) -> None:
        """`errors` is the folder with the tracebacks of failed trials."""
        self._errors = errors
        self._ended: set[tuple[str, datetime | None]] = set()
        self._said: set[tuple[datetime, str]] = set()

    def list_new(
        self, trials: Iterable[ShownTrial], messages: Iterable[DriverMessage]
    ) -> list[SweepLine]:
        """Return the lines since the last call, by time; a retried trial has one for each end."""
        lines: list[SweepLine] = []
        for message in messages:
            if (message.time, message.text) not in self._said:
                self._said.add((message.time, message.text))
                lines.append(SweepLine(message.time, message_line(message)))
        for trial in trials:
            end = (trial.key, trial.finished)
            if trial.state != "RUNNING" and end not in self._ended:
                self._ended.add(end)
                text = trial_line(trial, errors=self._errors)
                is_news = trial.state == "FAIL" or trial.reused_from is not None
                lines.append(SweepLine(trial.finished or trial.started, text, is_news))
        return sorted(lines, key=lambda line: line.time)


def trial_line(trial: ShownTrial, *, errors: Path | None) -> str:
    """Format a trial's outcome; for a failed trial, also where its traceback is."""
    dev_value = percent(trial.best_value)
    at = f" at step {trial.best_step}" if trial.best_step is not None else ""
    head = f"trial {trial.number:>3} {trial.state:<8} dev {dev_value:>6}{at}  seed {trial.seed}"
    outcome = f": {trial.why}" if trial.why else ""
    if trial.reused_from is not None:
        outcome = f"  reused from {trial.reused_from} (same code)"
    elif trial.error:
        file = None if errors is None else errors / f"trial-{trial.number}.txt"
        note = f", traceback {file}" if file is not None and file.exists() else ""
        outcome = f": {trial.error} (key {trial.key[:HASH_DIGITS]}{note})"
    line = f"{head}  {short_settings(trial.searched_values)}".rstrip()
    return f"{line}{outcome}"
