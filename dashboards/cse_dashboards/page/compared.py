"""Rows of the leaderboard side by side as tables: what differs in them, and their scores."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cse_dashboards.figures.naming import value_text, values_line
from cse_methods.names import method_name, task_name
from cse_platform.leaderboard.query.board.resolve import named_rows
from cse_platform.leaderboard.render.board import shown_dev_set
from cse_platform.leaderboard.render.cells import ALPHA, interval_cell, score_cell
from cse_platform.leaderboard.row import BOARD_FAMILIES, FamilyName, LeaderboardRow
from cse_platform.leaderboard.statistics.results import Comparison, TaskComparison
from cse_platform.render.formats import probability, signed_percent
from cse_platform.render.table import Cell, Column, Table, text_table, to_table

NamedRows = Mapping[str, LeaderboardRow]
DEV_LINE = "dev"
"""The line of the dev scores."""


@dataclass(frozen=True)
class Differing:
    """What rows differ in, and what is the same in all of them."""

    table: Table
    """A column a row."""
    same: tuple[tuple[str, str], ...]
    told: dict[str, str]
    """By row, its hyperparameters among those that differ, in one line."""


def shown_names(rows: Sequence[LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """Rows by the shortest name that differs, with the methods as their authors write them."""
    return {
        name.replace(row.method, method_name(row.method), 1): row
        for name, row in named_rows(rows).items()
    }


def differing_hyperparameters(rows: NamedRows) -> Differing:
    """What they are trained from, on and with, line by line; empty where something took no part."""
    facts = {name: _facts(row) for name, row in rows.items()}
    order = list(dict.fromkeys(fact for one in facts.values() for fact in one))
    lines = {fact: [one.get(fact, "") for one in facts.values()] for fact in order}
    differ = [(fact, *values) for fact, values in lines.items() if len(set(values)) > 1]
    same = tuple((fact, values[0]) for fact, values in lines.items() if len(set(values)) == 1)
    names = {line[0] for line in differ}
    told = {name: values_line(_only(row, names)) for name, row in rows.items()}
    return Differing(text_table(("", *rows), differ, title="What differs"), same, told)


def scores_table(rows: NamedRows, against: Mapping[str, Comparison], tasks: FamilyName) -> Table:
    """The scores of each row, and of each but the first how far it is above the first.

    Args:
        rows: by name, the first of them the one that the others are compared with.
        against: by name, those that can be compared with it, each as A against the first.
        tasks: the family of test scores.
    """
    first = next(iter(rows))
    columns: list[Column[str]] = [Column("task", lambda task: task, _task)]
    for name, row in rows.items():
        columns.append(_score_column(name, row))
        if name in against:
            found = _by_task(against[name])
            columns += [
                Column("effect", found.get, _effect, f"minus {first}", "right"),
                Column("interval", partial(_interval, found), interval_cell, "95 % interval"),
                Column("p", partial(_p, found), probability, "p", "right"),
            ]
    scored = [t for t in BOARD_FAMILIES[tasks].columns if any(t in r.scores for r in rows.values())]
    notes = [f"Bold: p < {ALPHA}, of the tasks after Holm's correction."] if against else []
    return to_table(columns, [[DEV_LINE], scored], title="Scores × 100", notes=notes)


def _facts(row: LeaderboardRow) -> dict[str, str]:
    known: dict[str, Any] = {
        "method": method_name(row.shown_method),
        "backbone": row.backbone,
        "corpus": row.corpus,
        "dev set": shown_dev_set(row),
        "seeds": " ".join(map(str, row.seeds)),
        "code": (row.configuration.code or "")[:8],
    }
    return known | {name: value_text(value) for name, value in row.configuration.values.items()}


def _only(row: LeaderboardRow, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in row.configuration.values.items() if name in names}


def _task(task: str) -> str:
    return task if task == DEV_LINE else task_name(task)


def _score_column(name: str, row: LeaderboardRow) -> Column[str]:
    return Column(
        name,
        lambda task: row.dev_score if task == DEV_LINE else row.scores.get(task),
        score_cell,
        name,
        "right",
    )


def _by_task(comparison: Comparison) -> dict[str, tuple[TaskComparison, float | None]]:
    """By task, the difference and its p: of the tasks Holm's, of the average that of one test."""
    found = {one.task: (one, one.p_holm) for one in comparison.tasks}
    if comparison.average is not None:
        found[comparison.average.task] = (comparison.average, comparison.average.p)
    return found


def _effect(found: tuple[TaskComparison, float | None]) -> Cell:
    task, p = found
    sure = p is not None and p < ALPHA
    return Cell(signed_percent(task.effect), emphasis="best" if sure else "none")


def _interval(found: Mapping[str, tuple[TaskComparison, float | None]], task: str) -> Any:
    return found[task][0].interval if task in found else None


def _p(found: Mapping[str, tuple[TaskComparison, float | None]], task: str) -> float | None:
    return found[task][1] if task in found else None
