"""A leaderboard as data for programs: fractions, our rows and then the published ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import methodcaller
from typing import Any

from cse_platform.leaderboard.published.papers import source_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import BOARD_FAMILIES, Estimate, LeaderboardRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.render.table import Column, to_record
from cse_platform.tracking.history import COSTS

AnyRow = LeaderboardRow | PublishedRow
DataColumn = Column[AnyRow]

_NUMBER, _COUNT, _TRUTH, _TIME = "float64", "Int64", "boolean", "datetime64[us, UTC]"


def board_records(board: Board) -> list[dict[str, Any]]:
    """Make a JSON object of each row: ours with every score they have, then published ones."""
    ours = [to_record(_OUR_RECORD, row) for row in board.rows]
    return ours + [to_record(_PUBLISHED_RECORD, row) for row in board.published]


def data_columns(board: Board) -> list[DataColumn]:
    """List the columns of a board for CSV and pandas: one value a cell.

    There are columns for every score that a row has in a family which the board or one of our rows
    shows.
    """
    scores = [column for name in _list_score_columns(board) for column in _make_score_columns(name)]
    return [*_BOARD_COLUMNS, *(_PAPER_COLUMNS if board.published else ()), *scores]


def data_rows(board: Board) -> list[AnyRow]:
    """List the rows of a board for CSV and pandas."""
    return [*board.rows, *board.published]


def estimate_records(scores: Mapping[str, Estimate], *, prefix: str) -> dict[str, Any]:
    """List what is known of each score beside its mean, by column."""
    return {
        f"{prefix}_{name}": {column: part(score) for column, score in scores.items()}
        for name, part in ESTIMATE_PARTS.items()
    }


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


ESTIMATE_PARTS: dict[str, Callable[[Estimate], Any]] = {
    "std": lambda estimate: estimate.std,
    "interval": lambda estimate: _list_bounds(estimate.interval),
    "best": lambda estimate: estimate.best,
    "seeds": lambda estimate: estimate.n,
    "source": lambda estimate: estimate.source,
    "values": lambda estimate: estimate.values,
}


def _read_attribute(row: object, path: str) -> Any:
    """Read an attribute of a row by a path with dots; None behind a None."""
    for name in filter(None, path.split(".")):
        row = None if row is None else getattr(row, name)
    return row if path else None


def _make_column(
    name: str, dtype: str = "object", *, ours: str | None = None, published: str = ""
) -> DataColumn:
    """Make a column from the attributes that hold its values in our and in published rows.

    `ours` is a path with dots, and the name where it is left out. Without a path for published
    rows, these leave the column empty. `dtype` is what pandas calls the type.
    """
    path = name if ours is None else ours

    def value(row: AnyRow) -> Any:
        content = _read_attribute(row, published if isinstance(row, PublishedRow) else path)
        return list(content) if isinstance(content, tuple) else content

    return Column(name, value, dtype=dtype)


def _make_our_column(
    name: str, value: Callable[[LeaderboardRow], Any], dtype: str = "object"
) -> DataColumn:
    """Make a column that published rows leave empty."""
    return Column(
        name, lambda row: value(row) if isinstance(row, LeaderboardRow) else None, dtype=dtype
    )


def _format_as_json(column: DataColumn) -> DataColumn:
    """Write the values of a column as JSON in CSV."""
    return replace(column, format=lambda value: json.dumps(value, sort_keys=True))


def _list_score_columns(board: Board) -> list[str]:
    """List the score columns of the families that the board or one of our rows shows."""
    ours = {column for row in board.rows for column in row.scores}
    known = ours.union(*(row.scores for row in board.published))
    shown = (
        family
        for family in BOARD_FAMILIES.values()
        if family.name == board.family or not ours.isdisjoint(family.columns)
    )
    return [column for family in shown for column in family.columns if column in known]


def _make_score_columns(name: str) -> Iterator[DataColumn]:
    """Make the columns of a score: mean, n, std and interval; if n is 1, over pairs."""

    def mean(row: AnyRow) -> float | None:
        score = row.scores.get(name)
        return score.mean if isinstance(score, Estimate) else score

    def std(row: AnyRow) -> Any:
        return row.std.get(name) if isinstance(row, PublishedRow) else part("std")(row)

    def part(path: str) -> Callable[[LeaderboardRow], Any]:
        return lambda row: _read_attribute(row.scores.get(name), path)

    yield Column(name, mean, dtype=_NUMBER)
    yield _make_our_column(f"{name}_n", part("n"), _COUNT)
    yield Column(f"{name}_std", std, dtype=_NUMBER)
    yield _make_our_column(f"{name}_low", part("interval.low"), _NUMBER)
    yield _make_our_column(f"{name}_high", part("interval.high"), _NUMBER)


def _make_test_column(name: str) -> DataColumn:
    part = ESTIMATE_PARTS[name]
    return _make_our_column(
        f"test_{name}", lambda row: {column: part(score) for column, score in row.scores.items()}
    )


def _find_ranked_score(row: LeaderboardRow) -> Estimate | None:
    """Return the score that the row is ranked by, if that is a test score."""
    return row.ranked_score if row.headline else None


_IS_PUBLISHED: DataColumn = Column(
    "published", lambda row: isinstance(row, PublishedRow), dtype=_TRUTH
)
_NAMES = tuple(_make_column(name, published=name) for name in ("method", "backbone"))
_DEV_NUMBERS = (
    _make_column("dev_best", _NUMBER, ours="dev_score.best"),
    _make_column("dev_untrained", _NUMBER),
    _make_column("trials", _COUNT),
    _make_column("headline"),
)
_RUN = (
    _make_column("other_code", _TRUTH),
    _make_column("test_opened", _TIME),
    _make_column("gpu_hours", _NUMBER),
    _make_column("wall_seconds", _NUMBER),
    *(_make_our_column(name, methodcaller("cost", name), _NUMBER) for name in COSTS),
    _make_column("epochs", _NUMBER),
    _make_column("finished", _TIME),
    _make_column("machines"),
    _make_column("tags"),
    _make_column("starred", _TRUTH),
    _make_column("notes"),
    _make_column("released", ours="released.system"),
    _make_column("trained_from", ours="released.trained_from"),
)
_BOARD_COLUMNS: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    _make_column("sweep"),
    _make_column("configuration", ours="configuration.hash"),
    _format_as_json(_make_column("values", ours="configuration.values")),
    _format_as_json(_make_column("searched", ours="configuration.searched")),
    _make_column("code", ours="configuration.code"),
    _make_column("corpus"),
    _make_column("seeds"),
    _make_column("n", _COUNT, published="seeds"),
    _format_as_json(_make_column("keys")),
    *(
        _make_column(f"dev_{name}", ours=f"dev.{name}")
        for name in ("checkpoint", "search", "identity", "source")
    ),
    _make_column("dev_mean", _NUMBER, ours="dev_score.mean"),
    _make_column("dev_std", _NUMBER, ours="dev_score.std"),
    _make_column("dev_low", _NUMBER, ours="dev_score.interval.low"),
    _make_column("dev_high", _NUMBER, ours="dev_score.interval.high"),
    *_DEV_NUMBERS,
    _make_our_column(
        "evaluation", lambda row: _read_attribute(_find_ranked_score(row), "identity")
    ),
    _make_our_column(
        "source", lambda row: source_of(one, row.dev) if (one := _find_ranked_score(row)) else None
    ),
    _make_our_column(
        "best_of_n", lambda row: _read_attribute(_find_ranked_score(row), "best"), _NUMBER
    ),
    *(
        _make_column(f"rank_{name}", _COUNT, ours=f"rank.{name}")
        for name in ("best", "worst", "among")
    ),
    _make_column("gap", _NUMBER, ours="gap.difference"),
    _make_column("gap_published", _NUMBER, ours="gap.published"),
    _make_column("gap_source", ours="gap.source"),
    _make_column("gap_inside", _TRUTH, ours="gap.inside"),
    *_RUN,
)
"""The columns of every board. `evaluation`, `source` and `best_of_n` are those of the headline;
JSON has those of every score."""
_PAPER_COLUMNS: tuple[DataColumn, ...] = (
    _make_column("system", ours="", published="system"),
    _make_column("sources", ours="", published="sources"),
    _make_column("settings", ours="", published="label"),
    Column("split", lambda row: row.split if isinstance(row, PublishedRow) else "test"),
    _make_column("unstated", ours="", published="unstated"),
)
"""The columns of a board with published rows."""
_OUR_RECORD: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    *map(_make_column, ("sweep", "configuration", "corpus", "seeds", "n", "keys", "dev")),
    _make_column("dev_mean", ours="dev_score.mean"),
    _make_column("dev_std", ours="dev_score.std"),
    _make_our_column("dev_interval", lambda row: _list_bounds(row.dev_score.interval)),
    *_DEV_NUMBERS,
    _make_column("rank"),
    _make_column("gap"),
    _make_our_column("test", lambda row: {name: one.mean for name, one in row.scores.items()}),
    *(_make_test_column(name) for name in ESTIMATE_PARTS),
    _make_our_column(
        "evaluation", lambda row: {name: one.identity for name, one in row.scores.items()}
    ),
    *_RUN,
)
"""The fields of our rows in JSON."""
_PUBLISHED_RECORD: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    *(_make_column(name, published=name) for name in ("system", "sources", "settings", "split")),
    _make_column("scores", published="scores"),
    _make_column("scores_std", published="std"),
    _make_column("unstated", published="unstated"),
)
"""The fields of published rows in JSON."""
