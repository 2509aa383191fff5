"""Ours in the rows and columns of a paper's table, beside what the paper prints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cse_platform.leaderboard.published.gaps import comparable, matches
from cse_platform.leaderboard.published.row import HARDWARE, PublishedRow, PublishedSplit
from cse_platform.leaderboard.published.rows import published_rows, rows_of_table
from cse_platform.leaderboard.query.board.best import BestKey, best_key
from cse_platform.leaderboard.row import ConfigurationSetup, Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.intervals import gap_interval
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.tracking.effort import COSTS, EPOCH_MINUTES, TRAIN_MINUTES

Verdict = Literal["within noise", "above", "below", "noise not known"]


@dataclass(frozen=True)
class CellGap:
    """How far ours is above a number that the paper prints."""

    value: float
    """A fraction; of a cost, in its unit."""
    interval: Interval | None
    """Of the same over seeds: ours, and the paper's where it prints their standard deviation. None
    where ours is of one seed."""

    @property
    def verdict(self) -> Verdict:
        """Whether it is more than seeds differ by."""
        if self.interval is None:
            return "noise not known"
        if self.interval.low > 0:
            return "above"
        return "below" if self.interval.high < 0 else "within noise"


@dataclass(frozen=True)
class PaperLine:
    """A row of the paper's table, and what of ours stands in it."""

    backbone: str
    method: str
    """As the paper names it."""
    label: str
    """The settings, as the paper words them."""
    published: dict[str, float]
    """By column: fractions, and costs in their own units."""
    published_std: dict[str, float]
    ours: dict[str, Estimate]
    """By column; empty where nothing of ours stands here."""
    configuration: str | None = None
    """The hash of ours."""
    published_n: int | None = None
    """Over how many seeds the paper's numbers are; None where the table does not say."""
    released: str | None = None
    """The released encoder that ours is, where none that was trained here stands in the line."""

    @property
    def gaps(self) -> dict[str, CellGap]:
        """By column, of each cell that has a number of ours beside the paper's."""
        return {
            column: self._gap(ours, self.published[column], self.published_std.get(column))
            for column, ours in self.ours.items()
        }

    def _gap(self, ours: Estimate, printed: float, std: float | None) -> CellGap:
        values = list(ours.values.values())
        interval = gap_interval(values, printed=printed, std=std, n=self.published_n)
        return CellGap(ours.mean - printed, interval)

    @property
    def n(self) -> int:
        """Seeds of ours, the fewest of any column; 0 where nothing of ours stands here."""
        return min((estimate.n for estimate in self.ours.values()), default=0)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper, in its order, grouped by backbone."""

    paper: str
    table: str
    columns: tuple[str, ...]
    lines: tuple[PaperLine, ...]
    notes: tuple[str, ...] = ()
    """What limits the comparison."""


def paper_table(
    paper: str, table: str, ours: Sequence[LeaderboardRow], files: Iterable[str | Path] = ()
) -> PaperTable:
    """Our rows laid out as a table of a paper.

    Each line shows the best on dev of our configurations that fit it and have a score in it; how
    many seeds one has are those of its scores there. A line of dev scores takes them from rows that
    were selected on that very dev set.

    The table goes by its name in the files, or by its bare number. `ours` has a row for every
    configuration; scores on built-in or imported data are left out.

    Raises:
        PublishedError: if there is no such paper or table, with those that there are; or a file is
            malformed.
    """
    rows = rows_of_table(paper, table, published_rows(files=files))
    columns = tuple(dict.fromkeys(column for row in rows for column in row.scores))
    backbones = list(dict.fromkeys(row.backbone for row in rows))
    candidates = {id(row): [one for one in ours if _scores(row, one)] for row in rows}
    lines = [
        line_of_row(row, candidates[id(row)])
        for row in sorted(rows, key=lambda row: backbones.index(row.backbone))
    ]
    notes = [
        *_notes_on_columns(columns, rows),
        *_notes_on_costs(rows[0].paper, columns, lines, candidates.values()),
        *_notes_on_ours(columns, lines, candidates.values()),
    ]
    if left_out := sum(any(_left_out(row, one) for row in rows) for one in ours):
        notes.append(
            f"Scores of {left_out} of our rows left out: they are on built-in or imported data, "
            "and cannot be compared with a paper."
        )
    return PaperTable(rows[0].paper, rows[0].table, columns, tuple(lines), tuple(notes))


def can_stand(rows: Sequence[PublishedRow], ours: ConfigurationSetup) -> bool:
    """Whether a configuration of ours has a score for any of these rows of a paper."""
    return any((ours.is_scored or row.split != "test") and matches(row, ours) for row in rows)


def line_of_row(row: PublishedRow, ours: Iterable[LeaderboardRow]) -> PaperLine:
    """A row of a paper's table, and of ours the best on dev that has a number in it."""

    def key(one: LeaderboardRow) -> tuple[bool, BestKey]:
        return one.released is None, best_key(
            seeds=min(estimate.n for estimate in _scores(row, one).values()),
            mean=one.dev_score.mean,
            configuration=one.configuration.hash,
        )

    best = max((one for one in ours if _scores(row, one)), key=key, default=None)
    return PaperLine(
        backbone=row.backbone,
        method=row.system,
        label=row.label,
        published=row.scores,
        published_std=row.std,
        ours={} if best is None else _scores(row, best),
        configuration=None if best is None else best.configuration.hash,
        published_n=row.seeds,
        released=best.backbone if best and best.released else None,
    )


def _scores(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Our scores in the columns of a published row that can be compared with it."""
    known = _known(row, ours)
    return {column: one for column, one in known.items() if comparable(one, ours.dev)}


def _left_out(row: PublishedRow, ours: LeaderboardRow) -> bool:
    return len(_scores(row, ours)) < len(_known(row, ours))


def _known(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Our numbers in the columns of a published row that ours stands in; none where it does not."""
    if not matches(row, ours.setup):
        return {}
    known = _numbers(ours)[row.split]
    return {column: known[column] for column in row.scores if column in known}


def _numbers(ours: LeaderboardRow) -> dict[PublishedSplit, Mapping[str, Estimate]]:
    """All that a row of ours can fill in papers' tables, by split and column."""
    columns = cost_columns(ours.configuration.values)
    costs = {column: cost for column, cost in ours.costs.items() if column in columns}
    return {"test": ours.scores, "dev": {ours.dev.search: ours.dev_score}, "train": costs}


def cost_columns(values: Mapping[str, Any]) -> set[str]:
    """The costs that a configuration fills: the minutes of all training only if it is whole."""
    return set(COSTS) - ({TRAIN_MINUTES} if "max_steps" in values else set())


def _notes_on_columns(columns: Sequence[str], rows: Sequence[PublishedRow]) -> Iterator[str]:
    if unstated := {column for row in rows for column in row.unstated}:
        named = " and ".join(column for column in columns if column in unstated)
        yield f"The paper does not state how it measures {named}; ours are accuracies."


def _notes_on_costs(
    paper: str,
    columns: Sequence[str],
    lines: Sequence[PaperLine],
    candidates: Iterable[Sequence[LeaderboardRow]],
) -> Iterator[str]:
    """What costs were measured on, and how: on other hardware they are shown, and not compared."""
    costs = [column for column in columns if column in COSTS]
    if not costs:
        return
    theirs = HARDWARE.get(paper, "hardware that is not known")
    ours = {one.identity for line in lines for name, one in line.ours.items() if name in costs}
    hardware = "; ".join(sorted(filter(None, ours))) or "hardware that is not known"
    beside = f", ours of {hardware}: a difference is one of machines too"
    yield f"{' and '.join(costs)}: the paper's are of {theirs}{beside if ours else ''}."
    if ours and TRAIN_MINUTES in costs:
        yield (
            "Our minutes are those of optimiser steps, without evaluations and the start of a "
            "trial; the paper does not say what its minutes include."
        )
    if any(one.epoch_is_extrapolated for rows in candidates for one in rows):
        yield f"Some of our {EPOCH_MINUTES} are extrapolated, from trials of a part of an epoch."


def _notes_on_ours(
    columns: Sequence[str],
    lines: Sequence[PaperLine],
    candidates: Iterable[Sequence[LeaderboardRow]],
) -> Iterator[str]:
    if any(len({one.dev.identity for one in ours}) > 1 for ours in candidates):
        yield (
            "Our row of some lines could be selected on several dev sets, and is the one with the "
            "highest mean on any; filter by identity to settle it."
        )
    for column in (one for one in columns if one not in COSTS):
        n = len({line.ours[column].identity for line in lines if column in line.ours})
        if n > 1:
            yield (
                f"Our scores of {column} are of {n} evaluation identities: filter by one to "
                "compare them."
            )
