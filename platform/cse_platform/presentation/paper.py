"""A paper's table beside our numbers, and how far our trials fill the papers' tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from operator import itemgetter
from pathlib import Path
from typing import Any

from cse_platform.leaderboard.papers import (
    WHOLE,
    LeftOut,
    PaperLine,
    PaperProgress,
    PaperTable,
    Verdict,
)
from cse_platform.numbers import HASH_DIGITS, percent, signed_percent
from cse_platform.presentation.board_columns import ESTIMATE_PARTS, score_cell
from cse_platform.presentation.board_entries import (
    CHOICE_MEANS,
    CHOSEN,
    mark_cautions,
)
from cse_platform.presentation.board_entries import LEGEND as ROW_LEGEND
from cse_platform.presentation.tables import (
    Cell,
    Column,
    Document,
    Table,
    read_path,
    to_csv,
    to_table,
)
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES, TRAIN_MINUTES
from cse_platform.values import group_by

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


@dataclass(frozen=True)
class ShownLine:
    """A line of the table for people: a printed row, our row below it, or the difference."""

    backbone: str
    method: str
    cells: Mapping[str, Cell]
    scores: Mapping[str, float] = field(default_factory=dict)
    """The scores that compete for best and second best in a column; empty for a difference."""
    mark: str = ""
    """The mark after our row's name."""


def paper_layout(table: PaperTable) -> Table:
    """Make a table of each printed row, with ours and the difference below it, by backbone.

    The best and second best of a column are found per backbone, among printed rows and ours
    together.
    """
    lines = [shown for line in table.lines for shown in _build_shown_lines(line)]
    alone = any(
        gap.interval and not (line.row.seeds and column in line.row.std)
        for line in table.lines
        for column, gap in line.gaps.items()
    )

    def make_column(name: str) -> Column[ShownLine]:
        compared = None if name in COSTS else lambda line: line.scores.get(name)
        return Column(name, lambda line: line.cells.get(name), align="right", compared=compared)

    noise = (
        "Where the paper prints no standard deviation, the interval lacks the paper's own noise."
    )
    scale = "" if set(table.columns) <= set(COSTS) else ", x 100"
    filled = f"{sum(bool(line.ours) for line in table.lines)} of {len(table.lines)} rows are yours"
    return to_table(
        [
            Column("backbone"),
            Column("method", lambda line: Cell(line.method, mark=line.mark)),
            *map(make_column, table.columns),
        ],
        group_by(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}{scale}: the paper's numbers; {filled}",
        notes=(*([noise] if alone else []), *_describe_limits(table)),
        legend={CHOSEN: f"{CHOICE_MEANS}.", **ROW_LEGEND, **LEGEND},
        compare_groups=True,
    )


def _describe_limits(table: PaperTable) -> Iterator[str]:
    """Describe the limits of the comparison."""
    if table.unstated:
        named = " and ".join(table.unstated)
        yield f"The paper does not state how it measures {named}; ours are accuracies."
    if costs := [column for column in table.columns if column in COSTS]:
        ours = "; ".join(filter(None, table.our_hardware)) or "unknown hardware"
        yield (
            f"{' and '.join(costs)}: the paper's are of "
            + (f"an {table.hardware}" if table.hardware else "unknown hardware")
            + f", ours of {ours}: part of a difference is the machine's" * bool(table.our_hardware)
            + "."
        )
        if table.our_hardware and TRAIN_MINUTES in costs:
            yield (
                "Our minutes cover optimiser steps, not evaluations or the start of a trial; the "
                "paper does not say what its minutes cover."
            )
        if table.has_extrapolated:
            yield f"Some of our {EPOCH_MINUTES} are extrapolated from less than one epoch."
    if table.has_several_dev_sets:
        yield (
            "Some lines have rows of ours with several dev sets; the one with the highest dev "
            "mean is shown. Filter by identity to see another."
        )
    for column, n in table.identities.items():
        yield (
            f"Our scores of {column} have {n} evaluation identities: filter by identity to compare "
            "them."
        )
    if table.other_dev_sets:
        yield (
            f"Rows of ours match a line except for their dev sets: "
            f"{', '.join(table.other_dev_sets)}. A line takes the dev set that its settings name, "
            "selected_on=NAME, and otherwise STS-B or SICK-R."
        )
    if table.left_out:
        yield (
            f"Scores of {table.left_out} of our rows are left out: built-in and imported data "
            "cannot be compared with a paper."
        )


def paper_document(table: PaperTable) -> Document:
    """Make the document of a paper's table; CSV has a line for each printed number, with ours."""
    cells = [_make_csv_cells(table, line, name) for line in table.lines for name in line.row.scores]
    columns = [Column[dict[str, Any]](name, itemgetter(name)) for name in cells[0]]
    return Document(
        lambda: [paper_layout(table)], lambda: to_csv(columns, cells), lambda: _make_record(table)
    )


def _make_record(table: PaperTable) -> dict[str, Any]:
    lines = [
        {
            "backbone": line.row.backbone,
            "method": line.row.system,
            "label": line.row.label,
            "published": line.row.scores,
            "published_std": line.row.std,
            "published_n": line.row.seeds,
            "configuration": line.configuration,
            "n": line.n,
            "released": line.released,
            "cautions": line.cautions,
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **{
                f"ours_{name}": {column: part(score) for column, score in line.ours.items()}
                for name, part in ESTIMATE_PARTS.items()
            },
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


def _make_csv_cells(table: PaperTable, line: PaperLine, column: str) -> dict[str, Any]:
    """Make the cells of a CSV line; those of ours are None without a number of ours."""
    ours, gap = line.ours.get(column), line.gaps.get(column)
    return {
        "paper": table.paper,
        "table": table.table,
        "backbone": line.row.backbone,
        "method": line.row.system,
        "label": line.row.label,
        "column": column,
        "published": line.row.scores[column],
        "published_std": line.row.std.get(column),
        "configuration": line.configuration if ours else None,
        "n": ours and ours.n,
        "ours": ours and ours.mean,
        "ours_std": ours and ours.std,
        "cautions": ", ".join(line.cautions) if ours else None,
        "difference": gap and gap.value,
        "difference_low": gap and read_path(gap, "interval.low"),
        "difference_high": gap and read_path(gap, "interval.high"),
        "verdict": gap and gap.verdict,
    }


def _build_shown_lines(line: PaperLine) -> Iterator[ShownLine]:
    """Yield the printed row, ours and the difference."""
    printed = {
        column: Cell(f"{value:g}")
        if column in COSTS
        else Cell(percent(value), spread=percent(line.row.std.get(column)))
        for column, value in line.row.scores.items()
    }
    backbone, name = line.row.backbone, line.row.system
    name += f" ({line.row.label})" if line.row.label else ""
    yield ShownLine(backbone, name, printed, line.row.scores)
    if line.ours:
        seeds = [estimate.n for estimate in line.ours.values()]  # may differ by column
        n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
        begins = f"released, not ours ({line.released}, " if line.released else "ours ("
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
        yield ShownLine(backbone, name, ours, means, mark_cautions(line.cautions))
        yield ShownLine(backbone, "difference", gaps)


def papers_layout(listed: Sequence[PaperProgress]) -> list[Table]:
    """Make a table for each paper: its tables and figures, then the file of the whole paper."""

    def count(name: str, filled: str, total: str) -> Column[PaperProgress]:
        def format_count(progress: PaperProgress) -> str | None:
            possible = getattr(progress, total)
            return f"{getattr(progress, filled)} of {possible}" if possible else None

        return Column(name, format_count, align="right")

    columns: list[Column[PaperProgress]] = [
        Column("table"),
        Column("file", lambda progress: progress.file and Path(progress.file).name),
        count("rows", "rows_filled", "rows"),
        count("cells", "cells_filled", "cells"),
        count("trials", "trials_done", "trials"),
        Column("left out", lambda p: sum(p.left_out.values()) or None, align="right"),
    ]
    tables, papers = list[Table](), group_by(listed, lambda progress: progress.paper)
    for paper, of_paper in papers.items():
        left_out = Counter[LeftOut]()
        for progress in of_paper:
            left_out.update(progress.left_out if progress.table != WHOLE else {})
        listed_why = ", ".join(f"{n} {LEFT_OUT[why]}" for why, n in left_out.items())
        notes = [f"Left out: {listed_why}."] if left_out else []
        notes += PAPERS_NOTES if len(tables) == len(papers) - 1 else ()
        groups = group_by(of_paper, lambda progress: progress.table == WHOLE).values()
        tables.append(
            to_table(columns, groups, title=f"{paper}: what our trials fill", notes=notes)
        )
    return tables


LEFT_OUT: dict[LeftOut, str] = {
    "out of memory": "of a trial that runs out of memory",
    "not tried": "whose settings no file tries",
    "system not run": "of systems that are not run here",
    "backbone not run": "of systems that are not run here on that backbone",
    "no hyperparameter": "whose setting is no hyperparameter, such as a cut corpus",
}
PAPERS_NOTES = (
    "cse-sweep papers/NAME runs a file. Cells are printed numbers that a file can fill.",
    "cse-sweep papers/NAME --dry-run estimates the time that a file takes, from past trials.",
)


def papers_document(listed: Sequence[PaperProgress]) -> Document:
    """Make the document of papers; CSV has a line for each table, figure and whole paper."""
    names = [field.name for field in fields(PaperProgress) if field.name != "left_out"]
    columns = [Column[PaperProgress](name) for name in names]
    left_out = Column[PaperProgress]("left_out", lambda progress: sum(progress.left_out.values()))
    return Document(
        lambda: papers_layout(listed), lambda: to_csv([*columns, left_out], listed), lambda: listed
    )
