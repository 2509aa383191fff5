"""All columns of a leaderboard, each defined once: its name, value, text and sort order.

JSON, CSV and pandas use the values, formats for people the texts, and sorting the orders.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from textwrap import shorten
from typing import Any

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.board import order_by_dev
from cse_platform.leaderboard.published.papers import source_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    OWN,
    Estimate,
    LeaderboardRow,
    SeenSentences,
    family_named,
)
from cse_platform.leaderboard.render.board import (
    COST_HEADS,
    DEV,
    OVER_PAIRS,
    Board,
    Entry,
    cost_cell,
    shown_dev_set,
)
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.render.formats import HASH_DIGITS, clock, percent, short_settings, signed_percent
from cse_platform.render.table import Cell, Column, Order, as_text, flatten, to_record
from cse_platform.tracking.events import IMPORTED
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES

AnyRow = LeaderboardRow | PublishedRow
BoardColumn = Column[AnyRow]
EntryColumn = Column[Entry]

NOTES_WIDTH = 60
"""Maximum length of notes in a table, in characters; `cse-leaderboard show` has their full text."""
_NUMBER, _COUNT, _TRUTH, _TIME = "float64", "Int64", "boolean", "datetime64[us, UTC]"
_Read = Callable[[LeaderboardRow], Any]


def _read_path(row: object, path: str) -> Any:
    """Read a dotted attribute path of a row; None if any part is None. Tuples become lists."""
    for name in filter(None, path.split(".")):
        row = None if row is None else getattr(row, name)
    return list(row) if isinstance(row, tuple) else row


def _read_ours(value: str | _Read) -> Callable[[AnyRow], Any]:
    """Make a function that reads our rows by a path or function; published rows give None."""

    def read(row: AnyRow) -> Any:
        if isinstance(row, PublishedRow):
            return None
        return _read_path(row, value) if isinstance(value, str) else value(row)

    return read


def _make_column(
    name: str,
    value: str | _Read | None = None,
    dtype: str = "object",
    *,
    published: str = "",
    shown: _Read | None = None,
    format: Callable[[Any], Cell | str] = as_text,
    title: str = "",
    sort: str = "",
    sort_key: _Read | None = None,
    csv: Callable[[Any], str] = as_text,
    parts: tuple[BoardColumn, ...] = (),
) -> BoardColumn:
    """Make a column.

    Args:
        name: the key in JSON, CSV and pandas.
        value: reads our rows: an attribute path or a function; by default, the name is the path.
        dtype: the pandas dtype. Numbers are aligned to the right; numbers and dates sort from
            high to low, everything else from low to high.
        published: the attribute path in published rows; empty if these have no value.
        shown: what people see for our rows, if it is not the value.
        format: formats what people see.
        title: the column head that people see.
        sort: the name by which rows can be sorted by this column; empty if they cannot.
        sort_key: the sort key of our rows, if it is not the value.
        csv: formats the value for CSV.
        parts: columns that replace this one in CSV and pandas, if its value is an object.
    """
    ours = _read_ours(name if value is None else value)

    def read(row: AnyRow) -> Any:
        theirs = published and isinstance(row, PublishedRow)
        return _read_path(row, published) if theirs else ours(row)

    def read_shown(row: AnyRow) -> Any:
        return shown(row) if shown and isinstance(row, LeaderboardRow) else read(row)

    return Column(
        name,
        read,
        format,
        title,
        "right" if dtype in (_NUMBER, _COUNT) else "left",
        dtype,
        order=Order(sort, sort_key or ours, dtype in (_NUMBER, _COUNT, _TIME)) if sort else None,
        shown=read_shown if shown else None,
        csv=csv,
        parts=parts,
    )


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


def _dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _find_headline(row: LeaderboardRow) -> Estimate | None:
    """Return the score that the row is ranked by if it is a test score, else None."""
    return row.ranked_score if row.headline else None


def _find_source(row: LeaderboardRow) -> str | None:
    headline = _find_headline(row)
    return source_of(headline, row.dev) if headline else None


def searched_settings(row: LeaderboardRow) -> str:
    """Format the active searched hyperparameters."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def short_key(row: LeaderboardRow) -> str:
    """Return the first digits of the key of the best seed's trial, which commands accept."""
    return (row.best_trial or "")[:HASH_DIGITS]


def _format_unknown_code(row: LeaderboardRow) -> str | None:
    """Return "unknown" if the code is not stored, as in rows of imported trials."""
    return None if row.configuration.code or row.dev.source == IMPORTED else "unknown"


def _format_dev_sets(row: LeaderboardRow) -> str:
    same = row.dev.checkpoint == row.dev.search
    return shown_dev_set(row) + ("" if same else f", checkpoint by {row.dev.checkpoint}")


def format_seen(seen: Iterable[SeenSentences]) -> str | None:
    """Format how many test sentences occur in each place, summed over the test sets.

    A sentence of two sets counts twice. None if they have not been counted.
    """
    sums: dict[str, tuple[int, int]] = {}
    for each in seen:
        if each.split == "test":
            count, total = sums.get(each.place, (0, 0))
            sums[each.place] = count + each.found, total + each.sentences
    return "; ".join(f"{place} {f:,} of {n:,}" for place, (f, n) in sums.items()) or None


def _format_rank(row: LeaderboardRow) -> Cell | None:
    """Format the rank among several rows; None without a rank or if no other row is ranked."""
    rank, ranked = row.rank, row.ranked_score
    if rank is None or rank.among == 1:
        return None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _format_gap(row: LeaderboardRow) -> str | None:
    if row.gap is None:
        return None
    verdict = {True: " inside", False: " outside", None: ""}[row.gap.inside]
    return signed_percent(row.gap.difference) + verdict


def _make_cost_column(name: str) -> BoardColumn:
    """Make a column of one of `COSTS`; extrapolated values are marked."""

    def read(row: LeaderboardRow) -> float | None:
        return row.cost(name)

    def format_cost(row: LeaderboardRow) -> Cell | None:
        if (cost := read(row)) is None:
            return None
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        return cost_cell(name, cost, extrapolated=part)

    return _make_column(name, read, _NUMBER, shown=format_cost, title=COST_HEADS[name], sort=name)


_FIRST: tuple[BoardColumn, ...] = (
    Column("published", lambda row: isinstance(row, PublishedRow), dtype=_TRUTH),
    _make_column(
        "method", published="method", sort="method", sort_key=lambda row: row.shown_method
    ),
    _make_column(
        "backbone",
        published="backbone",
        shown=lambda row: row.shown_backbone,
        sort="backbone",
        sort_key=lambda row: row.shown_backbone,
    ),
)
"""Columns that published rows have too."""
_CONFIGURATION: tuple[BoardColumn, ...] = (
    _make_column("sweep", sort="sweep"),
    _make_column(
        "configuration",
        parts=(
            _make_column(
                "configuration",
                "configuration.hash",
                format=lambda digits: digits[:HASH_DIGITS],
                sort="configuration",
            ),
            _make_column("values", "configuration.values", csv=_dump_json),
            _make_column(
                "searched", "configuration.searched", shown=searched_settings, csv=_dump_json
            ),
            _make_column("code", "configuration.code", shown=_format_unknown_code),
        ),
    ),
    _make_column("corpus", sort="corpus"),
    _make_column("seeds"),
    _make_column("n", dtype=_COUNT, published="seeds", sort="n"),
    _make_column("keys", shown=short_key, title="trial", csv=_dump_json),
)
_DEV_COLUMNS: tuple[BoardColumn, ...] = (
    _make_column(
        "dev",
        parts=(
            _make_column("dev_checkpoint", "dev.checkpoint"),
            _make_column(
                "dev_search",
                "dev.search",
                shown=_format_dev_sets,
                title="dev set",
                sort="dev_set",
                sort_key=lambda row: (row.dev.search, row.dev.source),
            ),
            _make_column("dev_identity", "dev.identity"),
            _make_column("dev_source", "dev.source"),
        ),
    ),
    _make_column("dev_mean", "dev_score.mean", _NUMBER, sort=DEV),
    _make_column("dev_std", "dev_score.std", _NUMBER, sort="dev_std"),
    _make_column(
        "dev_interval",
        lambda row: _list_bounds(row.dev_score.interval),
        parts=(
            _make_column("dev_low", "dev_score.interval.low", _NUMBER),
            _make_column("dev_high", "dev_score.interval.high", _NUMBER),
        ),
    ),
    _make_column("dev_best", "dev_score.best", _NUMBER),
    _make_column(
        "dev_untrained", dtype=_NUMBER, format=percent, title="untrained", sort="untrained"
    ),
    _make_column("trials", dtype=_COUNT, sort="trials"),
)
_RANKING: tuple[BoardColumn, ...] = (
    _make_column(
        "headline",
        parts=(
            _make_column("headline"),
            _make_column(
                "evaluation",
                lambda row: _read_path(_find_headline(row), "identity"),
                shown=lambda row: (row.ranked_score.identity if row.ranked_score else "")[
                    :HASH_DIGITS
                ],
            ),
            _make_column("source", _find_source),
            _make_column("best_of_n", lambda row: _read_path(_find_headline(row), "best"), _NUMBER),
        ),
    ),
    replace(
        _make_column(
            "rank",
            shown=_format_rank,
            sort="rank",
            sort_key=lambda row: (row.rank.best, row.rank.worst) if row.rank else None,
            parts=tuple(
                _make_column(f"rank_{name}", f"rank.{name}", _COUNT)
                for name in ("best", "worst", "among")
            ),
        ),
        align="right",
    ),
    _make_column(
        "gap",
        parts=(
            _make_column(
                "gap", "gap.difference", _NUMBER, shown=_format_gap, title="paper", sort="gap"
            ),
            _make_column("gap_published", "gap.published", _NUMBER),
            _make_column("gap_source", "gap.source"),
            _make_column("gap_inside", "gap.inside", _TRUTH),
        ),
    ),
)
_RUN: tuple[BoardColumn, ...] = (
    _make_column(
        "averages",
        parts=(
            _make_column("averages", "averages.keys", csv=_dump_json),
            _make_column("averages_dev_mean", "averages.dev_mean", _NUMBER),
        ),
    ),
    _make_column("other_code", dtype=_TRUTH),
    _make_column("marks", format=", ".join),
    _make_column(
        "seen",
        lambda row: [asdict(each) for each in row.seen],
        shown=lambda row: format_seen(row.seen),
        title="saw",
        csv=_dump_json,
    ),
    _make_column("test_opened", dtype=_TIME),
    _make_column(
        "gpu_hours",
        dtype=_NUMBER,
        format=lambda hours: f"{hours:.1f}",
        title="GPU-hours",
        sort="gpu_hours",
    ),
    _make_column(
        "wall_seconds", dtype=_NUMBER, format=clock, title="wall time a trial", sort="wall_seconds"
    ),
    *map(_make_cost_column, COSTS),
    _make_column("epochs", dtype=_NUMBER),
    _make_column("finished", dtype=_TIME, format=lambda day: f"{day:%Y-%m-%d}", sort="finished"),
    _make_column("machines", format=", ".join, sort="machines"),
    _make_column("tags", format=", ".join, sort="tags"),
    _make_column("starred", dtype=_TRUTH),
    _make_column(
        "notes", format=lambda notes: shorten(" / ".join(notes), NOTES_WIDTH, placeholder="…")
    ),
    _make_column("released", "released.system"),
    _make_column("trained_from", "released.trained_from"),
)
_OURS = (*_FIRST, *_CONFIGURATION, *_DEV_COLUMNS, *_RANKING, *_RUN)
_PAPER: tuple[BoardColumn, ...] = (
    _make_column("system", lambda _: None, published="system"),
    _make_column("sources", lambda _: None, published="sources", format=", ".join, title="source"),
    _make_column(
        "settings",
        lambda _: None,
        published="settings",
        parts=(
            _make_column("settings", lambda _: None, published="label", title="published settings"),
        ),
    ),
    _make_column("split", lambda _: "test", published="split"),
)
"""Columns that only published rows fill; left out of a board without published rows."""
_UNSTATED = _make_column("unstated", lambda _: None, published="unstated")
BY_NAME = {part.name: part for column in (*_OURS, *_PAPER) for part in (column, *column.parts)}
"""All columns and parts by name, from which the columns for people are chosen."""

ESTIMATE_PARTS: dict[str, Callable[[Estimate], Any]] = {
    "std": lambda estimate: estimate.std,
    "interval": lambda estimate: _list_bounds(estimate.interval),
    "best": lambda estimate: estimate.best,
    "seeds": lambda estimate: estimate.n,
    "source": lambda estimate: estimate.source,
    "values": lambda estimate: estimate.values,
}


def _make_scores_column(name: str, part: Callable[[Estimate], Any]) -> BoardColumn:
    return _make_column(
        name, lambda row: {column: part(score) for column, score in row.scores.items()}
    )


_OUR_RECORD = (
    *(*_FIRST, *_CONFIGURATION, *_DEV_COLUMNS, *_RANKING),
    _make_scores_column("test", lambda estimate: estimate.mean),
    *(_make_scores_column(f"test_{name}", part) for name, part in ESTIMATE_PARTS.items()),
    _make_scores_column("evaluation", lambda estimate: estimate.identity),
    *_RUN,
)
"""Fields of our rows in JSON; test scores are in objects keyed by column."""
_PAPER_RECORD = (
    *(*_FIRST, *_PAPER),
    _make_column("scores", lambda _: None, published="scores"),
    _make_column("scores_std", lambda _: None, published="std"),
    _UNSTATED,
)
"""Fields of published rows in JSON."""


def estimate_records(scores: Mapping[str, Estimate], *, prefix: str) -> dict[str, Any]:
    """Return std, interval, best, seeds, source and values of each score, each as an object by
    column.
    """
    return {
        f"{prefix}_{name}": {column: part(score) for column, score in scores.items()}
        for name, part in ESTIMATE_PARTS.items()
    }


def board_records(board: Board) -> list[dict[str, Any]]:
    """Make a JSON object of each row: ours with all their scores, then published ones."""
    return [
        *(to_record(_OUR_RECORD, row) for row in board.rows),
        *(to_record(_PAPER_RECORD, row) for row in board.published),
    ]


def data_columns(board: Board) -> list[BoardColumn]:
    """List the columns of a board for CSV and pandas, which have one value per cell.

    Score columns are those of the board's family and of every family that one of our rows has
    scores of. `evaluation`, `source` and `best_of_n` are those of the headline; JSON has them for
    every score.
    """
    scores = [column for name in _list_score_columns(board) for column in _make_score_columns(name)]
    return [*flatten([*_OURS, *((*_PAPER, _UNSTATED) if board.published else ())]), *scores]


def data_rows(board: Board) -> list[AnyRow]:
    """List the rows of a board for CSV and pandas."""
    return [*board.rows, *board.published]


def _list_score_columns(board: Board) -> list[str]:
    """List the score columns of the board's family and of families that our rows have scores of."""
    ours = {column for row in board.rows for column in row.scores}
    known = ours.union(*(row.scores for row in board.published))
    shown = (
        family
        for family in (*BOARD_FAMILIES.values(), family_named(OWN, board.rows))
        if family.name == board.family or not ours.isdisjoint(family.columns)
    )
    return [column for family in shown for column in family.columns if column in known]


def _make_score_columns(name: str) -> Iterator[BoardColumn]:
    """Make the columns of a score: mean, n, std and the interval, which is over pairs if n is 1."""

    def read_part(path: str) -> _Read:
        return lambda row: _read_path(row.scores.get(name), path)

    def read_mean(row: AnyRow) -> float | None:
        score = row.scores.get(name)
        return score.mean if isinstance(score, Estimate) else score

    def read_std(row: AnyRow) -> Any:
        return row.std.get(name) if isinstance(row, PublishedRow) else read_part("std")(row)

    yield Column(name, read_mean, dtype=_NUMBER)
    yield _make_column(f"{name}_n", read_part("n"), _COUNT)
    yield Column(f"{name}_std", read_std, dtype=_NUMBER)
    yield _make_column(f"{name}_low", read_part("interval.low"), _NUMBER)
    yield _make_column(f"{name}_high", read_part("interval.high"), _NUMBER)


SCORE_COLUMNS = tuple(column for family in BOARD_FAMILIES.values() for column in family.columns)


def _order_scores(column: str) -> Order[LeaderboardRow]:
    return Order(column, lambda row: row.scores[column].mean if column in row.scores else None)


_STD = Order[LeaderboardRow]("std", lambda row: row.ranked_score.std if row.ranked_score else None)
BEST = Order[LeaderboardRow](
    "best", lambda row: row.ranked_score.best if row.ranked_score else None
)
ORDERS: dict[str, Order[LeaderboardRow]] = {
    order.name: order
    for order in (
        *(column.order for column in BY_NAME.values() if column.order),
        *(_STD, BEST),
        *map(_order_scores, SCORE_COLUMNS),
    )
}
"""The columns that rows can be sorted by; `std` and `best` refer to the score that ranks a row."""


def sort_rows(rows: Sequence[LeaderboardRow], column: str) -> list[LeaderboardRow]:
    """Sort rows by a column; ties are ordered by dev, and rows without a value come last.

    Texts and ranks sort from low to high, numbers and dates from high to low.

    Raises:
        NotFoundError: if the column is not one of `ORDERS`.
    """
    order = ORDERS.get(column)
    if order is None:
        raise NotFoundError(
            f"there is no column {column!r} to sort by; expected {', '.join(ORDERS)}"
        )
    by_dev = order_by_dev(rows)
    without = [row for row in by_dev if order.key(row) in (None, [])]
    known = [row for row in by_dev if order.key(row) not in (None, [])]
    return sorted(known, key=order.key, reverse=order.descending) + without
