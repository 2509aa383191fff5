"""Renders a paper's table with our numbers, and the progress of filling it, for people and
programs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from cse_platform.leaderboard.published.paper_files import FOLDER, WHOLE, PaperProgress
from cse_platform.leaderboard.published.papers import CellGap, PaperLine, PaperTable, Verdict
from cse_platform.leaderboard.records import Estimate
from cse_platform.leaderboard.render.board import published_cell, score_cell
from cse_platform.leaderboard.render.columns import estimate_records
from cse_platform.render.formats import HASH_DIGITS, signed_percent
from cse_platform.render.table import Cell, Column, Table, group_by, to_csv, to_table
from cse_platform.tracking.history import COSTS

PaperCell = tuple[PaperLine, str]
"""A line of the table, and the name of a column."""

VERDICT_MARKS: dict[Verdict, str] = {
    "within noise": "≈",
    "above": "↑",
    "below": "↓",
    "noise not known": "?",
}
LEGEND = {
    "≈": "within noise: the 95 % interval of the difference over seeds holds 0.",
    "↑": "above: the difference is more than seeds vary, with 95 %.",
    "↓": "below: the difference is more than seeds vary, with 95 %.",
    "?": "noise not known: ours is of one seed.",
}
PAPERS_NOISE = (
    "Where the paper prints no standard deviation, its own noise is not known and not in the "
    "interval."
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
    lines = [shown for line in table.lines for shown in _build_shown_lines(line)]
    alone = any(
        gap.interval and not (line.published_n and column in line.published_std)
        for line in table.lines
        for column, gap in line.gaps.items()
    )
    scale = "" if set(table.columns) <= set(COSTS) else ", x 100"
    return to_table(
        [
            Column("backbone", lambda line: line.backbone),
            Column("method", lambda line: line.method),
            *map(_make_paper_column, table.columns),
        ],
        group_by(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}{scale}",
        notes=(*([PAPERS_NOISE] if alone else []), *table.notes),
        legend=LEGEND,
        compare_groups=True,
    )


def _make_paper_column(name: str) -> Column[ShownLine]:
    return Column(
        name,
        lambda line: line.cells.get(name),
        align="right",
        compared=None if name in COSTS else lambda line: line.scores.get(name),
    )


def paper_record(table: PaperTable) -> dict[str, Any]:
    """Make the JSON object of a paper's table."""
    names = (
        *("backbone", "method", "label", "published", "published_std", "published_n"),
        *("configuration", "n", "released"),
    )
    lines = [
        {
            **{name: getattr(line, name) for name in names},
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **estimate_records(line.ours, prefix="ours"),
            "differences": {column: _make_gap_record(gap) for column, gap in line.gaps.items()},
        }
        for line in table.lines
    ]
    return asdict(table) | {"lines": lines}


def _make_gap_record(gap: CellGap) -> dict[str, Any]:
    interval = gap.interval and (gap.interval.low, gap.interval.high)
    return {"value": gap.value, "interval": interval, "verdict": gap.verdict}


def paper_csv(table: PaperTable) -> str:
    """Write a CSV line for each printed number, with ours if there is one."""
    columns: list[Column[PaperCell]] = [
        Column("paper", lambda _: table.paper),
        Column("table", lambda _: table.table),
        *map(_make_line_column, ("backbone", "method", "label")),
        Column("column", lambda cell: cell[1]),
        Column("published", lambda cell: cell[0].published.get(cell[1])),
        Column("published_std", lambda cell: cell[0].published_std.get(cell[1])),
        _make_our_column("configuration", lambda line, _: line.configuration),
        _make_our_column("n", lambda line, column: line.ours[column].n),
        _make_our_column("ours", lambda line, column: line.ours[column].mean),
        _make_our_column("ours_std", lambda line, column: line.ours[column].std),
        _make_our_column("difference", lambda line, column: line.gaps[column].value),
        _make_our_column(
            "difference_low", lambda line, column: _read_bound(line.gaps[column], "low")
        ),
        _make_our_column(
            "difference_high", lambda line, column: _read_bound(line.gaps[column], "high")
        ),
        _make_our_column("verdict", lambda line, column: line.gaps[column].verdict),
    ]
    return to_csv(columns, [(line, column) for line in table.lines for column in line.published])


def _make_line_column(name: str) -> Column[PaperCell]:
    return Column(name, lambda cell: getattr(cell[0], name))


def _make_our_column(name: str, value: Callable[[PaperLine, str], Any]) -> Column[PaperCell]:
    """Make a column that is empty in cells without a number of ours."""
    return Column(name, lambda cell: value(*cell) if cell[1] in cell[0].ours else None)


def _read_bound(gap: CellGap, end: str) -> float | None:
    return None if gap.interval is None else getattr(gap.interval, end)


def _build_shown_lines(line: PaperLine) -> Iterator[ShownLine]:
    printed = {
        column: published_cell(column, value, line.published_std.get(column))
        for column, value in line.published.items()
    }
    name = f"{line.method} ({line.label})" if line.label else line.method
    yield ShownLine(line.backbone, name, printed, line.published)
    if line.ours:
        ours = {column: _format_our_cell(column, score) for column, score in line.ours.items()}
        means = {column: one.mean for column, one in line.ours.items()}
        yield ShownLine(line.backbone, _format_our_name(line), ours, means)
        gaps = {column: _format_gap_cell(column, gap) for column, gap in line.gaps.items()}
        yield ShownLine(line.backbone, "difference", gaps)


def _format_gap_cell(column: str, gap: CellGap) -> Cell:
    text = f"{gap.value:+.1f}" if column in COSTS else signed_percent(gap.value)
    return Cell(text, mark=VERDICT_MARKS[gap.verdict])


def _format_our_cell(column: str, ours: Estimate) -> Cell:
    if column not in COSTS:
        return score_cell(ours)
    return Cell(f"{ours.mean:.1f}", spread="" if ours.std is None else f"{ours.std:.1f}")


def _format_our_name(line: PaperLine) -> str:
    """Name our line, with its configuration and its seeds: the fewest to the most of any column."""
    seeds = [estimate.n for estimate in line.ours.values()]
    n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
    begins = f"released, not ours ({line.released}, " if line.released else "ours ("
    return f"{begins}n = {n}, {(line.configuration or '')[:HASH_DIGITS]})"


def papers_layout(listed: Sequence[PaperProgress]) -> list[Table]:
    """Make a table for each paper: its tables and figures, then the file of the whole paper."""
    papers = list(group_by(listed, lambda progress: progress.paper).values())
    return [
        to_table(
            [
                Column("table", lambda progress: progress.table),
                Column("file", lambda progress: progress.file and Path(progress.file).name),
                _make_count_column("rows", lambda progress: (progress.rows_filled, progress.rows)),
                _make_count_column(
                    "cells", lambda progress: (progress.cells_filled, progress.cells)
                ),
                _make_count_column(
                    "trials", lambda progress: (progress.trials_done, progress.trials)
                ),
                Column(
                    "GPU-hours left",
                    lambda progress: progress.gpu_hours_left,
                    "{:.1f}".format,
                    align="right",
                ),
                Column(
                    "left out",
                    lambda progress: sum(progress.left_out.values()) or None,
                    align="right",
                ),
            ],
            group_by(of_paper, lambda progress: progress.table == WHOLE).values(),
            title=f"{of_paper[0].paper}: what our trials fill",
            notes=[*_note_left_out(of_paper), *(PAPERS_NOTES if of_paper is papers[-1] else ())],
        )
        for of_paper in papers
    ]


PAPERS_NOTES = (
    f"The files are in {FOLDER}/. A cell is a printed number; those that no file can fill are left "
    "out.",
    "GPU-hours left are those at the head of the file, for the share of its trials that is not "
    "complete here.",
)


def _make_count_column(
    name: str, counts: Callable[[PaperProgress], tuple[int, int]]
) -> Column[PaperProgress]:
    def format_count(progress: PaperProgress) -> str | None:
        filled, total = counts(progress)
        return f"{filled} of {total}" if total else None

    return Column(name, format_count, align="right")


def _note_left_out(of_paper: Sequence[PaperProgress]) -> Iterator[str]:
    left_out = Counter[str]()
    for progress in of_paper:
        if progress.table != WHOLE:
            left_out.update(progress.left_out)
    if left_out:
        reasons = (f"{count} {reason}" for reason, count in left_out.items())
        yield f"Left out: {', '.join(reasons)}."


def papers_csv(listed: Sequence[PaperProgress]) -> str:
    """Write a CSV line for each table, figure and whole paper."""
    names = [field.name for field in fields(PaperProgress) if field.name != "left_out"]
    columns = [Column[PaperProgress](name, attrgetter(name)) for name in names]
    left_out = Column[PaperProgress]("left_out", lambda progress: sum(progress.left_out.values()))
    return to_csv([*columns, left_out], listed)
