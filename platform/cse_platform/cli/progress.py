"""A sweep while it runs: a live table on a terminal, a line a finished trial elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cse_platform.cli.live_table import INFEASIBLE, STALLED, screen
from cse_platform.forecast.time_left import TimeInterval, span, time_left
from cse_platform.render.formats import HASH_DIGITS, percent, short_settings
from cse_platform.runner.planning.budgets import trials_left
from cse_platform.runner.state import SweepState
from cse_platform.sweep.objectives import is_feasible
from cse_platform.tracking.events import now
from cse_platform.tracking.trial_history import TrialHistory

LOOK_SECONDS = 0.5
LEAST_LEFT = 0.05
"""Share of a trial that is taken to be left of one that runs longer than the others did."""


@contextmanager
def watching(state: SweepState, console: Console, *, errors: Path) -> Iterator[None]:
    """Show the progress of a sweep from a thread of its own while the context is open.

    `errors` is the folder with the tracebacks of failed trials.
    """
    view = SweepProgress(state, errors=errors)
    done = threading.Event()
    if state.to_retry:
        console.print(f"trying {len(state.to_retry)} failed trials again")
    for line in state.notes:
        console.print(line, soft_wrap=True)
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

    def __init__(self, state: SweepState, *, errors: Path) -> None:
        self.state, self.errors = state, errors
        self.started = time.monotonic()
        self._known_before, self._ray_is_up = len(self.trials), False
        self._said_throughput = False
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
    def planned(self) -> int | None:
        """How many trials there will be, as far as that is known."""
        known = self.state.planned
        return None if known is None else max(known, len(self.trials))

    @property
    def best(self) -> TrialHistory | None:
        """The trial with the best dev score so far, finished or not; none that is infeasible."""
        scored = [
            trial
            for trial in self.trials
            if self.best_value(trial) is not None and not self._breaks_constraint(trial)
        ]
        return max(scored, key=lambda trial: self.best_value(trial) or 0.0, default=None)

    def best_value(self, trial: TrialHistory) -> float | None:
        """A trial's best dev score so far, a fraction."""
        found = trial.best(checkpoint=self.state.spec.dev.checkpoint)
        return trial.best_value if found is None else found.value

    def _breaks_constraint(self, trial: TrialHistory) -> bool:
        """What a trial measures is known at its end."""
        ended = trial.state in ("COMPLETE", "PRUNED")
        return ended and not is_feasible(self.state.spec.search.constraints, [trial])

    def summary(self) -> str:
        """One line: how far, the best so far, elapsed and remaining time."""
        finished = sum(trial.state != "RUNNING" for trial in self.trials)
        of = "" if self.planned is None else f"of {self.planned} "
        parts = [f"{self.state.spec.sweep}: {finished} {of}trials"]
        if (best := self.best) is not None:
            parts.append(f"best {percent(self.best_value(best))} (trial {best.number})")
        if not self.is_ray_up():
            measuring = ", measuring trials at once" * self.state.spec.resources.measured
            parts.append(f"starting Ray{measuring}")
        parts.append(f"elapsed {_clock(time.monotonic() - self.started)}")
        if (left := self.time_left()) is not None:
            parts.append(f"{span(left)} left")
        if self.state.history.paused:
            parts.append(f"paused: cse-sweep resume {self.state.spec.sweep}")
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

    def is_ray_up(self) -> bool:
        """Whether a trial has been started, or none is needed."""
        state = self.state
        more = len(state.history.trials) > self._known_before
        self._ray_is_up |= bool(state.live) or more or state.finished
        return self._ray_is_up

    def time_left(self) -> TimeInterval | None:
        """How long the trials still take; None while nothing says so, or nothing is left."""
        trials, running = self.trials, [t for t in self.trials if t.key in self.state.live]
        done = [t.busy_seconds for t in trials if t.state in ("COMPLETE", "PRUNED")]
        durations = [seconds for seconds in done if seconds > 0]  # what is reused took none
        projected = [t.busy_seconds / share for t in running if (share := _progress(t)) > 0]
        if not (known := durations or projected):
            return None
        mean = sum(known) / len(known)
        parts = (max(1 - trial.busy_until(now()) / mean, LEAST_LEFT) for trial in running)
        waiting = len(self.state.left_over) + len(self.state.to_retry)
        at_once = max(len(running), 1)
        search = trials_left(self.state, seconds=mean, at_once=at_once)
        if search is None:
            return None
        left = search + self._further_left() + waiting + sum(parts)
        if left <= 0:
            return None
        return time_left(known, trials=left, at_once=at_once, finished=bool(durations))

    def _further_left(self) -> int:
        further = sum(trial.role == "confirm" for trial in self.trials)
        return 0 if self.state.finished else max(self.state.spec.confirming - further, 0)

    def line(self, trial: TrialHistory) -> str:
        """What became of a trial; of a failed one also where to look."""
        value = percent(self.best_value(trial))
        at = f" at step {trial.best_step}" if trial.best_step is not None else ""
        head = f"trial {trial.number:>3} {trial.state:<8} dev {value:>6}{at}  seed {trial.seed}"
        infeasible = "  infeasible" * self._breaks_constraint(trial)
        return f"{head}  {short_settings(trial.searched_values)}{infeasible}{self._why(trial)}"

    def _why(self, trial: TrialHistory) -> str:
        if trial.reused_from is not None:
            same = "same code" if trial.code else "code unknown"
            return f"  reused from {trial.reused_from} ({same})"
        if not trial.error:
            return f": {trial.why}" if trial.why else ""
        traceback = self.errors / f"trial-{trial.number}.txt"
        where = f", traceback {traceback}" if traceback.exists() else ""
        return f": {trial.error} (key {trial.key[:HASH_DIGITS]}{where})"

    def new_lines(self) -> Iterator[str]:
        """What has to be said of trials that share a device, once that was measured."""
        if (found := self.state.throughput) and not self._said_throughput:
            self._said_throughput = True
            speeds = ", ".join(f"{one.sentences_per_second:,.0f} by {one.trials}" for one in found)
            slot = self.state.slot
            gpu = f", gpu: {slot.gpu:g}" if slot.gpu else ""
            yield f"sentences a second: {speeds} at once; resources: cpu: {slot.cpu:g}{gpu}"

    def screen(self, *, width: int, height: int) -> Text:
        """All that fits on a terminal: the summary, the trials, and the best ones in full."""
        broken = (trial.key for trial in self.trials if self._breaks_constraint(trial))
        return screen(
            self.trials,
            self.summary(),
            self.best_value,
            marks=dict.fromkeys(self.state.stalled, STALLED) | dict.fromkeys(broken, INFEASIBLE),
            width=width,
            height=height,
        )


def _live(view: SweepProgress, console: Console, done: threading.Event) -> None:
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        last = False
        while not last:
            last = done.wait(LOOK_SECONDS)
            for line in view.new_lines():
                console.print(line, soft_wrap=True)
            for trial in view.new_ends():
                if trial.state == "FAIL" or trial.reused_from is not None:
                    console.print(view.line(trial), soft_wrap=True)
            live.update(view.screen(width=console.width, height=console.height))
    _print_end(view, console)


def _lines(view: SweepProgress, console: Console, done: threading.Event) -> None:
    last = False
    while not last:
        last = done.wait(LOOK_SECONDS)
        for line in view.new_lines():
            console.print(line, soft_wrap=True)
        for trial in view.new_ends():
            console.print(view.line(trial), soft_wrap=True)
    _print_end(view, console)


def _print_end(view: SweepProgress, console: Console) -> None:
    if view.is_ray_up():  # a refusal before has a message of its own
        console.print(view.summary(), soft_wrap=True)


def _progress(trial: TrialHistory) -> float:
    return trial.last_metrics.get("train/progress", 0.0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
