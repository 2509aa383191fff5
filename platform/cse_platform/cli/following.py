"""`cse-sweep logs`: print a sweep's progress from the leaderboard."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from cse_platform.cli.common import StoreOptions
from cse_platform.errors import StoreDownError
from cse_platform.export.journal_files import find_output
from cse_platform.launch.outcome import explain_no_result, outcome_lines, state_line
from cse_platform.launch.progress import BestScores, SweepView, print_texts, show_live
from cse_platform.launch.sweep_lines import SweepLine, SweepLines
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.numbers import clock, stopwatch
from cse_platform.presentation.terminal import Terminal
from cse_platform.signals import exit_code, interrupt_on_sigterm
from cse_platform.standard_streams import echo
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.sweep.stores import errors_folder
from cse_platform.tracking.events import DriverMessage
from cse_platform.tracking.output import read_output

_TICK_SECONDS = 1.0
_KNOWN_AGAIN = 1000
"""The number of last characters shown by which their position in a changed text is found."""
_OVERLAP = timedelta(minutes=1)
"""How far messages of the driver's threads may be stored out of order."""


def print_logs(stores: StoreOptions, sweep: str) -> None:
    """Print everything that a sweep's drivers have said since its first start, then its outcome."""
    with open_for_reading(stores.url) as board:
        followed = FollowedSweep(board, sweep)
        for line in followed.new_lines():
            echo(line.text)
        overview = followed.overview
        echo(state_line(sweep, overview.state.lower(), overview.counts))
        reader, options = Leaderboard(board), stores.options
        for text in outcome_lines(reader, sweep, runs=stores.folder, options=options):
            echo(text)


def print_output(url: str, trial: str, *, runs: Path, follow: bool) -> None:
    """Print what a trial has printed; with `follow`, until the trial or its sweep ends.

    `runs` is a runs folder that may contain the sweep. Raises NotFoundError if the output is
    somewhere else.
    """
    interrupt_on_sigterm()
    with open_leaderboard(url) as board:
        details, shown, is_running = board.trial(trial), "", follow
        while True:
            file = find_output(details, runs)
            text = "" if file is None else read_output(file)
            if text.startswith(shown):
                new = text[len(shown) :]
            else:  # its middle was cut since
                last = shown[-_KNOWN_AGAIN:]
                new = text.rpartition(last)[2] if last in text else text
            echo(new, nl=False)
            shown = text
            if not (is_running and details.state == "RUNNING"):
                break
            time.sleep(_TICK_SECONDS)
            with suppress(StoreDownError):
                details = board.trial(trial)
                is_running = any(
                    board.sweep(each.sweep).state == "RUNNING" for each in details.sweeps
                )
    if not shown:
        yet = " yet" if details.state == "RUNNING" else ""
        why = f"; it failed with {details.error}" if details.error else ""
        echo(f"trial {trial} has no output{yet}{why}", err=True)


def follow(url: str, sweep: str) -> int:
    """Show the progress of a sweep until it ends. Returns the exit code of its command.

    A Ctrl-C or SIGTERM ends only the display.
    """
    interrupt_on_sigterm()
    console = Terminal(markup=False, highlight=False)
    with open_for_reading(url) as board:
        followed = FollowedSweep(board, sweep)
        followed.new_lines()  # skip earlier lines, which `logs` without `--follow` shows
        try:
            ticks = _iter_ticks(followed)
            if console.is_interactive:
                show_live(followed, console, ticks)
            elif followed.overview.state == "RUNNING":  # else its summary below is all there is
                console.print(followed.summary(), soft_wrap=True)
                print_texts(lambda: [line.text for line in followed.new_lines()], console, ticks)
        except KeyboardInterrupt:
            echo(f"sweep {sweep!r} is still running; end it with cse-sweep stop {sweep}", err=True)
            return exit_code()
    console.print(followed.summary(), soft_wrap=True)
    overview = followed.overview
    if overview.state == "COMPLETE":
        return 0
    if overview.state == "FAILED":
        echo(f"Error: {explain_no_result(sweep, list(followed.trials.values()))}", err=True)
        return 1
    messages = [message for message in followed.messages if message.time >= overview.restarted]
    if any(message.level == "error" for message in messages):
        return 1
    echo(f"sweep {sweep!r} was interrupted; run its command again to continue", err=True)
    return exit_code()


def _iter_ticks(followed: "FollowedSweep") -> Iterator[None]:
    """Yield once a second, until the sweep has ended."""
    while followed.overview.state == "RUNNING":
        yield
        if followed.overview.state == "RUNNING":
            time.sleep(_TICK_SECONDS)


class FollowedSweep(SweepView):
    """A sweep in another process, as last read from the leaderboard."""

    def __init__(self, board: Store, name: str) -> None:
        self._board, self._name = Leaderboard(board), name
        self.trials: dict[int, Trial] = {}
        self._newest: datetime | None = None
        self._lines: SweepLines | None = None
        self._down = ""
        self.overview: SweepOverview
        self.messages: list[DriverMessage]
        """The messages that were read last."""

    def new_lines(self) -> list[SweepLine]:
        """Fetch new lines; none while the leaderboard is down, which must have answered once."""
        since = None if self._newest is None else self._newest - _OVERLAP
        try:
            with self._board.sharing():
                overview = self._board.sweep(self._name)
                trials = self._board.running_and_ended(self._name, since=since)
                self.messages = self._board.messages(self._name, since=since)
        except StoreDownError as error:
            if self._lines is None:
                raise
            self._down = str(error)
            return []
        self.overview, self._down = overview, ""
        self.trials |= {trial.number: trial for trial in trials}
        if self._lines is None:
            errors = (
                None if overview.holder is None else errors_folder(Path(overview.holder.folder))
            )
            self._lines = SweepLines(errors=errors)
        lines = self._lines.list_new(trials, self.messages)
        times = [line.time for line in lines] + ([self._newest] if self._newest else [])
        self._newest = max(times, default=None)
        return lines

    def describe_state(self) -> tuple[str, int | None, list[str]]:
        sweep = self.overview
        facts = [f"elapsed {stopwatch(sweep.elapsed)}"]
        if sweep.left is not None:
            facts.append(f"about {clock(sweep.left)} left")
        if sweep.scoring:
            facts.append("scoring on test sets")
        if self._down:
            facts.append(f"the leaderboard is down ({self._down})")
        return sweep.name, sweep.planned, facts

    def read_trials(self) -> tuple[Sequence[Trial], BestScores]:
        trials = [self.trials[number] for number in sorted(self.trials)]
        return trials, {trial.key: trial.best_value for trial in trials}
