"""Sets our numbers in the rows and columns of a paper's table, for people and programs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from cse_platform.leaderboard.columns import estimate_records, published_cell, score_cell
from cse_platform.leaderboard.published.rows import (
    BACKBONE,
    HARDWARE,
    PublishedRow,
    PublishedSplit,
    has_settings_of,
    is_comparable,
)
from cse_platform.leaderboard.records import BestKey, Estimate, LeaderboardRow, best_key
from cse_platform.leaderboard.statistics.intervals import Interval, gap_interval
from cse_platform.render.table import (
    HASH_DIGITS,
    Cell,
    Column,
    Document,
    Table,
    group_by,
    signed_percent,
    to_csv,
    to_table,
)
from cse_platform.sweep.rehearsal import BRIEF, ENCODER
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES, TRAIN_MINUTES

Verdict = Literal["within noise", "above", "below", "noise not known"]


@dataclass(frozen=True)
class CellGap:
    """Our number minus the one that the paper prints."""

    value: float
    """A fraction; for a cost, in its own unit."""
    interval: Interval | None
    """Confidence interval of the difference over our seeds, and over the paper's if it prints their
    standard deviation. None if ours is of one seed.
    """

    @property
    def verdict(self) -> Verdict:
        """Whether the difference exceeds the variation over seeds."""
        if self.interval is None:
            return "noise not known"
        if self.interval.low > 0:
            return "above"
        return "below" if self.interval.high < 0 else "within noise"


@dataclass(frozen=True)
class PaperLine:
    """A row of the paper's table, with our numbers."""

    backbone: str
    method: str
    """As the paper names it."""
    label: str
    """The settings, as the paper words them."""
    published: dict[str, float]
    """The paper's numbers by column: fractions, and costs in their own units."""
    published_std: dict[str, float]
    ours: dict[str, Estimate]
    """Our numbers by column; empty if no row of ours matches."""
    configuration: str | None = None
    """The hash of our configuration."""
    published_n: int | None = None
    """The number of seeds of the paper's numbers; None if the table does not say."""
    released: str | None = None
    """The released encoder, if our numbers are of one; None if they were trained here."""

    @property
    def gaps(self) -> dict[str, CellGap]:
        """The differences of the columns that have a number of ours."""
        gaps = {}
        for column, ours in self.ours.items():
            printed, std = self.published[column], self.published_std.get(column)
            values = list(ours.values.values())
            interval = gap_interval(values, printed=printed, std=std, n=self.published_n)
            gaps[column] = CellGap(ours.mean - printed, interval)
        return gaps

    @property
    def n(self) -> int:
        """The number of our seeds, the fewest of any column; 0 if no row of ours matches."""
        return min((estimate.n for estimate in self.ours.values()), default=0)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper in its own order, grouped by backbone, with our numbers."""

    paper: str
    table: str
    columns: tuple[str, ...]
    lines: tuple[PaperLine, ...]
    notes: tuple[str, ...] = ()
    """The limits of the comparison."""
    rehearsed: bool = False
    """Whether our numbers are of a rehearsal, which mean nothing."""


def paper_table(rows: Sequence[PublishedRow], ours: Sequence[LeaderboardRow]) -> PaperTable:
    """Lay out our rows as a table of a paper, which has these rows.

    Each line shows, of our configurations that match it and have a score in it, the best on dev;
    its seeds are those with scores there. For a line of dev scores, only rows selected on that dev
    set count. `ours` has a row for every configuration; scores on built-in or imported data are
    left out, unless a rehearsal's trials stand in for those of the row.
    """
    columns = tuple(dict.fromkeys(column for row in rows for column in row.scores))
    backbones = list(dict.fromkeys(row.backbone for row in rows))
    candidates = {
        id(row): [our_row for our_row in ours if _select_comparable_scores(row, our_row)]
        for row in rows
    }
    lines = [
        line_of_row(row, candidates[id(row)])
        for row in sorted(rows, key=lambda row: backbones.index(row.backbone))
    ]
    notes = []
    if unstated := {column for row in rows for column in row.unstated}:
        named = " and ".join(column for column in columns if column in unstated)
        notes.append(f"The paper does not state how it measures {named}; ours are accuracies.")
    notes += _note_costs(rows[0].paper, columns, lines, candidates.values())
    if any(len({our_row.dev.identity for our_row in of}) > 1 for of in candidates.values()):
        notes.append(
            "Some lines have rows of ours with several dev sets; the one with the highest dev "
            "mean is shown. Filter by identity to see another."
        )
    for column in (column for column in columns if column not in COSTS):
        n = len({line.ours[column].identity for line in lines if column in line.ours})
        if n > 1:
            notes.append(
                f"Our scores of {column} have {n} evaluation identities: filter by identity "
                "to compare them."
            )
    left_out = sum(
        any(
            len(_select_comparable_scores(row, our_row))
            < len(_select_matching_numbers(row, our_row))
            for row in rows
        )
        for our_row in ours
    )
    if left_out:
        notes.append(
            f"Scores of {left_out} of our rows are left out: built-in and imported data cannot "
            "be compared with a paper."
        )
    return PaperTable(
        rows[0].paper,
        rows[0].table,
        columns,
        tuple(lines),
        tuple(notes),
        rehearsed=any(row.rehearsed for row in rows),
    )


def as_rehearsed(row: PublishedRow) -> PublishedRow:
    """Return a row that the trials match which `--smoke` runs in place of the row's own.

    Their encoders are `mini`, and how long they train is not compared.
    """

    def stand_in(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(stand_in, value))
        return (
            {**value, "model": ENCODER} if isinstance(value, dict) and "model" in value else value
        )

    if row.configuration is None:
        return row
    brief = {*BRIEF, "batch_size"}
    kept = {name: stand_in(v) for name, v in row.configuration.items() if name not in brief}
    return replace(row, configuration={**kept, BACKBONE: ENCODER}, rehearsed=True)


def line_of_row(row: PublishedRow, ours: Iterable[LeaderboardRow]) -> PaperLine:
    """Build the line of a paper's row from our best configuration on dev that has a number."""

    def key(our_row: LeaderboardRow) -> tuple[bool, BestKey]:
        return our_row.released is None, best_key(
            seeds=min(estimate.n for estimate in _select_comparable_scores(row, our_row).values()),
            mean=our_row.dev_score.mean,
            configuration=our_row.configuration.hash,
        )

    best = max(
        (our_row for our_row in ours if _select_comparable_scores(row, our_row)),
        key=key,
        default=None,
    )
    return PaperLine(
        backbone=row.backbone,
        method=row.system,
        label=row.label,
        published=row.scores,
        published_std=row.std,
        ours={} if best is None else _select_comparable_scores(row, best),
        configuration=None if best is None else best.configuration.hash,
        published_n=row.seeds,
        released=best.backbone if best and best.released else None,
    )


def _select_comparable_scores(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Select our scores in the columns of a published row that can be compared with it."""
    numbers = _select_matching_numbers(row, ours)
    return {
        column: score
        for column, score in numbers.items()
        if row.rehearsed or is_comparable(score, ours.dev)
    }


def _select_matching_numbers(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Select our numbers in the columns of a published row; none if ours does not match it."""
    if not has_settings_of(row, ours.setup):
        return {}
    columns = cost_columns(ours.configuration.values)
    by_split: dict[PublishedSplit, Mapping[str, Estimate]] = {
        "test": ours.scores,
        "dev": {ours.dev.search: ours.dev_score},
        "train": {column: cost for column, cost in ours.costs.items() if column in columns},
    }
    numbers = by_split[row.split]
    return {column: numbers[column] for column in row.scores if column in numbers}


def cost_columns(values: Mapping[str, Any]) -> set[str]:
    """List the cost columns that a configuration can fill; with `max_steps`, no train minutes."""
    return set(COSTS) - ({TRAIN_MINUTES} if "max_steps" in values else set())


def _note_costs(
    paper: str,
    columns: Sequence[str],
    lines: Sequence[PaperLine],
    candidates: Iterable[Sequence[LeaderboardRow]],
) -> Iterator[str]:
    """Note the hardware of costs, and how they were measured; times depend on both."""
    costs = [column for column in columns if column in COSTS]
    if not costs:
        return
    theirs = HARDWARE.get(paper, "unknown hardware")
    ours = {cost.identity for line in lines for name, cost in line.ours.items() if name in costs}
    hardware = "; ".join(sorted(filter(None, ours))) or "unknown hardware"
    beside = f", ours of {hardware}: part of a difference is the machine's"
    yield f"{' and '.join(costs)}: the paper's are of {theirs}{beside if ours else ''}."
    if ours and TRAIN_MINUTES in costs:
        yield (
            "Our minutes cover optimiser steps, not evaluations or the start of a trial; the "
            "paper does not say what its minutes cover."
        )
    if any(row.epoch_is_extrapolated for rows in candidates for row in rows):
        yield f"Some of our {EPOCH_MINUTES} are extrapolated from less than one epoch."


PaperCell = tuple[PaperLine, str]
"""A line of the table, and the name of a column."""

VERDICT_MARKS: dict[Verdict, str] = {
    "within noise": "≈",
    "above": "↑",
    "below": "↓",
    "noise not known": "?",
}

LEGEND = {
    "≈": "within noise: the 95 % interval of the difference over seeds includes 0.",
    "↑": "above: the 95 % interval of the difference over seeds lies above 0.",
    "↓": "below: the 95 % interval of the difference over seeds lies below 0.",
    "?": "noise unknown: ours has one seed.",
}

PAPERS_NOISE = (
    "Where the paper prints no standard deviation, the interval lacks the paper's own noise."
)


@dataclass(frozen=True)
class ShownLine:
    """A line of the table for people: a printed row, our row below it, or the difference."""

    backbone: str
    method: str
    cells: Mapping[str, Cell]
    """The cells by column."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The scores that compete for best and second best in a column; empty for a difference."""


def paper_layout(table: PaperTable) -> Table:
    """Make a table of each printed row, with ours and the difference below it, by backbone.

    The best and second best of a column are found per backbone, among printed rows and ours
    together.
    """
    lines = [
        shown
        for line in table.lines
        for shown in _build_shown_lines(line, rehearsed=table.rehearsed)
    ]
    alone = not table.rehearsed and any(
        gap.interval and not (line.published_n and column in line.published_std)
        for line in table.lines
        for column, gap in line.gaps.items()
    )

    def make_column(name: str) -> Column[ShownLine]:
        compared = None if name in COSTS else lambda line: line.scores.get(name)
        return Column(name, lambda line: line.cells.get(name), align="right", compared=compared)

    scale = "" if set(table.columns) <= set(COSTS) else ", x 100"
    filled = f"{sum(bool(line.ours) for line in table.lines)} of {len(table.lines)} rows are yours"
    rehearsal = ", from a rehearsal, so they mean nothing" * table.rehearsed
    return to_table(
        [
            Column("backbone", lambda line: line.backbone),
            Column("method", lambda line: line.method),
            *map(make_column, table.columns),
        ],
        group_by(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}{scale}: the paper's numbers; {filled}{rehearsal}",
        notes=(*([PAPERS_NOISE] if alone else []), *table.notes),
        legend=LEGEND,
        compare_groups=True,
    )


def paper_document(table: PaperTable) -> Document:
    """Make the document of a paper's table."""
    return Document(
        lambda _wide: [paper_layout(table)],
        lambda: _write_csv(table),
        lambda: _make_record(table),
    )


def _make_record(table: PaperTable) -> dict[str, Any]:
    names = (
        *("backbone", "method", "label", "published", "published_std", "published_n"),
        *("configuration", "n", "released"),
    )
    lines = [
        {
            **{name: getattr(line, name) for name in names},
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **estimate_records(line.ours, prefix="ours"),
            "differences": {
                column: {
                    "value": gap.value,
                    "interval": gap.interval and (gap.interval.low, gap.interval.high),
                    "verdict": gap.verdict,
                }
                for column, gap in line.gaps.items()
            },
        }
        for line in table.lines
    ]
    return asdict(table) | {"lines": lines}


def _write_csv(table: PaperTable) -> str:
    """Write a CSV line for each printed number, with ours if there is one."""
    columns: list[Column[PaperCell]] = [
        Column("paper", lambda _: table.paper),
        Column("table", lambda _: table.table),
        Column("backbone", lambda cell: cell[0].backbone),
        Column("method", lambda cell: cell[0].method),
        Column("label", lambda cell: cell[0].label),
        Column("column", lambda cell: cell[1]),
        Column("published", lambda cell: cell[0].published.get(cell[1])),
        Column("published_std", lambda cell: cell[0].published_std.get(cell[1])),
        _make_our_column("configuration", lambda line, _: line.configuration),
        _make_our_column("n", lambda line, column: line.ours[column].n),
        _make_our_column("ours", lambda line, column: line.ours[column].mean),
        _make_our_column("ours_std", lambda line, column: line.ours[column].std),
        _make_our_column("difference", lambda line, column: line.gaps[column].value),
        _make_our_column("difference_low", lambda line, column: _read_end(line, column, "low")),
        _make_our_column("difference_high", lambda line, column: _read_end(line, column, "high")),
        _make_our_column("verdict", lambda line, column: line.gaps[column].verdict),
    ]
    return to_csv(columns, [(line, column) for line in table.lines for column in line.published])


def _make_our_column(name: str, value: Callable[[PaperLine, str], Any]) -> Column[PaperCell]:
    """Make a column that is empty in cells without a number of ours."""
    return Column(name, lambda cell: value(*cell) if cell[1] in cell[0].ours else None)


def _read_end(line: PaperLine, column: str, end: str) -> float | None:
    """Read an end of the interval of a difference; None without an interval."""
    return getattr(line.gaps[column].interval, end, None)


def _build_shown_lines(line: PaperLine, *, rehearsed: bool) -> Iterator[ShownLine]:
    """Yield the printed row, ours and the difference; of a rehearsal, which does not compete, only
    the first two.
    """
    printed = {
        column: published_cell(column, value, line.published_std.get(column))
        for column, value in line.published.items()
    }
    name = f"{line.method} ({line.label})" if line.label else line.method
    yield ShownLine(line.backbone, name, printed, line.published)
    if line.ours:
        seeds = [estimate.n for estimate in line.ours.values()]  # may differ by column
        n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
        begins = f"released, not ours ({line.released}, " if line.released else "ours ("
        begins = "rehearsed (" if rehearsed else begins
        name = f"{begins}n = {n}, {(line.configuration or '')[:HASH_DIGITS]})"
        ours, gaps = dict[str, Cell](), dict[str, Cell]()
        for column, score in line.ours.items():
            gap = line.gaps[column]
            ours[column], text = score_cell(score), signed_percent(gap.value)
            if column in COSTS:
                std = "" if score.std is None else f"{score.std:.1f}"
                ours[column], text = Cell(f"{score.mean:.1f}", spread=std), f"{gap.value:+.1f}"
            gaps[column] = Cell(text, mark=VERDICT_MARKS[gap.verdict])
        means = {column: score.mean for column, score in line.ours.items()}
        yield ShownLine(line.backbone, name, ours, {} if rehearsed else means)
        if not rehearsed:
            yield ShownLine(line.backbone, "difference", gaps)
