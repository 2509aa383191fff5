"""A sweep while it runs: a live table on a terminal, a line a finished trial elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cse_platform.render.formats import percent, short_settings
from cse_platform.runner.state import SweepState
from cse_platform.tracking.history import TrialHistory

LOOK_SECONDS = 0.5
SHOWN_TRIALS = 12


@contextmanager
def watching(state: SweepState, console: Console) -> Iterator[None]:
    """Show the progress of a sweep from a thread of its own while the context is open."""
    view = SweepProgress(state)
    done = threading.Event()
    target = _live if console.is_terminal else _lines
    thread = threading.Thread(target=target, args=(view, console, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class SweepProgress:
    """The progress of a running sweep, as text; the driver's thread changes the state meanwhile."""

    def __init__(self, state: SweepState) -> None:
        self.state = state
        self.started = time.monotonic()
        self.done_before = self.fraction
        self._ended: set[tuple[str, datetime | None]] = set()
        for _ in self.new_ends():
            pass  # what ended before this start

    def new_ends(self) -> Iterator[TrialHistory]:
        """The trials that have ended since the last call; one that is tried again ends twice."""
        for trial in self.trials:
            end = (trial.key, trial.finished)
            if trial.state != "RUNNING" and end not in self._ended:
                self._ended.add(end)
                yield trial

    @property
    def trials(self) -> list[TrialHistory]:
        return list(self.state.history.trials.values())

    @property
    def planned(self) -> int:
        return max(self.state.spec.planned, len(self.trials))

    @property
    def fraction(self) -> float:
        """Share of the sweep's work that is done, in [0, 1]."""
        return sum(map(_done, self.trials)) / self.planned

    @property
    def best(self) -> TrialHistory | None:
        """The trial with the best dev score so far, finished or not."""
        scored = [trial for trial in self.trials if self.best_value(trial) is not None]
        return max(scored, key=lambda trial: self.best_value(trial) or 0.0, default=None)

    def best_value(self, trial: TrialHistory) -> float | None:
        """A trial's best dev score so far, a fraction."""
        found = trial.best(checkpoint=self.state.spec.dev.checkpoint)
        return trial.best_value if found is None else found[1]

    def summary(self) -> str:
        """One line: how far, the best so far, elapsed and remaining time."""
        elapsed = time.monotonic() - self.started
        gained = self.fraction - self.done_before
        left = elapsed / gained * (1 - self.fraction) if gained > 0 else None
        finished = sum(trial.state != "RUNNING" for trial in self.trials)
        parts = [f"{self.state.spec.sweep}: {finished} of {self.planned} trials"]
        if (best := self.best) is not None:
            parts.append(f"best {percent(self.best_value(best))} (trial {best.number})")
        parts.append(f"elapsed {_clock(elapsed)}")
        if left is not None:
            parts.append(f"about {_clock(left)} left")
        if self.state.scored is not None:
            done, chosen = self.state.scored
            parts.append(f"test sets: {done} of {chosen} trials scored")
        behind = [
            f"{sink.name} is {sink.behind} events behind ({sink.error})"
            for sink in self.state.recorder.health()
            if sink.error
        ]
        if self.state.search_error:
            behind.append(f"search store down ({self.state.search_error})")
        return " · ".join(parts + behind)

    def line(self, trial: TrialHistory) -> str:
        value = percent(self.best_value(trial))
        at = f" at step {trial.best_step}" if trial.best_step is not None else ""
        why = f": {trial.error}" if trial.error else ""
        if trial.reused_from is not None:
            same = "same code" if trial.code else "code unknown"
            why = f"  reused from {trial.reused_from} ({same})"
        return (
            f"trial {trial.number:>3} {trial.state:<8} dev {value:>6}{at}  seed {trial.seed}  "
            f"{short_settings(trial.searched_values)}{why}"
        )

    def table(self) -> Table:
        grid = Table(box=None, pad_edge=False)
        for name in ("trial", "state", "step", "dev", "best", "seed"):
            grid.add_column(name, justify="left" if name == "state" else "right")
        grid.add_column("settings", overflow="ellipsis", no_wrap=True, ratio=1)
        newest = sorted(self.trials, key=lambda t: (t.state != "RUNNING", -t.number))
        for trial in newest[:SHOWN_TRIALS]:
            last = trial.curve.get(trial.step)
            grid.add_row(
                str(trial.number),
                trial.state.lower(),
                str(trial.step),
                percent(last),
                percent(self.best_value(trial)),
                str(trial.seed),
                trial.error or short_settings(trial.searched_values),
            )
        return grid


def _live(view: SweepProgress, console: Console, done: threading.Event) -> None:
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        last = False
        while not last:
            last = done.wait(LOOK_SECONDS)
            for trial in view.new_ends():
                if trial.reused_from is not None:  # it never runs, so the table hardly shows it
                    live.console.print(view.line(trial), soft_wrap=True)
            live.update(Group(Text(view.summary()), view.table()))
    console.print(view.summary())


def _lines(view: SweepProgress, console: Console, done: threading.Event) -> None:
    if view.state.to_retry:
        console.print(f"trying {len(view.state.to_retry)} failed trials again")
    last = False
    while not last:
        last = done.wait(LOOK_SECONDS)
        for trial in view.new_ends():
            console.print(view.line(trial), soft_wrap=True)
    console.print(view.summary(), soft_wrap=True)


def _done(trial: TrialHistory) -> float:
    if trial.state != "RUNNING":
        return 1.0
    return trial.metrics.get(trial.step, {}).get("train/progress", 0.0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
