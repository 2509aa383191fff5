"""The columns of a leaderboard for people, for entries of our rows and published ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cse_platform.leaderboard.records import BUILTIN, LeaderboardRow
from cse_platform.leaderboard.render.board import (
    DEV,
    STARRED,
    Entry,
    estimates,
    interval_cell,
    join_marks,
    score_cell,
    score_column,
    shown_dev_set,
)
from cse_platform.leaderboard.render.columns import BEST, BY_NAME, ORDERS, BoardColumn
from cse_platform.render.formats import percent
from cse_platform.render.table import Cell, Column, Order
from cse_platform.tracking.history import COSTS

EntryColumn = Column[Entry]

SHOWN_GROUPS: dict[str, tuple[str, ...]] = {
    "Hyperparameters": ("configuration", "keys", "code", "searched"),
    "Sweeps": ("sweep", "dev_search", "corpus", "seen", "tags", "notes"),
    "Runs": ("trials", "gpu_hours", "wall_seconds", "finished", "machines"),
    "Costs of a trial": tuple(COSTS),
    "Sources of published rows": ("settings", "sources"),
}
"""Names of the columns of the tables below the scores, by title."""
WIDE = (
    *("configuration", "keys", "sweep", "dev_search", "corpus", "seen", "code", "searched"),
    *("trials", "gpu_hours", "wall_seconds", *COSTS, "finished", "machines", "tags", "notes"),
    *("settings", "sources"),
)
"""The same columns for a wide table."""


def shown_columns(names: Sequence[str]) -> list[EntryColumn]:
    """Make the columns of these names for people."""
    return [_show_column(BY_NAME[name]) for name in names]


def _show_column(column: BoardColumn) -> EntryColumn:
    read = column.shown or column.value
    return Column(
        column.name,
        lambda entry: read(entry.content),
        column.format,
        column.head.name,
        column.align,
        order=column.order,
    )


def key_columns(listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows."""
    ours = [entry for entry in listed if entry.row]
    method = Column("method", _format_method, order=ORDERS["method"])
    dev_set = replace(
        BY_NAME["dev_search"],
        shown=lambda row: shown_dev_set(row) if isinstance(row, LeaderboardRow) else None,
    )
    columns = {
        column.name: column
        for column in (
            method,
            *shown_columns(["backbone"]),
            _show_column(dev_set),
            *shown_columns(["configuration", "evaluation"]),
        )
    }

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(columns[name].cell(entry).text for name in names) for entry in ours})

    names = ["method", "backbone"]
    if distinct(["dev_search"]) > 1:
        names.append("dev_search")
    for name in ("configuration", "evaluation"):
        if distinct(names) < distinct([*names, name]):
            names.append(name)
    return [columns[name] for name in names]


def _format_method(entry: Entry) -> Cell:
    row = entry.published
    star = STARRED if entry.row and entry.row.starred else ""  # not in tables in the papers' form
    name = row.system if row else entry.row.shown_method if entry.row else ""
    return Cell(name, mark=join_marks(star, entry.mark))


def ranking_columns(headline: str, listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, and dev."""
    rows = [entry.row for entry in listed if entry.row]
    if headline == DEV:
        dev = shown_columns(["dev_untrained"])
    else:
        dev = [_make_dev_column(rows, builtin=builtin) for builtin in (False, True)]
    return [
        score_column(headline, title=_format_dev_title(rows) if headline == DEV else ""),
        _make_headline_column("95 % interval", headline, "interval", interval_cell),
        *shown_columns(["rank"]),
        _make_headline_column("best of n", headline, "best", percent, order=BEST),
        Column(
            "n",
            lambda entry: _format_seed_count(entry.row, headline) if entry.row else None,
            align="right",
            order=ORDERS["n"],
        ),
        *dev,
        *shown_columns(["gap"]),
    ]


def _make_headline_column(
    name: str,
    headline: str,
    part: str,
    format: Callable[[Any], Cell | str],
    *,
    order: Order[LeaderboardRow] | None = None,
) -> EntryColumn:
    """Make a column of a part of the headline's estimate."""

    def read(entry: Entry) -> Any:
        return getattr(estimates(entry.row).get(headline), part, None) if entry.row else None

    return Column(name, read, format, name, "right", order=order)


def _make_dev_column(rows: Sequence[LeaderboardRow], *, builtin: bool) -> EntryColumn:
    """Make a column of dev scores, on built-in dev sets or on the others."""

    def is_there(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    return Column(
        _format_dev_title([row for row in rows if is_there(row)]),
        lambda entry: entry.row.dev_score if entry.row and is_there(entry.row) else None,
        score_cell,
        align="right",
        order=ORDERS[DEV],
    )


def _format_dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """Format the title of the dev column, with the dev set or source that all rows share."""
    for known in ({shown_dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _format_seed_count(row: LeaderboardRow, headline: str) -> str:
    """Format the number of seeds with a headline score, as `2 of 3` if others have none."""
    estimate = estimates(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"
