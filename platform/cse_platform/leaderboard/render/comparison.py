"""Renders a comparison of two rows, and the matrix of several, for people and programs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from cse_platform.leaderboard.records import BOARD_FAMILIES
from cse_platform.leaderboard.render.board import (
    ALPHA,
    OVER_PAIRS,
    OVER_PAIRS_MEANS,
    interval_cell,
    join_marks,
)
from cse_platform.leaderboard.statistics.results import Comparison, Matrix, TaskComparison
from cse_platform.render.formats import percent, probability, signed_percent
from cse_platform.render.table import Cell, Column, Table, to_csv, to_table

SIGNIFICANT = {"**": 0.01, "*": ALPHA}
"""Marks by their limit of p, strictest first."""


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
    """State the verdict in words: on the average, or on each task if there is no average."""
    if comparison.average is not None:
        yield _format_verdict(comparison, comparison.average, comparison.average.p)
    else:
        yield from (_format_verdict(comparison, task, task.p_holm) for task in comparison.tasks)


def matrix_table(matrix: Matrix) -> Table:
    """Make a table of each row's score minus each column's; columns are named by row numbers."""

    def against(other: int) -> Column[int]:
        def effect(row: int) -> Cell | None:
            return None if row == other else _format_effect(matrix, row, other)

        return Column(str(other + 1), effect, align="right")

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
    """Write a CSV line for each task, then for the average: names, seeds and numbers."""

    def of(name: str) -> Column[TaskComparison]:
        return Column(name, lambda _: getattr(comparison, name))

    pairs = Column[TaskComparison]("pairs", lambda task: task.pairs)
    tasks = [*comparison.tasks, *filter(None, [comparison.average])]
    return to_csv([*map(of, ("a", "b", "n_a", "n_b")), *TASK_COLUMNS, pairs], tasks)


def matrix_csv(matrix: Matrix) -> str:
    """Write a CSV line for every ordered pair of rows."""
    numbers = {"effect": matrix.effects, "p": matrix.p, "p_holm": matrix.p_holm}

    def of(name: str) -> Column[tuple[int, int]]:
        return Column(name, lambda pair: numbers[name][pair[0]][pair[1]])

    a = Column[tuple[int, int]]("a", lambda pair: matrix.names[pair[0]])
    b = Column[tuple[int, int]]("b", lambda pair: matrix.names[pair[1]])
    return to_csv([a, b, *map(of, numbers)], permutations(range(len(matrix.names)), 2))


def _make_end_column(name: str) -> Column[TaskComparison]:
    return Column(f"interval_{name}", lambda task: getattr(task.interval, name, None))


def _make_number_column(name: str, title: str, format: Any) -> Column[TaskComparison]:
    return Column(name, lambda task: getattr(task, name), format, title, "right")


TASK_COLUMNS: tuple[Column[TaskComparison], ...] = (
    Column("task", lambda task: task.task),
    _make_number_column("mean_a", "A", percent),
    _make_number_column("mean_b", "B", percent),
    _make_number_column("effect", "A - B", signed_percent),
    replace(
        _make_number_column("interval", "95 % interval", interval_cell),
        parts=tuple(map(_make_end_column, ("low", "high", "over"))),
    ),
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
