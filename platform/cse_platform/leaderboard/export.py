"""Leaderboard rows on standard output: a table for people, JSON and CSV for programs."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.leaderboard.queries import LeaderboardRow

Form = Literal["table", "json", "csv"]

WIDTH = 100
HASH_SHOWN = 8
NAME_SHOWN = 13
"""Longer names of methods and backbones are folded where room is short."""

CSV_COLUMNS = (
    "method",
    "backbone",
    "sweep",
    "configuration",
    "values",
    "seeds",
    "n",
    "dev_checkpoint",
    "dev_search",
    "dev_identity",
    "dev_source",
    "dev_mean",
    "dev_std",
    "dev_untrained",
    "trials",
    "test",
    "evaluation",
    "test_seeds",
    "test_opened",
)
JSON_CELLS = ("test", "evaluation", "test_seeds")

FAMILIES = ((AVG_STS, STS_TASKS), (AVG_TRANSFER, TRANSFER_TASKS), (None, LONG_TASKS))
"""An average and what it is over; reviews have none."""
SINGLE_SHOWN = 2
"""More tasks than this that some row has without their average are left to --json."""
SCORES_BESIDE_NAMES = 2
"""With more columns of scores, names are folded where room is short."""

MARK = " *"
OPENED = (
    "* First tried after tests were opened for its method; "
    "tried before and promoted after has no mark."
)
REST = "Not shown: {tasks} (--json has them)."
MIXED = "Rows of {task} are of {n} evaluation identities: compare those of one (--json has them)."


def write(rows: Sequence[LeaderboardRow], *, form: Form) -> None:
    """Write rows to standard output.

    Args:
        rows: in the order in which they shall stand.
        form: `table` is Spearman x 100, for people; `json` and `csv` are fractions.
    """
    match form:
        case "table":
            _print_table(rows)
        case "json":
            listed = [asdict(row) for row in rows]
            json.dump(listed, sys.stdout, indent=2, default=datetime.isoformat)
            sys.stdout.write("\n")
        case "csv":
            writer = csv.DictWriter(sys.stdout, CSV_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(_flat, rows))
    sys.stdout.flush()


def _print_table(rows: Sequence[LeaderboardRow]) -> None:
    """Two tables, because one would not fit: how good, and with which settings."""
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    averages = [task for task, _ in FAMILIES if task and any(task in row.test for row in rows)]
    single = _single(rows)
    tests = [*averages, *single[:SINGLE_SHOWN]]
    console.print(_ranking(rows, tests))
    for note in _notes(rows, tests, single[SINGLE_SHOWN:]):
        console.print(note)
    console.print()
    console.print(_settings(rows))


def _single(rows: Sequence[LeaderboardRow]) -> list[str]:
    """The tasks that some row has while it lacks their average, in the papers' order."""
    return [
        task
        for average, tasks in FAMILIES
        for task in tasks
        if any(task in row.test and average not in row.test for row in rows)
    ]


def _ranking(rows: Sequence[LeaderboardRow], tests: Sequence[str]) -> Table:
    grid = _grid("method", "backbone", "dev set")
    if len(tests) <= SCORES_BESIDE_NAMES:
        for column in grid.columns[:2]:  # where room is short, it is the dev set that is folded
            names = [getattr(row, str(column.header)) for row in rows]
            column.no_wrap = all(len(name) <= NAME_SHOWN for name in names)
    grid.add_column("dev", justify="right", no_wrap=True)
    if not tests:  # beside test scores there is no room for it
        grid.add_column("untrained", justify="right", no_wrap=True)
    for task in tests:
        grid.add_column(task.replace("_", "\n"), no_wrap=True)
    for name in ("seeds", "trials"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("configuration", no_wrap=True)
    for row in rows:
        untrained = "" if row.dev_untrained is None else _percent(row.dev_untrained)
        grid.add_row(
            row.method,
            row.backbone,
            f"{row.dev.search} ({row.dev.source})",
            _percent(row.dev_mean) + ("" if row.dev_std is None else f" ± {_percent(row.dev_std)}"),
            *([_test(row, task) for task in tests] or [untrained]),
            str(row.n),
            str(row.trials),
            row.configuration.hash[:HASH_SHOWN] + (MARK if row.test_opened else ""),
        )
    return grid


def _test(row: LeaderboardRow, task: str) -> str:
    return _percent(row.test[task]) if task in row.test else ""


def _notes(
    rows: Sequence[LeaderboardRow], tests: Sequence[str], rest: Sequence[str]
) -> Iterator[str]:
    if any(row.test_opened for row in rows):
        yield OPENED
    if rest:
        yield REST.format(tasks=", ".join(rest))
    for task in tests:
        identities = {row.evaluation[task] for row in rows if task in row.evaluation}
        if len(identities) > 1:
            yield MIXED.format(task=task, n=len(identities))


def _settings(rows: Sequence[LeaderboardRow]) -> Table:
    grid = _grid("configuration", "sweep", "searched")
    for row in rows:
        values = row.configuration.values
        searched = {name: values[name] for name in row.configuration.searched if name in values}
        settings = " ".join(f"{name}={_short(value)}" for name, value in searched.items())
        grid.add_row(row.configuration.hash[:HASH_SHOWN], row.sweep, settings)
    return grid


def _grid(*columns: str) -> Table:
    grid = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in columns:
        grid.add_column(name, overflow="fold")
    return grid


def _flat(row: LeaderboardRow) -> dict[str, Any]:
    cells = asdict(row)
    configuration, dev = cells.pop("configuration"), cells.pop("dev")
    cells |= {f"dev_{name}": value for name, value in dev.items()}
    cells |= {
        "configuration": configuration["hash"],
        "values": json.dumps(configuration["values"], sort_keys=True),
        "seeds": " ".join(map(str, row.seeds)),
        "test_opened": row.test_opened.isoformat() if row.test_opened else None,
    }
    cells |= {name: json.dumps(cells[name], sort_keys=True) for name in JSON_CELLS}
    return {name: cells[name] for name in CSV_COLUMNS}


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
