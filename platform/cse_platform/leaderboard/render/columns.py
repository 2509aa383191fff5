"""The columns of a leaderboard for people, by subject."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import Any

from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Estimate, Gap, LeaderboardRow
from cse_platform.leaderboard.render.board import (
    COST_HEADS,
    DEV,
    OVER_PAIRS,
    STARRED,
    Entry,
    cost_cell,
    estimates,
    interval_cell,
    join_marks,
    score_cell,
    score_column,
    short_hash,
    shown_dev_set,
)
from cse_platform.leaderboard.trials import BUILTIN
from cse_platform.render.formats import (
    HASH_DIGITS,
    clock,
    percent,
    short_settings,
    signed_percent,
)
from cse_platform.render.table import Cell, Column, as_text
from cse_platform.tracking.events import IMPORTED
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES

EntryColumn = Column[Entry]


def key_columns(listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows."""
    rows = [entry.row for entry in listed if entry.row]

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(_KEYS[name](row) for name in names) for row in rows})

    names = ["method", "backbone"]
    if distinct(["dev set"]) > 1:
        names.append("dev set")
    for name in ("configuration", "evaluation"):
        if distinct(names) < distinct([*names, name]):
            names.append(name)
    others = (
        _make_our_column(name, _KEYS[name], sort=_SORTS_OF_KEYS.get(name, "")) for name in names[2:]
    )
    return [_METHOD, _BACKBONE, *others]


def ranking_columns(headline: str, listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, and dev."""
    rows = [entry.row for entry in listed if entry.row]

    def of(part: Callable[[Estimate], Any]) -> Callable[[LeaderboardRow], Any]:
        def value(row: LeaderboardRow) -> Any:
            estimate = estimates(row).get(headline)
            return None if estimate is None else part(estimate)

        return value

    title = _format_dev_title(rows) if headline == DEV else ""
    if headline == DEV:
        beside = [
            _make_number_column(
                "untrained", lambda row: row.dev_untrained, percent, sort="untrained"
            )
        ]
    else:
        beside = [_make_dev_column(rows, builtin=builtin) for builtin in (False, True)]
    return [
        score_column(headline, title=title),
        _make_number_column("95 % interval", of(lambda estimate: estimate.interval), interval_cell),
        _make_number_column("rank", _select_ranked_row, _format_rank, sort="rank"),
        _make_number_column("best of n", of(lambda estimate: estimate.best), percent, sort="best"),
        _make_number_column("n", lambda row: _format_seed_count(row, headline), sort="n"),
        *beside,
        _make_number_column("paper", lambda row: row.gap, _format_gap, sort="gap"),
    ]


def searched_settings(row: LeaderboardRow) -> str:
    """Format the searched settings that are active."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def short_key(row: LeaderboardRow) -> str:
    """The first digits of the key of the best seed's trial, as commands take it."""
    return (row.best_trial or "")[:HASH_DIGITS]


def _format_unknown_code(row: LeaderboardRow) -> str | None:
    """Say that the code is unknown, as of rows that older versions stored."""
    return None if row.configuration.code or row.dev.source == IMPORTED else "unknown"


def _make_our_column(
    name: str,
    value: Callable[[LeaderboardRow], Any],
    format: Callable[[Any], Cell | str] = as_text,
    *,
    sort: str = "",
) -> EntryColumn:
    """Make a column that published rows leave empty; `sort` is one of `SORT_COLUMNS`."""
    return Column(
        name, lambda entry: value(entry.row) if entry.row else None, format, name, sort=sort
    )


def _make_number_column(
    name: str,
    value: Callable[[LeaderboardRow], Any],
    format: Callable[[Any], Cell | str] = as_text,
    *,
    sort: str = "",
) -> EntryColumn:
    """Make a right-aligned column that published rows leave empty."""
    return replace(_make_our_column(name, value, format, sort=sort), align="right")


def _make_cost_column(name: str) -> EntryColumn:
    """Make a column of one of `COSTS`; extrapolated values are marked."""

    def marked(row: LeaderboardRow) -> Cell | None:
        if (cost := row.cost(name)) is None:
            return None
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        return cost_cell(name, cost, extrapolated=part)

    return _make_number_column(COST_HEADS[name], marked, lambda cell: cell, sort=name)


def _make_published_column(name: str, value: Callable[[PublishedRow], Any]) -> EntryColumn:
    """Make a column that our rows leave empty."""
    return Column(name, lambda entry: value(entry.published) if entry.published else None)


def _make_dev_column(rows: Sequence[LeaderboardRow], *, builtin: bool) -> EntryColumn:
    """Make a column of dev scores on built-in dev sets, or on others."""

    def there(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    title = _format_dev_title([row for row in rows if there(row)])
    return _make_number_column(
        title, lambda row: row.dev_score if there(row) else None, score_cell, sort=DEV
    )


def _format_dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """Format the title of the dev column, with the dev set or source that all rows share."""
    for known in ({shown_dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _select_ranked_row(row: LeaderboardRow) -> LeaderboardRow | None:
    """Return the row if it is ranked among several; else None."""
    return row if row.rank is not None and row.rank.among > 1 else None


def _format_rank(row: LeaderboardRow) -> Cell:
    rank, ranked = row.rank, row.ranked_score
    assert rank is not None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _format_seed_count(row: LeaderboardRow, headline: str) -> str:
    """Format the number of seeds of the headline, and of how many if some are not scored."""
    estimate = estimates(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"


def _format_gap(gap: Gap) -> str:
    verdict = {True: " inside", False: " outside", None: ""}[gap.inside]
    return signed_percent(gap.difference) + verdict


def _format_dev_sets(row: LeaderboardRow) -> str:
    same = row.dev.checkpoint == row.dev.search
    return shown_dev_set(row) + ("" if same else f", checkpoint by {row.dev.checkpoint}")


def _format_evaluation(row: LeaderboardRow) -> str:
    return row.ranked_score.identity[:HASH_DIGITS] if row.ranked_score else ""


def _format_method(entry: Entry) -> Cell:
    row = entry.published
    star = STARRED if entry.row and entry.row.starred else ""  # which no paper's table has
    name = row.system if row else entry.row.shown_method if entry.row else ""
    return Cell(name, mark=join_marks(star, entry.mark))


_METHOD: EntryColumn = Column("method", _format_method, lambda cell: cell, sort="method")
_BACKBONE: EntryColumn = Column(
    "backbone",
    lambda entry: (
        entry.row.shown_backbone if entry.row else getattr(entry.published, "backbone", None)
    ),
    sort="backbone",
)
_KEYS: dict[str, Callable[[LeaderboardRow], str]] = {
    "method": lambda row: row.shown_method,
    "backbone": lambda row: row.shown_backbone,
    "dev set": shown_dev_set,
    "configuration": short_hash,
    "evaluation": _format_evaluation,
}
"""The values that distinguish our rows."""
_SORTS_OF_KEYS = {"dev set": "dev_set", "configuration": "configuration"}
SETTING_COLUMNS = (
    _make_our_column("configuration", short_hash, sort="configuration"),
    _make_our_column("trial", short_key),
    _make_our_column("code", _format_unknown_code),
    _make_our_column("searched", searched_settings),
)
NOTES_WIDTH = 60
"""Characters of notes that a table shows; `cse-leaderboard show` has all of them."""
SWEEP_COLUMNS = (
    _make_our_column("sweep", lambda row: row.sweep, sort="sweep"),
    _make_our_column("dev set", _format_dev_sets, sort="dev_set"),
    _make_our_column("corpus", lambda row: row.corpus, sort="corpus"),
    _make_our_column("tags", lambda row: ", ".join(row.tags), sort="tags"),
    _make_our_column(
        "notes", lambda row: shorten(" / ".join(row.notes), NOTES_WIDTH, placeholder="…")
    ),
)
RUN_COLUMNS = (
    _make_number_column("trials", lambda row: row.trials, sort="trials"),
    _make_number_column(
        "GPU-hours", lambda row: row.gpu_hours, lambda hours: f"{hours:.1f}", sort="gpu_hours"
    ),
    _make_number_column(
        "wall time a trial", lambda row: row.wall_seconds, clock, sort="wall_seconds"
    ),
    _make_our_column(
        "finished", lambda row: row.finished, lambda day: f"{day:%Y-%m-%d}", sort="finished"
    ),
    _make_our_column("machines", lambda row: ", ".join(row.machines), sort="machines"),
)
COST_COLUMNS = tuple(map(_make_cost_column, COSTS))
SOURCE_COLUMNS = (
    _make_published_column("published settings", lambda row: row.label),
    _make_published_column("source", lambda row: ", ".join(row.sources)),
)
