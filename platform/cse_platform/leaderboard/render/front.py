"""Renders the Pareto front of a sweep for people and programs."""

from typing import Any

from cse_platform.leaderboard.searches import FrontRow, ParetoFront
from cse_platform.render.formats import HASH_DIGITS, clock, percent, short_settings
from cse_platform.render.table import Column, Table, to_csv, to_table
from cse_platform.sweep.objectives import SECONDS, is_fraction


def format_measured(name: str, value: float) -> str:
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
        _COLUMNS["trial"],
        _COLUMNS["configuration"],
        *_make_objective_columns(front),
        _COLUMNS["seeds"],
        _COLUMNS["settings"],
    ]
    objectives = ", ".join(map(str, front.objectives))
    return to_table(
        columns, [on_front], title=f"Pareto front of {front.sweep}: {objectives}", notes=notes
    )


def _make_objective_columns(front: ParetoFront) -> list[Column[FrontRow]]:
    def make_column(name: str) -> Column[FrontRow]:
        shown = f"dev {front.dev}" if name == "dev" else name
        return Column(
            name,
            lambda row: row.measured[name],
            lambda value: format_measured(name, value),
            title=f"{shown} x 100" if is_fraction(name) else shown,
            align="right",
        )

    return [make_column(objective.name) for objective in front.objectives]


_COLUMNS: dict[str, Column[FrontRow]] = {
    column.name: column
    for column in (
        Column[FrontRow](
            "configuration", lambda row: row.configuration, lambda digits: digits[:HASH_DIGITS]
        ),
        Column[FrontRow]("trial", lambda row: row.trial, align="right"),
        Column[FrontRow]("key", lambda row: row.key),
        Column[FrontRow](
            "seeds", lambda row: row.seeds, lambda seeds: str(len(seeds)), align="right"
        ),
        Column[FrontRow]("feasible", lambda row: row.feasible),
        Column[FrontRow]("on_front", lambda row: row.on_front),
        Column[FrontRow]("settings", lambda row: row.values, short_settings),
    )
}
"""All columns except the objectives; CSV has a column for each hyperparameter instead of
`settings`.
"""


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
    """Write a CSV line for each configuration, on the front or not; hyperparameters come last."""
    names = dict.fromkeys(name for row in front.rows for name in row.values)

    def make_column(name: str) -> Column[FrontRow]:
        return Column(name, lambda row: row.values.get(name))

    columns = [column for name, column in _COLUMNS.items() if name != "settings"]
    columns += [*_make_objective_columns(front), *map(make_column, names)]
    return to_csv(columns, front.rows)
