"""Boards, comparisons, papers' tables and Pareto fronts, in any format."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import permutations
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from cse_platform.leaderboard.published.paper_files import FOLDER, WHOLE, PaperProgress
from cse_platform.leaderboard.published.papers import CellGap, PaperLine, PaperTable, Verdict
from cse_platform.leaderboard.records import BOARD_FAMILIES, Estimate
from cse_platform.leaderboard.render.board import (
    ALPHA,
    OVER_PAIRS,
    OVER_PAIRS_MEANS,
    Board,
    interval_cell,
    join_marks,
    published_cell,
    score_cell,
)
from cse_platform.leaderboard.render.board_tables import board_tables, paper_board
from cse_platform.leaderboard.render.columns import (
    board_records,
    data_columns,
    data_rows,
    estimate_records,
)
from cse_platform.leaderboard.searches import FrontRow, ParetoFront
from cse_platform.leaderboard.statistics.results import Comparison, Matrix, TaskComparison
from cse_platform.render.formats import (
    HASH_DIGITS,
    clock,
    percent,
    probability,
    short_settings,
    signed_percent,
)
from cse_platform.render.table import (
    Cell,
    Column,
    Table,
    as_text,
    grouped,
    to_csv,
    to_json,
    to_table,
)
from cse_platform.render.terminal import print_page
from cse_platform.render.text import to_html, to_latex, to_markdown
from cse_platform.sweep.objectives import SECONDS, is_fraction
from cse_platform.tracking.history import COSTS


def measured(name: str, value: float) -> str:
    """Format a measured value for people, by the name of its objective or constraint."""
    if is_fraction(name):
        return percent(value)
    return clock(value) if name == SECONDS else f"{value:.4g}"


def front_table(front: ParetoFront) -> Table:
    """Make a table of the configurations on the front; a note counts the others."""
    on_front = [row for row in front.rows if row.on_front]
    others = len(front.rows) - len(on_front)
    broken = sum(not row.feasible for row in front.rows)
    infeasible = f", {broken} of them infeasible by {' and '.join(front.constraints)}"
    notes = [f"Not on it: {others} others{infeasible * (broken > 0)}."] if others else []
    columns = [
        Column[FrontRow]("trial", lambda row: row.trial, align="right"),
        Column[FrontRow]("configuration", lambda row: row.configuration[:HASH_DIGITS]),
        *(_make_objective_column(objective.name, front) for objective in front.objectives),
        Column[FrontRow]("seeds", lambda row: len(row.seeds), align="right"),
        Column[FrontRow]("settings", lambda row: short_settings(row.values)),
    ]
    objectives = ", ".join(map(str, front.objectives))
    return to_table(
        columns, [on_front], title=f"Pareto front of {front.sweep}: {objectives}", notes=notes
    )


def _make_objective_column(name: str, front: ParetoFront) -> Column[FrontRow]:
    shown = f"dev {front.dev}" if name == "dev" else name
    return Column(
        name,
        lambda row: row.measured[name],
        lambda value: measured(name, value),
        title=f"{shown} x 100" if is_fraction(name) else shown,
        align="right",
    )


def front_record(front: ParetoFront) -> dict[str, Any]:
    """Make the JSON object of a front."""
    return {
        "sweep": front.sweep,
        "dev": front.dev,
        "objectives": [objective.model_dump() for objective in front.objectives],
        "constraints": front.constraints,
        "rows": front.rows,
    }


def front_csv(front: ParetoFront) -> str:
    """Write a line for each configuration, on the front or not; hyperparameters come last."""
    names = dict.fromkeys(name for row in front.rows for name in row.values)

    def of(name: str) -> Column[FrontRow]:
        return Column(name, lambda row: getattr(row, name))

    def setting(name: str) -> Column[FrontRow]:
        return Column(name, lambda row: row.values.get(name))

    def objective(name: str) -> Column[FrontRow]:
        return Column(name, lambda row: row.measured[name])

    columns = [
        *map(of, ("configuration", "trial", "key", "seeds", "feasible", "on_front")),
        *(objective(named.name) for named in front.objectives),
        *map(setting, names),
    ]
    return to_csv(columns, front.rows)


SIGNIFICANT = {"**": 0.01, "*": ALPHA}
"""Marks, the strictest first."""


def comparison_table(comparison: Comparison) -> Table:
    """Make a table with a line for each task and the average, and the verdict in words."""
    average = [comparison.average] if comparison.average else []
    return to_table(
        TASK_COLUMNS,
        [comparison.tasks, average],
        title=f"{comparison.a} against {comparison.b}, scores x 100",
        notes=(*comparison.told, *verdict(comparison), *comparison.notes),
        legend={OVER_PAIRS: OVER_PAIRS_MEANS},
    )


def verdict(comparison: Comparison) -> Iterator[str]:
    """State the verdict in words: from the average, or from each task if there is no average."""
    if comparison.average is not None:
        yield _format_verdict(comparison, comparison.average, comparison.average.p)
    else:
        yield from (_format_verdict(comparison, task, task.p_holm) for task in comparison.tasks)


def matrix_table(matrix: Matrix) -> Table:
    """Make a table of how far each row is above each column; columns have the rows' numbers."""

    def against(other: int) -> Column[int]:
        def effect(row: int) -> Cell | None:
            return None if row == other else _format_effect(matrix, row, other)

        return Column(str(other + 1), effect, lambda cell: cell, align="right")

    places = range(len(matrix.names))
    means = "after Holm's correction over all pairs"
    meanings = {mark: f"p < {p}, {means}." for mark, p in SIGNIFICANT.items()}
    return to_table(
        [
            Column("#", lambda row: row + 1),
            Column("row", lambda row: matrix.names[row]),
            *map(against, places),
        ],
        [places],
        title=f"Row minus column, {_name_mean(matrix.tasks)}, x 100",
        notes=(*matrix.told, *matrix.notes),
        legend={**meanings, OVER_PAIRS: OVER_PAIRS_MEANS},
    )


def comparison_csv(comparison: Comparison) -> str:
    """Write a line for each task, then for the average: names, seeds, and numbers."""

    def of(name: str) -> Column[TaskComparison]:
        return Column(name, lambda _: getattr(comparison, name))

    numbers = [
        replace(column, format=as_text)
        for shown in TASK_COLUMNS
        for column in (_INTERVAL_ENDS if shown.name == "interval" else [shown])
    ]
    pairs = Column[TaskComparison]("pairs", lambda task: task.pairs)
    tasks = [*comparison.tasks, *filter(None, [comparison.average])]
    return to_csv([*map(of, ("a", "b", "n_a", "n_b")), *numbers, pairs], tasks)


def matrix_csv(matrix: Matrix) -> str:
    """Write a line for every ordered pair of rows."""
    numbers = {"effect": matrix.effects, "p": matrix.p, "p_holm": matrix.p_holm}

    def of(name: str) -> Column[tuple[int, int]]:
        return Column(name, lambda pair: numbers[name][pair[0]][pair[1]])

    a = Column[tuple[int, int]]("a", lambda pair: matrix.names[pair[0]])
    b = Column[tuple[int, int]]("b", lambda pair: matrix.names[pair[1]])
    return to_csv([a, b, *map(of, numbers)], permutations(range(len(matrix.names)), 2))


def _make_end_column(name: str) -> Column[TaskComparison]:
    return Column(f"interval_{name}", lambda task: getattr(task.interval, name, None))


_INTERVAL_ENDS = [_make_end_column(name) for name in ("low", "high", "over")]


def _make_number_column(name: str, title: str, format: Any) -> Column[TaskComparison]:
    return Column(name, lambda task: getattr(task, name), format, title, "right")


TASK_COLUMNS: tuple[Column[TaskComparison], ...] = (
    Column("task", lambda task: task.task),
    _make_number_column("mean_a", "A", percent),
    _make_number_column("mean_b", "B", percent),
    _make_number_column("effect", "A - B", signed_percent),
    _make_number_column("interval", "95 % interval", interval_cell),
    _make_number_column("p", "p", probability),
    _make_number_column("p_holm", "p (Holm)", probability),
    _make_number_column("williams_t", "Williams t", lambda t: f"{t:z.2f}"),
    _make_number_column("williams_p", "Williams p", probability),
    _make_number_column("williams_p_holm", "Williams p (Holm)", probability),
)


def _name_mean(tasks: Sequence[str]) -> str:
    """Name the average over these tasks, or list the tasks."""
    averages = (
        average
        for family in BOARD_FAMILIES.values()
        for average in family.averages
        if set(family.over(average)) == set(tasks)
    )
    return next(averages, "mean over " * (len(tasks) > 1) + ", ".join(tasks))


def _format_effect(matrix: Matrix, row: int, other: int) -> Cell:
    p = matrix.p_holm[row][other]
    sure = (mark for mark, limit in SIGNIFICANT.items() if p is not None and p < limit)
    single = not {matrix.names[row], matrix.names[other]}.isdisjoint(matrix.single)
    mark = join_marks(next(sure, ""), OVER_PAIRS if single else "")
    return Cell(signed_percent(matrix.effects[row][other]), mark=mark)


def _format_verdict(comparison: Comparison, task: TaskComparison, p: float | None) -> str:
    """Format the verdict on one task as a sentence."""
    a, b = comparison.a, comparison.b
    by = f"{percent(abs(task.effect))} on {task.task}"
    if p is None:
        return f"{a} and {b} differ by {by}; single seeds without pairs cannot say how surely."
    equal = f"< {probability(p)[1:]}" if probability(p).startswith("<") else f"= {probability(p)}"
    interval = interval_cell(task.interval).text if task.interval else "unknown"
    evidence = f"95 % interval {interval}, p {equal}"
    sentence = f"{a} is {'above' if task.effect > 0 else 'below'} {b} by {by}, {evidence}"
    if p >= ALPHA:
        sentence = f"{a} and {b} cannot be distinguished: they differ by {by}, {evidence}"
    single = [name for name, n in ((a, comparison.n_a), (b, comparison.n_b)) if n == 1]
    if not single:
        return f"{sentence}."
    whose = "its" if len(single) == 1 else "their"
    on = f"On one seed of {' and one of '.join(single)}"
    return f"{on}, {sentence}; how {whose} other seeds would do is not known."


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
    """A row of the table for people: a printed line, our line below it, or the difference."""

    backbone: str
    method: str
    cells: Mapping[str, Cell]
    """The cells by column."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The scores that find the best and second of a column; a difference has none."""


def paper_layout(table: PaperTable) -> Table:
    """Make a table of each printed line, ours and the difference below it, by backbone.

    The best and second of a column are those of a backbone, printed ones and ours together.
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
        grouped(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}{scale}",
        notes=(*([PAPERS_NOISE] if alone else []), *table.notes),
        legend=LEGEND,
        compare_groups=True,
    )


def _make_paper_column(name: str) -> Column[ShownLine]:
    return Column(
        name,
        lambda line: line.cells.get(name),
        lambda cell: cell,
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
    """Write a line for each number that is printed or is ours."""
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
    """Make a column that is empty if nothing of ours stands in the cell."""
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
    """Name our line, with its configuration and its seeds: fewest to most of any column."""
    seeds = [estimate.n for estimate in line.ours.values()]
    n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
    begins = f"released, not ours ({line.released}, " if line.released else "ours ("
    return f"{begins}n = {n}, {(line.configuration or '')[:HASH_DIGITS]})"


def papers_layout(listed: Sequence[PaperProgress]) -> list[Table]:
    """Make a table for each paper: its tables and figures, then the file of all of them."""
    papers = list(grouped(listed, lambda progress: progress.paper).values())
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
                    _format_hours,
                    align="right",
                ),
                Column(
                    "left out",
                    lambda progress: sum(progress.left_out.values()) or None,
                    align="right",
                ),
            ],
            grouped(of_paper, lambda progress: progress.table == WHOLE).values(),
            title=f"{of_paper[0].paper}: what our trials fill",
            notes=[
                *_note_left_out(of_paper),
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


def _make_count_column(
    name: str, counts: Callable[[PaperProgress], tuple[int, int]]
) -> Column[PaperProgress]:
    def format_count(progress: PaperProgress) -> str | None:
        filled, total = counts(progress)
        return f"{filled} of {total}" if total else None

    return Column(name, format_count, align="right")


def _format_hours(hours: float) -> str:
    return f"{hours:.1f}"


def _note_left_out(of_paper: Sequence[PaperProgress]) -> Iterator[str]:
    left_out = Counter[str]()
    for progress in of_paper:
        if progress.table != WHOLE:
            left_out.update(progress.left_out)
    if left_out:
        reasons = (f"{count} {reason}" for reason, count in left_out.items())
        yield f"Left out: {', '.join(reasons)}."


def papers_csv(listed: Sequence[PaperProgress]) -> str:
    """Write a line for each table or figure."""
    names = [field.name for field in fields(PaperProgress) if field.name != "left_out"]
    columns = [Column[PaperProgress](name, attrgetter(name)) for name in names]
    left_out = Column[PaperProgress]("left_out", lambda progress: sum(progress.left_out.values()))
    return to_csv([*columns, left_out], listed)


TextFormat = Literal["json", "csv", "markdown", "latex", "html"]
Format = TextFormat | Literal["table"]
Document = Board | Comparison | Matrix | PaperTable | list[PaperProgress] | ParetoFront


def print_document(document: Document, *, format: Format, wide: bool = False) -> None:
    """Write a document to standard output.

    The formats `json` and `csv` are fractions for programs; the others are x 100, for people. A
    wide leaderboard is one table with everything, and nothing is folded; otherwise Markdown and
    LaTeX have it as papers print it.
    """
    if format == "table":
        print_page(document_tables(document, wide=wide), wide=wide)
    else:
        sys.stdout.write(render_document(document, format=format, wide=wide))
        sys.stdout.flush()


def render_document(document: Document, *, format: TextFormat, wide: bool = False) -> str:
    """Render a document as text that ends in a line break."""
    if format == "json":
        return to_json(_make_record(document))
    if format == "csv":
        return _format_csv(document)
    if isinstance(document, Board) and format != "html" and not wide:
        return _TEXTS[format](paper_board(document))
    return _TEXTS[format](document_tables(document, wide=wide))


_TEXTS = {"markdown": to_markdown, "latex": to_latex, "html": to_html}


def document_tables(document: Document, *, wide: bool) -> list[Table]:
    """Make the tables of a document for people; `wide` is as for `print_document`."""
    match document:
        case Board():
            return board_tables(document, wide=wide)
        case Comparison():
            return [comparison_table(document)]
        case Matrix():
            return [matrix_table(document)]
        case PaperTable():
            return [paper_layout(document)]
        case list():
            return papers_layout(document)
        case ParetoFront():
            return [front_table(document)]


def _make_record(document: Document) -> Any:
    match document:
        case Board():
            return board_records(document)
        case PaperTable():
            return paper_record(document)
        case ParetoFront():
            return front_record(document)
    return document


def _format_csv(document: Document) -> str:
    match document:
        case Board():
            return to_csv(data_columns(document), data_rows(document))
        case Comparison():
            return comparison_csv(document)
        case Matrix():
            return matrix_csv(document)
        case PaperTable():
            return paper_csv(document)
        case list():
            return papers_csv(document)
        case ParetoFront():
            return front_csv(document)
