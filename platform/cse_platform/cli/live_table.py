"""The trials of a running sweep as a table that fits on a terminal, and its best ones in full."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from cse_platform.render.formats import percent, short_settings
from cse_platform.tracking.trial_history import TrialHistory

STALLED, INFEASIBLE = "stalled", "infeasible"
SHOWN_TRIALS = 12
LEAST_TRIALS = 3
"""So many are shown on the lowest terminal."""
SHOWN_CONFIRMED = 3

_HEADS = ("trial", "state", "step", "dev", "best", "seed", "settings")
_LEAST = (5, 8, 5, 5, 5, 4, 0)
"""Widths of the columns, so that they do not jump; what is wider widens its column."""
_GAP = "  "
_wrapped = partial(wrap, break_on_hyphens=False)  # 1e-05 is one word

Value = Callable[[TrialHistory], float | None]
"""A trial's best dev score so far, a fraction."""


def screen(
    trials: Sequence[TrialHistory],
    summary: str,
    best_value: Value,
    *,
    marks: Mapping[str, str],
    width: int,
    height: int,
) -> Text:
    """The summary, the newest trials in a line each, and the best and confirmed ones in full.

    `marks` are words that stand for the states of some trials, by their keys: `stalled` of those
    that have said nothing for long, `infeasible` of those that break a constraint.
    """
    choice = [trial for trial in trials if marks.get(trial.key) != INFEASIBLE]
    above, below = _wrapped(summary, width), _in_full(trials, choice, best_value, width)
    free = height - len(above) - len(below) - 2  # the table's head, and the cursor's line
    newest = sorted(trials, key=lambda t: (t.state != "RUNNING", -t.number))
    rows = newest[: min(SHOWN_TRIALS, max(free, LEAST_TRIALS))]
    lines = [*above, *_table(rows, best_value, marks, width), *below]
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _table(
    trials: Iterable[TrialHistory], best_value: Value, marks: Mapping[str, str], width: int
) -> list[str]:
    """A head and a line a trial; only the settings are cut, at the end of the line."""
    cells = [_HEADS, *(_cells(trial, best_value, marks) for trial in trials)]
    columns = zip(_LEAST, *cells, strict=True)
    *widths, _ = (max(least, *map(len, column)) for least, *column in columns)
    lines = []
    for *short, settings in cells:
        aligned = [
            cell.ljust(size) if head == "state" else cell.rjust(size)
            for head, cell, size in zip(_HEADS, short, widths, strict=False)
        ]
        start = _GAP.join(aligned) + _GAP
        lines.append(start + _fitting(settings, width - len(start)))
    return lines


def _cells(trial: TrialHistory, best_value: Value, marks: Mapping[str, str]) -> tuple[str, ...]:
    starting = trial.state == "RUNNING" and not trial.curve
    state = "starting" if starting else trial.state.lower()
    return (
        str(trial.number),
        marks.get(trial.key, state),
        str(trial.step),
        percent(trial.curve.get(trial.step)),
        percent(best_value(trial)),
        str(trial.seed),
        trial.error or short_settings(trial.searched_values) + (f": {trial.why}" * bool(trial.why)),
    )


def _fitting(text: str, width: int) -> str:
    """As many whole words of a text as fit, and a mark where words are left out."""
    if cell_len(text) <= width:
        return text
    words = text.split(" ")
    while words and cell_len(" ".join([*words, "…"])) > width:
        words.pop()
    return " ".join([*words, "…"])


def _in_full(
    trials: Sequence[TrialHistory],
    choice: Sequence[TrialHistory],
    best_value: Value,
    width: int,
) -> list[str]:
    """The best trial, and the configurations that the search has picked for further seeds.

    `choice` are those of the trials that can be the best.
    """
    scored = [trial for trial in choice if best_value(trial) is not None]
    best = max(scored, key=lambda trial: best_value(trial) or 0.0, default=None)
    if best is None:
        return []
    shown = {best.configuration: [f"best: {_dev(best, best_value)}"]}
    picked = dict.fromkeys(trial.configuration for trial in trials if trial.role == "confirm")
    for name in islice(picked, SHOWN_CONFIRMED):
        seeds = [trial for trial in trials if trial.configuration == name]
        shown.setdefault(name, []).append(f"confirmed: {_mean_dev(seeds, best_value)}")
    of = {trial.configuration: short_settings(trial.searched_values) for trial in trials}
    lines = []
    for name, texts in shown.items():
        lines += [line for text in texts for line in _wrapped(text, width)]
        lines += _wrapped(of[name], width, initial_indent=_GAP, subsequent_indent=_GAP)
    return lines


def _dev(trial: TrialHistory, best_value: Value) -> str:
    return f"trial {trial.number}, dev {percent(best_value(trial))}, seed {trial.seed}"


def _mean_dev(trials: Sequence[TrialHistory], best_value: Value) -> str:
    values = [value for trial in trials if (value := best_value(trial)) is not None]
    mean = percent(sum(values) / len(values)) if values else "unknown"
    seeds = " ".join(str(trial.seed) for trial in trials)
    return f"trial {trials[0].number}, mean dev {mean} over {len(values)} of the seeds {seeds}"
