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
    """Method and backbone, and what else it takes to distinguish these rows of ours."""
    rows = [entry.row for entry in listed if entry.row]

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(_KEYS[name](row) for name in names) for row in rows})

    names = ["method", "backbone"]
    if distinct(["dev set"]) > 1:
        names.append("dev set")
    for name in ("configuration", "evaluation"):
        if distinct(names) < distinct([*names, name]):
            names.append(name)
    return [_METHOD, _BACKBONE, *(_ours(name, _KEYS[name]) for name in names[2:])]


def ranking_columns(headline: str, listed: Sequence[Entry]) -> list[EntryColumn]:
    """The headline's score over seeds, how sure it is, its rank, and dev beside it."""
    rows = [entry.row for entry in listed if entry.row]

    def of(part: Callable[[Estimate], Any]) -> Callable[[LeaderboardRow], Any]:
        def value(row: LeaderboardRow) -> Any:
            estimate = estimates(row).get(headline)
            return None if estimate is None else part(estimate)

        return value

    title = _dev_title(rows) if headline == DEV else ""
    if headline == DEV:
        beside = [_number("untrained", lambda row: row.dev_untrained, percent)]
    else:
        beside = [_dev_column(rows, builtin=builtin) for builtin in (False, True)]
    return [
        score_column(headline, title=title),
        _number("95 % interval", of(lambda estimate: estimate.interval), interval_cell),
        _number("rank", _rank, _rank_cell),
        _number("best of n", of(lambda estimate: estimate.best), percent),
        _number("n", lambda row: _seeds(row, headline)),
        *beside,
        _number("paper", lambda row: row.gap, _gap),
    ]


def searched_settings(row: LeaderboardRow) -> str:
    """The settings that were searched, and are active."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def short_key(row: LeaderboardRow) -> str:
    """The key of the best seed's trial, as far as commands need it."""
    return (row.best_trial or "")[:HASH_DIGITS]


def _unknown_code(row: LeaderboardRow) -> str | None:
    """Said where it is not known, which is of rows that older versions stored."""
    return None if row.configuration.code or row.dev.source == IMPORTED else "unknown"


def _ours(
    name: str, value: Callable[[LeaderboardRow], Any], format: Callable[[Any], Cell | str] = as_text
) -> EntryColumn:
    """A column that published rows leave empty."""
    return Column(name, lambda entry: value(entry.row) if entry.row else None, format, name)


def _number(
    name: str, value: Callable[[LeaderboardRow], Any], format: Callable[[Any], Cell | str] = as_text
) -> EntryColumn:
    return replace(_ours(name, value, format), align="right")


def _cost(name: str) -> EntryColumn:
    """One of `COSTS`, marked where it is of a part of an epoch."""

    def marked(row: LeaderboardRow) -> Cell | None:
        if (cost := row.cost(name)) is None:
            return None
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        return cost_cell(name, cost, extrapolated=part)

    return _number(COST_HEADS[name], marked, lambda cell: cell)


def _theirs(name: str, value: Callable[[PublishedRow], Any]) -> EntryColumn:
    return Column(name, lambda entry: value(entry.published) if entry.published else None)


def _dev_column(rows: Sequence[LeaderboardRow], *, builtin: bool) -> EntryColumn:
    """Dev scores on built-in dev sets, or on others."""

    def there(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    title = _dev_title([row for row in rows if there(row)])
    return _number(title, lambda row: row.dev_score if there(row) else None, score_cell)


def _dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """With the dev set or its source, if all rows have the same."""
    for known in ({shown_dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _rank(row: LeaderboardRow) -> LeaderboardRow | None:
    return row if row.rank is not None and row.rank.among > 1 else None


def _rank_cell(row: LeaderboardRow) -> Cell:
    rank, ranked = row.rank, row.ranked_score
    assert rank is not None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _seeds(row: LeaderboardRow, headline: str) -> str:
    """How many seeds the headline is over; of how many, where others were not scored."""
    estimate = estimates(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"


def _gap(gap: Gap) -> str:
    verdict = {True: " inside", False: " outside", None: ""}[gap.inside]
    return signed_percent(gap.difference) + verdict


def _dev_sets(row: LeaderboardRow) -> str:
    same = row.dev.checkpoint == row.dev.search
    return shown_dev_set(row) + ("" if same else f", checkpoint by {row.dev.checkpoint}")


def _evaluation(row: LeaderboardRow) -> str:
    return row.ranked_score.identity[:HASH_DIGITS] if row.ranked_score else ""


def _method(entry: Entry) -> Cell:
    row = entry.published
    star = STARRED if entry.row and entry.row.starred else ""  # which no paper's table has
    name = row.system if row else entry.row.shown_method if entry.row else ""
    return Cell(name, mark=join_marks(star, entry.mark))


_METHOD: EntryColumn = Column("method", _method, lambda cell: cell)
_BACKBONE: EntryColumn = Column(
    "backbone",
    lambda entry: (
        entry.row.shown_backbone if entry.row else getattr(entry.published, "backbone", None)
    ),
)
_KEYS: dict[str, Callable[[LeaderboardRow], str]] = {
    "method": lambda row: row.shown_method,
    "backbone": lambda row: row.shown_backbone,
    "dev set": shown_dev_set,
    "configuration": short_hash,
    "evaluation": _evaluation,
}
"""What distinguishes rows of ours."""
SETTING_COLUMNS = (
    _ours("configuration", short_hash),
    _ours("trial", short_key),
    _ours("code", _unknown_code),
    _ours("searched", searched_settings),
)
NOTES_WIDTH = 60
"""Characters of notes that a table shows; `cse-leaderboard show` has all of them."""
SWEEP_COLUMNS = (
    _ours("sweep", lambda row: row.sweep),
    _ours("dev set", _dev_sets),
    _ours("corpus", lambda row: row.corpus),
    _ours("tags", lambda row: ", ".join(row.tags)),
    _ours("notes", lambda row: shorten(" / ".join(row.notes), NOTES_WIDTH, placeholder="…")),
)
RUN_COLUMNS = (
    _number("trials", lambda row: row.trials),
    _number("GPU-hours", lambda row: row.gpu_hours, lambda hours: f"{hours:.1f}"),
    _number("wall time a trial", lambda row: row.wall_seconds, clock),
    _ours("finished", lambda row: row.finished, lambda finished: f"{finished:%Y-%m-%d}"),
    _ours("machines", lambda row: ", ".join(row.machines)),
)
COST_COLUMNS = tuple(map(_cost, COSTS))
SOURCE_COLUMNS = (
    _theirs("published settings", lambda row: row.label),
    _theirs("source", lambda row: ", ".join(row.sources)),
)
