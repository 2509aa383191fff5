"""Show a running sweep: a live table on a terminal, otherwise one line per finished trial."""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import fmean

from rich.console import Group, JustifyMethod
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from cse_platform.launch.sweep_lines import ShownTrial, SweepLine, SweepLines
from cse_platform.numbers import clock, format_count, percent, short_settings, stopwatch
from cse_platform.presentation.terminal import Silence, Terminal
from cse_platform.runner.state import SweepState
from cse_platform.search.budgets import trials_left
from cse_platform.search.confirmation import count_left_behind
from cse_platform.tracking.events import now
from cse_platform.tracking.history import TrialHistory

SHOWN_TRIALS = (3, 12)
"""The fewest trials that are shown, however low the terminal is, and the most."""
SHOWN_CONFIRMED = 3
BESIDE_TRIALS = 12
"""The lines of a terminal that are kept for what is shown beside the trials."""

_COLUMNS = {"trial": 5, "state": 8, "step": 5, "dev": 5, "best": 5, "seed": 4}
"""The least width of each column, which keeps it from jumping."""

_COUNTING = ("RUNNING", "COMPLETE")
"""The states of trials whose dev scores count."""

BestScores = Mapping[str, float | None]
"""The best dev score so far of each trial, by key."""


class SweepView(ABC):
    """A sweep as text for people who follow it, in its driver or through the leaderboard."""

    @abstractmethod
    def new_lines(self) -> list[SweepLine]:
        """Return the lines since the last call in chronological order."""

    @abstractmethod
    def read_trials(self) -> tuple[Sequence[ShownTrial], BestScores]:
        """Return the trials by number, and the best dev score so far of each."""

    @abstractmethod
    def describe_state(self) -> tuple[str, int | None, list[str]]:
        """Return the sweep's name, how many trials there will be, if that is known, and further
        facts, such as the time that is left.
        """

    def summary(self) -> str:
        """Summarise the sweep in one line: trials, the best so far, elapsed and remaining time."""
        (trials, best), (name, planned, facts) = self.read_trials(), self.describe_state()
        ended = sum(trial.state != "RUNNING" for trial in trials)
        prefix = "" if planned is None else f"{ended} of "
        parts = [f"{name}: {prefix}{format_count(ended if planned is None else planned, 'trial')}"]
        if (top := self._find_best(trials, best)) is not None:
            parts.append(f"best {percent(best[top.key])} (trial {top.number})")
        return " · ".join([*parts, *facts])

    def screen(self, *, height: int) -> Group:
        """Render the summary, the newest trials, and the best and confirmed ones, as they fit."""
        trials, best = self.read_trials()
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, least in _COLUMNS.items():
            justify: JustifyMethod = "left" if name == "state" else "right"
            table.add_column(name, justify=justify, min_width=least, no_wrap=True)
        table.add_column("settings")
        fewest, most = SHOWN_TRIALS
        newest = sorted(trials, key=lambda trial: (trial.state != "RUNNING", -trial.number))
        for trial in newest[: min(most, max(height - BESIDE_TRIALS, fewest))]:
            cells = self._format_cells(trial, best)
            table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
        below = self._describe_best(trials, best)
        return Group(Text(self.summary()), table, *map(Text, below))

    def _find_best(self, trials: Sequence[ShownTrial], best: BestScores) -> ShownTrial | None:
        """Find the complete or running trial with the best dev score so far."""
        scored = [t for t in trials if t.state in _COUNTING and best[t.key] is not None]
        return max(scored, key=lambda trial: best[trial.key] or 0.0, default=None)

    def _format_cells(self, trial: ShownTrial, best: BestScores) -> tuple[str, ...]:
        step, value = trial.last_step, trial.last_value
        state = trial.state.lower()
        if trial.state == "RUNNING" and (trial.why or step is None):
            state = "waiting" if trial.why else "starting"
        why = f": {trial.why}" if trial.why else ""
        return (
            str(trial.number),
            state,
            str(step or 0),
            percent(math.nan if value is None and step is not None else value),
            percent(best[trial.key]),
            str(trial.seed),
            trial.error or short_settings(trial.searched_values) + why,
        )

    def _describe_best(self, trials: Sequence[ShownTrial], best: BestScores) -> list[str]:
        """Describe the best trial, and the configurations that the search chose for more seeds."""
        if (top := self._find_best(trials, best)) is None:
            return []
        dev = percent(best[top.key])
        shown = {top.configuration: [f"best: trial {top.number}, dev {dev}, seed {top.seed}"]}
        picked = dict.fromkeys(trial.configuration for trial in trials if trial.role == "confirm")
        for name in islice(picked, SHOWN_CONFIRMED):
            group = [trial for trial in trials if trial.configuration == name]
            counting = [trial for trial in group if trial.state in _COUNTING]
            values = [value for trial in counting if (value := best[trial.key]) is not None]
            mean = percent(sum(values) / len(values)) if values else "unknown"
            seeds = f"{len(values)} of the seeds {' '.join(str(trial.seed) for trial in group)}"
            text = f"confirmed: trial {group[0].number}, mean dev {mean} over {seeds}"
            shown.setdefault(name, []).append(text)
        settings = {trial.configuration: short_settings(trial.searched_values) for trial in trials}
        return [line for name, texts in shown.items() for line in (*texts, f"  {settings[name]}")]


TICK_SECONDS = 0.5


@contextmanager
def watching(state: SweepState, console: Terminal, *, errors: Path) -> Iterator[None]:
    """Show the progress of a sweep from a background thread while the context is open.

    `errors` is the folder with the tracebacks of failed trials.
    """
    view, done = SweepProgress(state, errors=errors), threading.Event()

    def show() -> None:
        ticks = _iter_ticks(done)
        if console.is_interactive:
            show_live(view, console, ticks)
        else:
            print_texts(view.new_texts, console, ticks)
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
        self._lines = SweepLines(errors=errors)
        self._lines.list_new(self.trials, ())  # skip trials that ended before this start
        self.silence = Silence()
        """Measures how long `new_texts` has returned none."""
        self._showed_begin = False

    def new_lines(self) -> list[SweepLine]:
        """Return the lines since the last call, except warnings, which are logged anyway."""
        notes = [each for each in list(self.state.history.messages) if each.level == "note"]
        return self._lines.list_new(self.trials, notes)

    def new_texts(self) -> list[str]:
        """Return the texts to print now without a terminal: new lines or, after a long silence, a
        summary.
        """
        texts = [line.text for line in self.new_lines()]
        if (begun := self.begun_trials) and not self._showed_begin:
            self._showed_begin = True
            verb = "began" if begun[0].resumed_from is None else "goes on"
            texts.insert(0, f"Trial {begun[0].number} {verb}")
        if not texts and self.silence.is_long:
            texts = [self.summary(), *self.latest_point()]
        if texts:
            self.silence.end()
        return texts

    @property
    def trials(self) -> list[TrialHistory]:
        return list(self.state.history.trials.values())

    def read_trials(self) -> tuple[Sequence[ShownTrial], BestScores]:
        trials = self.trials
        picked_by = self.state.spec.dev.checkpoint_name
        return trials, {trial.key: trial.value_so_far(picked_by=picked_by) for trial in trials}

    def describe_state(self) -> tuple[str, int | None, list[str]]:
        state, known, facts = self.state, self.state.planned, list[str]()
        if not self.has_begun():
            facts.append("starting Ray")
        facts.append(f"elapsed {stopwatch(time.monotonic() - self.started)}")
        if (left := self.seconds_left()) is not None:
            facts.append(f"about {clock(left)} left")
        if state.scored is not None:
            done, chosen = state.scored
            facts.append(f"test sets: {done} of {chosen} trials scored")
        facts += [
            f"{sink.name} is {format_count(sink.behind, 'event')} behind ({sink.error})"
            for sink in state.recorder.health()
            if sink.error
        ]
        planned = None if known is None else max(known, len(self.trials))
        return state.spec.sweep, planned, facts

    def latest_point(self) -> Iterator[str]:
        """Describe the newest dev point of a running trial; nothing if there is none yet."""
        running = [t for t in self.trials if t.key in self.state.live and t.last_step is not None]
        for trial in sorted(running, key=lambda t: t.last_heard or t.started)[-1:]:
            done = trial.last_metrics.get("train/progress")
            progress = "" if done is None else f", {done:.0%} done"
            yield (
                f"  trial {trial.number}: dev {percent(trial.last_value)} at step "
                f"{trial.last_step}{progress}"
            )

    @property
    def begun_trials(self) -> list[TrialHistory]:
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

    def seconds_left(self) -> float | None:
        """Estimate the time until all trials have ended, by the mean duration of those that have.

        None before one has ended, without a limit of their number, or when none is missing.
        """
        state, trials = self.state, self.trials
        ended = [trial.busy_seconds for trial in trials if trial.state in ("COMPLETE", "PRUNED")]
        durations = [seconds for seconds in ended if seconds > 0]  # a reused trial took no time
        if not durations or state.finished:
            return None
        mean, at_once = fmean(durations), max(len(state.live), 1)
        search = trials_left(state.spec, state.history, seconds=mean, at_once=at_once)
        if search is None:
            return None
        confirmed = sum(trial.role == "confirm" for trial in trials)
        left_behind = count_left_behind(state.history, state.spec)
        further = state.spec.confirming + left_behind - confirmed
        running = sum(
            max(1 - live.trial.busy_until(now()) / mean, 0) for live in [*state.live.values()]
        )
        waiting = len(state.left_over) + len(state.to_retry)
        return mean * (search + max(further, 0) + running + waiting) / at_once or None


def _iter_ticks(done: threading.Event) -> Iterator[None]:
    """Yield at regular intervals, and once more when the sweep is done."""
    last = False
    while not last:
        last = done.wait(TICK_SECONDS)
        yield


def show_live(view: SweepView, console: Terminal, ticks: Iterable[object]) -> None:
    """Update a live table on a terminal at each tick, and print news above it."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        for _ in ticks:
            for line in view.new_lines():
                if line.is_news:
                    console.print(line.text, soft_wrap=True)
            live.update(view.screen(height=console.height))


def print_texts(
    new_texts: Callable[[], Iterable[str]], console: Terminal, ticks: Iterable[object]
) -> None:
    """Print the new lines at each tick."""
    for _ in ticks:
        for text in new_texts():
            console.print(text, soft_wrap=True)
