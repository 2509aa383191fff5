"""Show a running sweep: a live table on a terminal, otherwise one line per finished trial."""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len
from rich.live import Live
from rich.text import Text

from cse_platform.cli.sweep_lines import (
    ShownTrial,
    SweepLine,
    SweepLines,
    breaks_constraint,
    summary_line,
)
from cse_platform.cli.time_left import TimeInterval, span, time_left
from cse_platform.render.table import (
    Silence,
    Terminal,
    format_count,
    percent,
    short_settings,
    stopwatch,
)
from cse_platform.runner.state import SweepState
from cse_platform.search.budgets import trials_left
from cse_platform.tracking.events import now
from cse_platform.tracking.history import TrialHistory

SHOWN_TRIALS = 12
LEAST_TRIALS = 3
"""The fewest trials that are shown, however low the terminal is."""
SHOWN_CONFIRMED = 3

_HEADS = ("trial", "state", "step", "dev", "best", "seed", "settings")
_LEAST = (5, 8, 5, 5, 5, 4, 0)
"""The minimum widths of the columns, which keep them from jumping; wider cells widen a column."""
_GAP = "  "
_wrapped = partial(wrap, break_on_hyphens=False)  # keeps 1e-05 on one line

Best = Mapping[str, float | None]
"""The best dev score so far of each trial, by key."""


class SweepView(ABC):
    """A sweep as text for people who follow it, in its driver or through the leaderboard."""

    constraints: Sequence[str]
    stalled: Collection[str] = ()
    """Keys of the trials that have been silent for long."""

    @abstractmethod
    def new_lines(self) -> list[SweepLine]:
        """Return the lines since the last call in chronological order."""

    @abstractmethod
    def summary(self) -> str:
        """Summarise the sweep in one line: trials, the best so far, elapsed and remaining time."""

    @abstractmethod
    def read_trials(self) -> tuple[Sequence[ShownTrial], Best]:
        """Return the trials by number, and the best dev score so far of each."""

    def screen(self, *, width: int, height: int) -> Text:
        """Render the summary, the newest trials, and the best and confirmed ones, as they fit."""
        trials, best = self.read_trials()
        broken = {trial.key for trial in trials if breaks_constraint(trial, self.constraints)}
        marks = dict.fromkeys(self.stalled, "stalled") | dict.fromkeys(broken, "infeasible")
        choice = [trial for trial in trials if trial.key not in broken]
        above = _wrapped(self.summary(), width)
        below = _format_in_full(trials, choice, best, width)
        free = height - len(above) - len(below) - 2  # one for the table's head, one for the cursor
        newest = sorted(trials, key=lambda t: (t.state != "RUNNING", -t.number))
        rows = newest[: min(SHOWN_TRIALS, max(free, LEAST_TRIALS))]
        lines = [*above, *_format_table(rows, best, marks, width), *below]
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _format_table(
    trials: Iterable[ShownTrial], best: Best, marks: Mapping[str, str], width: int
) -> list[str]:
    """Format a head and one line per trial; settings are cut to fit at the end of the line."""
    cells = [_HEADS, *(_format_cells(trial, best, marks) for trial in trials)]
    columns = zip(_LEAST, *cells, strict=True)
    *widths, _ = (max(least, *map(len, column)) for least, *column in columns)
    lines = []
    for *short, settings in cells:
        aligned = [
            cell.ljust(size) if head == "state" else cell.rjust(size)
            for head, cell, size in zip(_HEADS, short, widths, strict=False)
        ]
        start = _GAP.join(aligned) + _GAP
        lines.append(start + _cut_to_width(settings, width - len(start)))
    return lines


def _format_cells(trial: ShownTrial, best: Best, marks: Mapping[str, str]) -> tuple[str, ...]:
    step, value = trial.last_step, trial.last_value
    state = "starting" if trial.state == "RUNNING" and step is None else trial.state.lower()
    return (
        str(trial.number),
        marks.get(trial.key, state),
        str(step or 0),
        percent(math.nan if value is None and step is not None else value),
        percent(best[trial.key]),
        str(trial.seed),
        trial.error or short_settings(trial.searched_values) + (f": {trial.why}" * bool(trial.why)),
    )


def _cut_to_width(text: str, width: int) -> str:
    """Cut a text to the whole words that fit, with an ellipsis for those left out."""
    if cell_len(text) <= width:
        return text
    words = text.split(" ")
    while words and cell_len(" ".join([*words, "…"])) > width:
        words.pop()
    return " ".join([*words, "…"])


def _format_in_full(
    trials: Sequence[ShownTrial], choice: Sequence[ShownTrial], best: Best, width: int
) -> list[str]:
    """Format the best trial, and the configurations that the search chose for further seeds.

    `choice` are the trials that can be the best.
    """
    scored = [trial for trial in choice if best[trial.key] is not None]
    top = max(scored, key=lambda trial: best[trial.key] or 0.0, default=None)
    if top is None:
        return []
    dev = percent(best[top.key])
    shown = {top.configuration: [f"best: trial {top.number}, dev {dev}, seed {top.seed}"]}
    picked = dict.fromkeys(trial.configuration for trial in trials if trial.role == "confirm")
    for name in islice(picked, SHOWN_CONFIRMED):
        group = [trial for trial in trials if trial.configuration == name]
        values = [value for trial in group if (value := best[trial.key]) is not None]
        mean = percent(sum(values) / len(values)) if values else "unknown"
        seeds = f"{len(values)} of the seeds {' '.join(str(trial.seed) for trial in group)}"
        text = f"confirmed: trial {group[0].number}, mean dev {mean} over {seeds}"
        shown.setdefault(name, []).append(text)
    of = {trial.configuration: short_settings(trial.searched_values) for trial in trials}
    lines = []
    for name, texts in shown.items():
        lines += [line for text in texts for line in _wrapped(text, width)]
        lines += _wrapped(of[name], width, initial_indent=_GAP, subsequent_indent=_GAP)
    return lines


LOOK_SECONDS = 0.5
LEAST_LEFT = 0.05
"""The remaining share of a trial that is assumed if it already runs longer than the mean."""


@contextmanager
def watching(state: SweepState, console: Terminal, *, errors: Path) -> Iterator[None]:
    """Show the progress of a sweep from a background thread while the context is open.

    `errors` is the folder with the tracebacks of failed trials.
    """
    view, done = SweepProgress(state, errors=errors), threading.Event()

    def show() -> None:
        looks = _iter_looks(done)
        if console.is_terminal:
            show_live(view, console, looks)
        else:
            print_texts(SweepLog(view).new_texts, console, looks)
        if view.has_begun():  # otherwise an error message follows
            console.print(view.summary(), soft_wrap=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class SweepProgress(SweepView):
    """The progress of a running sweep as text, read while the driver's thread changes the state."""

    def __init__(self, state: SweepState, *, errors: Path) -> None:
        self.state = state
        self.started = time.monotonic()
        self._known_before, self._has_begun = len(self.trials), False
        self.constraints = state.spec.search.constraints
        self._lines = SweepLines(self.constraints, errors=errors)
        self._lines.new(self.trials, ())  # skip trials that ended before this start

    def new_lines(self) -> list[SweepLine]:
        """Return the lines since the last call, except warnings, which are logged anyway."""
        notes = [each for each in list(self.state.history.messages) if each.level == "note"]
        return self._lines.new(self.trials, notes)

    @property
    def trials(self) -> list[TrialHistory]:
        return list(self.state.history.trials.values())

    @property
    def planned(self) -> int | None:
        """The largest number of trials that there will be; None if unknown."""
        known = self.state.planned
        return None if known is None else max(known, len(self.trials))

    @property
    def best(self) -> TrialHistory | None:
        """The trial with the best dev score so far, ended or not, except infeasible ones."""
        scored = [
            trial
            for trial in self.trials
            if self.best_value(trial) is not None and not breaks_constraint(trial, self.constraints)
        ]
        return max(scored, key=lambda trial: self.best_value(trial) or 0.0, default=None)

    def best_value(self, trial: TrialHistory) -> float | None:
        """Return a trial's best dev score so far, as a fraction; None if it has none."""
        best = trial.best(checkpoint=self.state.spec.dev.checkpoint_name)
        return trial.best_value if best is None else best.value

    def summary(self) -> str:
        best, parts = self.best, list[str]()
        if not self.has_begun():
            parts.append("starting Ray")
        parts.append(f"elapsed {stopwatch(time.monotonic() - self.started)}")
        if (left := self.time_left()) is not None:
            parts.append(f"{span(left)} left")
        if self.state.scored is not None:
            done, chosen = self.state.scored
            parts.append(f"test sets: {done} of {chosen} trials scored")
        behind = [
            f"{sink.name} is {format_count(sink.behind, 'event')} behind ({sink.error})"
            for sink in self.state.recorder.health()
            if sink.error
        ]
        return summary_line(
            self.state.spec.sweep,
            ended=sum(trial.state != "RUNNING" for trial in self.trials),
            planned=self.planned,
            best=None if best is None else (self.best_value(best), best.number),
            more=parts + behind,
        )

    def latest_point(self) -> Iterator[str]:
        """Describe the newest dev point of a running trial; nothing if there is none yet."""
        running = [t for t in self.trials if t.key in self.state.live and t.last_step is not None]
        for trial in sorted(running, key=lambda t: t.last_heard or t.started)[-1:]:
            done = trial.last_metrics.get("train/progress")
            share = "" if done is None else f", {done:.0%} done"
            yield (
                f"  trial {trial.number}: dev {percent(trial.last_value)} at step "
                f"{trial.last_step}{share}"
            )

    @property
    def begun(self) -> list[TrialHistory]:
        """The trials that this start of the sweep has started or resumed."""
        known = self._known_before
        return [
            trial
            for index, trial in enumerate(self.trials)
            if trial.key in self.state.live or (index >= known and trial.reused_from is None)
        ]

    def has_begun(self) -> bool:
        """Whether a trial has started, or none is needed."""
        state = self.state
        more = len(state.history.trials) > self._known_before
        self._has_begun |= bool(state.live) or more or state.finished
        return self._has_begun

    def time_left(self) -> TimeInterval | None:
        """Estimate the remaining time of the trials; None if unknown or nothing is left."""
        trials, running = self.trials, [t for t in self.trials if t.key in self.state.live]
        done = [t.busy_seconds for t in trials if t.state in ("COMPLETE", "PRUNED")]
        durations = [seconds for seconds in done if seconds > 0]  # a reused trial took no time
        projected = [
            t.busy_seconds / share
            for t in running
            if (share := t.last_metrics.get("train/progress", 0.0)) > 0
        ]
        if not (known := durations or projected):
            return None
        mean = sum(known) / len(known)
        parts = (max(1 - trial.busy_until(now()) / mean, LEAST_LEFT) for trial in running)
        waiting = len(self.state.left_over) + len(self.state.to_retry)
        at_once = max(len(running), 1)
        state = self.state
        search = trials_left(
            state.spec, state.history, count=state.budget, seconds=mean, at_once=at_once
        )
        if search is None:
            return None
        further = sum(trial.role == "confirm" for trial in self.trials)
        seeds = 0 if self.state.finished else max(self.state.spec.confirming - further, 0)
        left = search + seeds + waiting + sum(parts)
        if left <= 0:
            return None
        return time_left(known, trials=left, at_once=at_once, finished=bool(durations))

    def read_trials(self) -> tuple[Sequence[ShownTrial], Best]:
        self.stalled, trials = self.state.stalled, self.trials
        return trials, {trial.key: self.best_value(trial) for trial in trials}


def _iter_looks(done: threading.Event) -> Iterator[None]:
    """Yield at regular intervals, and once more when the sweep is done."""
    last = False
    while not last:
        last = done.wait(LOOK_SECONDS)
        yield


def show_live(view: SweepView, console: Terminal, looks: Iterable[object]) -> None:
    """Update a live table on a terminal at each look, and print news above it."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        for _ in looks:
            for line in view.new_lines():
                if line.is_news:
                    console.print(line.text, soft_wrap=True)
            live.update(view.screen(width=console.width, height=console.height))


def print_texts(
    new_texts: Callable[[], Iterable[str]], console: Terminal, looks: Iterable[object]
) -> None:
    """Print the new lines at each look."""
    for _ in looks:
        for text in new_texts():
            console.print(text, soft_wrap=True)


class SweepLog:
    """The log of a sweep without a terminal: each line once, and summaries in between.

    Args:
        view: the sweep.
        silence: measures how long nothing has been printed.
    """

    def __init__(self, view: SweepProgress, silence: Silence | None = None) -> None:
        self._view, self._silence = view, silence or Silence()
        self._told_begin = False

    def new_texts(self) -> list[str]:
        """Return the texts to print now: new lines or, after a long silence, a summary."""
        texts = [line.text for line in self._view.new_lines()]
        if (begun := self._view.begun) and not self._told_begin:
            self._told_begin = True
            texts.insert(0, f"Trial {begun[0].number} began")
        if not texts and self._silence.is_long:
            texts = [self._view.summary(), *self._view.latest_point()]
        if texts:
            self._silence.end()
        return texts
