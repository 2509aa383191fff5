"""Comparisons as tables for people: one against another, and all against all."""

from collections.abc import Iterator, Sequence

from cse_platform.leaderboard.render.grid import Cell, Column, Grid, Row, Rule
from cse_platform.leaderboard.render.numbers import (
    ALPHA,
    OVER_PAIRS,
    OVER_PAIRS_MEANS,
    bounds,
    marks,
    percent,
    probability,
    signed,
)
from cse_platform.leaderboard.row import FAMILIES
from cse_platform.leaderboard.statistics.results import Comparison, Matrix, TaskComparison

NUMBERS = (
    "A",
    "B",
    "A - B",
    "95 % interval",
    "p",
    "p (Holm)",
    "Williams t",
    "Williams p",
    "Williams p (Holm)",
)

SIGNIFICANT = {"**": 0.01, "*": ALPHA}
"""Marks, the strictest first."""
SIGNIFICANT_MEANS = "p < {p}, after Holm's correction over all pairs."


def comparison_grid(comparison: Comparison) -> Grid:
    """A line for each task, the average below a rule, and below the table what follows."""
    lines: list[Row | Rule] = [_row(task) for task in comparison.tasks]
    if comparison.average is not None:
        lines += [Rule(), _row(comparison.average)]
    return Grid(
        f"{comparison.a} against {comparison.b}, scores x 100",
        (Column("task", folds="names"), *(Column(name, "right", "last") for name in NUMBERS)),
        tuple(lines),
        notes=(*comparison.told, *verdict(comparison), *comparison.notes),
        legend={OVER_PAIRS: OVER_PAIRS_MEANS},
    ).without_empty_columns()


def verdict(comparison: Comparison) -> Iterator[str]:
    """In words what follows: from the average, or from each task where there is no average."""
    if comparison.average is not None:
        yield _said(comparison, comparison.average, comparison.average.p)
    else:
        yield from (_said(comparison, task, task.p_holm) for task in comparison.tasks)


def matrix_grid(matrix: Matrix) -> Grid:
    """How far each row is above each column; columns go by the numbers of the rows."""
    numbers = [str(number) for number in range(1, len(matrix.names) + 1)]
    rows = (
        Row((Cell(number), Cell(name), *_against(matrix, place)))
        for place, (number, name) in enumerate(zip(numbers, matrix.names, strict=True))
    )
    return Grid(
        f"Row minus column, {_mean_over(matrix.tasks)}, x 100",
        (
            Column("#"),
            Column("row", folds="names"),
            *(Column(number, "right", "at blanks") for number in numbers),
        ),
        tuple(rows),
        notes=(*matrix.told, *matrix.notes),
        legend={
            **{mark: SIGNIFICANT_MEANS.format(p=p) for mark, p in SIGNIFICANT.items()},
            OVER_PAIRS: OVER_PAIRS_MEANS,
        },
    )


def _mean_over(tasks: Sequence[str]) -> str:
    """Names the average that is over these tasks, or else each of them."""
    averages = (
        average
        for family in FAMILIES.values()
        for average in family.averages
        if set(family.over(average)) == set(tasks)
    )
    return next(averages, "mean over " * (len(tasks) > 1) + ", ".join(tasks))


def _against(matrix: Matrix, place: int) -> Iterator[Cell]:
    cells = zip(matrix.names, matrix.effects[place], matrix.p_holm[place], strict=True)
    for other, (name, effect, p) in enumerate(cells):
        sure = (mark for mark, limit in SIGNIFICANT.items() if p is not None and p < limit)
        single = not {name, matrix.names[place]}.isdisjoint(matrix.single)
        mark = marks(next(sure, ""), OVER_PAIRS if single else "")
        yield Cell() if other == place else Cell(signed(effect), mark=mark)


def _said(comparison: Comparison, task: TaskComparison, p: float | None) -> str:
    a, b = comparison.a, comparison.b
    by = f"{percent(abs(task.effect))} on {task.task}"
    if p is None:
        return f"{a} and {b} differ by {by}; single seeds without pairs cannot say how surely."
    found = f"95 % interval {bounds(task.interval).text}, p {_equal(probability(p))}"
    said = f"{a} is {'above' if task.effect > 0 else 'below'} {b} by {by}, {found}"
    if p >= ALPHA:
        said = f"{a} and {b} cannot be told apart: they differ by {by}, {found}"
    return _on_seeds(comparison, said)


def _on_seeds(comparison: Comparison, said: str) -> str:
    """A sentence, with what it leaves open where a side has one seed."""
    sides = {comparison.a: comparison.n_a, comparison.b: comparison.n_b}
    single = [name for name, n in sides.items() if n == 1]
    if not single:
        return f"{said}."
    whose = "its" if len(single) == 1 else "their"
    on = f"On one seed of {' and one of '.join(single)}"
    return f"{on}, {said}; how {whose} other seeds would do is not known."


def _equal(p: str) -> str:
    return p.replace("<", "< ") if p.startswith("<") else f"= {p}"


def _row(task: TaskComparison) -> Row:
    t = task.williams_t
    ps = (task.williams_p, task.williams_p_holm)
    return Row(
        (
            Cell(task.task),
            Cell(percent(task.mean_a)),
            Cell(percent(task.mean_b)),
            Cell(signed(task.effect)),
            bounds(task.interval),
            Cell(probability(task.p)),
            Cell(probability(task.p_holm)),
            Cell("" if t is None else f"{t:z.2f}"),
            *(Cell(probability(p)) for p in ps),
        )
    )
