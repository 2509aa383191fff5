"""A paper's table with our rows in it, and the list of all of them, for people and programs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from cse_platform.leaderboard.published.paper_files import FOLDER, WHOLE, PaperProgress
from cse_platform.leaderboard.published.paper_tables import (
    CellGap,
    PaperLine,
    PaperTable,
    Verdict,
)
from cse_platform.leaderboard.render.board import published_cell
from cse_platform.leaderboard.render.board_data import estimate_records
from cse_platform.leaderboard.render.cells import score_cell
from cse_platform.leaderboard.row import Estimate
from cse_platform.render.formats import HASH_DIGITS, signed_percent
from cse_platform.render.serialise import to_csv
from cse_platform.render.table import Cell, Column, Table, grouped, to_table
from cse_platform.tracking.effort import COSTS

PaperCell = tuple[PaperLine, str]
"""A line of the table and the name of a column."""

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
    """One row of the table for people: a printed line, ours below it, or the difference."""

    backbone: str
    method: str
    cells: Mapping[str, Cell]
    """By column."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """By column, what the best and the second of a column are found by; a difference has none."""


def paper_layout(table: PaperTable) -> Table:
    """Each line as it is printed, ours and the difference below it; a line between backbones.

    The best and second of a column are those of a backbone, printed ones and ours together.
    """
    lines = [shown for line in table.lines for shown in _shown_lines(line)]
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
            *map(_paper_column, table.columns),
        ],
        grouped(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}{scale}",
        notes=(*([PAPERS_NOISE] if alone else []), *table.notes),
        legend=LEGEND,
        compare_groups=True,
    )


def _paper_column(name: str) -> Column[ShownLine]:
    return Column(
        name,
        lambda line: line.cells.get(name),
        lambda cell: cell,
        align="right",
        compared=None if name in COSTS else lambda line: line.scores.get(name),
    )


def paper_record(table: PaperTable) -> dict[str, Any]:
    """What JSON has of a paper's table."""
    names = (
        *("backbone", "method", "label", "published", "published_std", "published_n"),
        *("configuration", "n", "released"),
    )
    lines = [
        {
            **{name: getattr(line, name) for name in names},
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **estimate_records(line.ours, prefix="ours"),
            "differences": {column: _gap_record(gap) for column, gap in line.gaps.items()},
        }
        for line in table.lines
    ]
    return asdict(table) | {"lines": lines}


def _gap_record(gap: CellGap) -> dict[str, Any]:
    interval = gap.interval and (gap.interval.low, gap.interval.high)
    return {"value": gap.value, "interval": interval, "verdict": gap.verdict}


def paper_csv(table: PaperTable) -> str:
    """A line for each number that is printed or is ours."""
    columns: list[Column[PaperCell]] = [
        Column("paper", lambda _: table.paper),
        Column("table", lambda _: table.table),
        *map(_of_line, ("backbone", "method", "label")),
        Column("column", lambda cell: cell[1]),
        Column("published", lambda cell: cell[0].published.get(cell[1])),
        Column("published_std", lambda cell: cell[0].published_std.get(cell[1])),
        _of_ours("configuration", lambda line, _: line.configuration),
        _of_ours("n", lambda line, column: line.ours[column].n),
        _of_ours("ours", lambda line, column: line.ours[column].mean),
        _of_ours("ours_std", lambda line, column: line.ours[column].std),
        _of_ours("difference", lambda line, column: line.gaps[column].value),
        _of_ours("difference_low", lambda line, column: _bound(line.gaps[column], "low")),
        _of_ours("difference_high", lambda line, column: _bound(line.gaps[column], "high")),
        _of_ours("verdict", lambda line, column: line.gaps[column].verdict),
    ]
    return to_csv(columns, [(line, column) for line in table.lines for column in line.published])


def _of_line(name: str) -> Column[PaperCell]:
    return Column(name, lambda cell: getattr(cell[0], name))


def _of_ours(name: str, value: Callable[[PaperLine, str], Any]) -> Column[PaperCell]:
    """A column that is empty where nothing of ours stands in the cell."""
    return Column(name, lambda cell: value(*cell) if cell[1] in cell[0].ours else None)


def _bound(gap: CellGap, end: str) -> float | None:
    return None if gap.interval is None else getattr(gap.interval, end)


def _shown_lines(line: PaperLine) -> Iterator[ShownLine]:
    printed = {
        column: published_cell(column, value, line.published_std.get(column))
        for column, value in line.published.items()
    }
    name = f"{line.method} ({line.label})" if line.label else line.method
    yield ShownLine(line.backbone, name, printed, line.published)
    if line.ours:
        ours = {column: _our_cell(column, one) for column, one in line.ours.items()}
        means = {column: one.mean for column, one in line.ours.items()}
        yield ShownLine(line.backbone, _our_name(line), ours, means)
        gaps = {column: _gap_cell(column, gap) for column, gap in line.gaps.items()}
        yield ShownLine(line.backbone, "difference", gaps)


def _gap_cell(column: str, gap: CellGap) -> Cell:
    text = f"{gap.value:+.1f}" if column in COSTS else signed_percent(gap.value)
    return Cell(text, mark=VERDICT_MARKS[gap.verdict])


def _our_cell(column: str, ours: Estimate) -> Cell:
    if column not in COSTS:
        return score_cell(ours)
    return Cell(f"{ours.mean:.1f}", spread="" if ours.std is None else f"{ours.std:.1f}")


def _our_name(line: PaperLine) -> str:
    """With its seeds, from the fewest to the most of any column, and its configuration."""
    seeds = [estimate.n for estimate in line.ours.values()]
    n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
    begins = f"released, not ours ({line.released}, " if line.released else "ours ("
    return f"{begins}n = {n}, {(line.configuration or '')[:HASH_DIGITS]})"


def papers_layout(listed: Sequence[PaperProgress]) -> list[Table]:
    """A table for each paper: its tables and figures, then the file of all of them."""
    papers = list(grouped(listed, lambda one: one.paper).values())
    return [
        to_table(
            [
                Column("table", lambda one: one.table),
                Column("file", lambda one: one.file and Path(one.file).name),
                _filled("rows", lambda one: (one.rows_filled, one.rows)),
                _filled("cells", lambda one: (one.cells_filled, one.cells)),
                _filled("trials", lambda one: (one.trials_done, one.trials)),
                Column("GPU-hours left", lambda one: one.gpu_hours_left, _hours, align="right"),
                Column("left out", lambda one: sum(one.left_out.values()) or None, align="right"),
            ],
            grouped(of_paper, lambda one: one.table == WHOLE).values(),
            title=f"{of_paper[0].paper}: what our trials fill",
            notes=[
                *_notes_on_left_out(of_paper),
                *(PAPERS_NOTES if of_paper is papers[-1] else ()),
            ],
        )
        for of_paper in papers
    ]


PAPERS_NOTES = (
    f"The files are in {FOLDER}/. A cell is a printed number; those that no file can fill are left "
    "out.",
    "GPU-hours left are those at the head of the file, for the share of its trials that is not "
    "complete here.",
)


def _filled(name: str, counts: Callable[[PaperProgress], tuple[int, int]]) -> Column[PaperProgress]:
    def told(one: PaperProgress) -> str | None:
        filled, total = counts(one)
        return f"{filled} of {total}" if total else None

    return Column(name, told, align="right")


def _hours(hours: float) -> str:
    return f"{hours:.1f}"


def _notes_on_left_out(of_paper: Sequence[PaperProgress]) -> Iterator[str]:
    left_out = Counter[str]()
    for one in of_paper:
        if one.table != WHOLE:
            left_out.update(one.left_out)
    if left_out:
        reasons = (f"{count} {reason}" for reason, count in left_out.items())
        yield f"Left out: {', '.join(reasons)}."


def papers_csv(listed: Sequence[PaperProgress]) -> str:
    """A line for each table or figure."""
    names = [one.name for one in fields(PaperProgress) if one.name != "left_out"]
    columns = [Column[PaperProgress](name, attrgetter(name)) for name in names]
    left_out = Column[PaperProgress]("left_out", lambda one: sum(one.left_out.values()))
    return to_csv([*columns, left_out], listed)
