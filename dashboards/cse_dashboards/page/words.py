"""How values look on the page: the filters and globals of its templates, and columns of boards."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from cse_dashboards.figures.labels import method_colours, number, value_text, values_line
from cse_dashboards.page.address import (
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    PapersAddress,
    SweepsAddress,
)
from cse_methods.names import TASKS, backbone_name, hyperparameter_name, method_name, task_name
from cse_methods.published.released import MARK, SCORED_BY
from cse_platform.leaderboard.families import SCORE_COLUMNS
from cse_platform.leaderboard.ranking import ORDERS, RISING
from cse_platform.numbers import clock, format_count, percent
from cse_platform.presentation.tables import Table, TableRow
from cse_platform.sweep.conditions import SIGNS, Condition, write_value

NAVIGATION = {
    "Leaderboard": BoardAddress(),
    "Sweeps": SweepsAddress(),
    "Compare": CompareAddress(),
    "Geometry": GeometryAddress(),
    "Papers": PapersAddress(),
}
_WORD = re.compile(r"(?<![\w-])[a-z0-9]+(_[a-z0-9]+)*(?![\w-])")
_LEADS = {"trial": "/trials/{}", "sweep": "/sweeps/{}"}
"""Links of cells, by the head of their column."""


def moment(when: datetime | None) -> str:
    """Format a time to the minute."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M} UTC"


def arrange_columns(table: Table, *, front: Sequence[str]) -> Table:
    """Move the scores by task beside the rank and the number of seeds, where they are in view.

    The columns that are named or sorted as `front` come before all others, as then do the score
    that ranks and its interval: a phone shows two or three columns.
    """
    names = [head.name for head in table.heads]
    if "n" not in names:
        return table
    last = max(names.index(name) for name in ("backbone", "95 % interval", "rank") if name in names)
    heads = list(enumerate(table.heads))
    ranked = next(i for i, head in heads if head.align == "right")  # the first number
    scores = [
        i
        for i, head in heads
        if i > last and (head.sort in SCORE_COLUMNS or head.sort not in ("", *ORDERS))
    ]
    first = [i for name in front for i, head in heads if name in (head.name, head.sort)]
    first += [ranked, *[i for i, name in enumerate(names) if name == "95 % interval"]]
    others = [*range(last + 1), names.index("n"), *scores, *range(len(names))]
    order = list(dict.fromkeys([*first, *others]))
    groups = (tuple(tuple(row[i] for i in order) for row in group) for group in table.groups)
    return replace(table, heads=tuple(table.heads[i] for i in order), groups=tuple(groups))


def sort_direction(column: str) -> str:
    """Return the sort direction of a column as an ARIA value."""
    return "ascending" if column in RISING else "descending"


def leads_to(head: str, text: str) -> str | None:
    """Return the link of a cell with this text under this head, or None."""
    return _LEADS[head].format(quote(text, safe="")) if head in _LEADS and text else None


def row_reference(heads: list[str], row: TableRow) -> str | None:
    """Return METHOD@CONFIGURATION of one of our rows, or None if it has no configuration."""
    cells = {head: cell.text for head, cell in zip(heads, row, strict=True)}
    configuration = cells.get("configuration")
    shown = cells["method"]
    method = SCORED_BY if MARK in shown else shown.partition(" (")[0]
    return f"{method}@{configuration}" if configuration else None


def head_name(head: str) -> str:
    """Format a column head with task names as in papers: `dev STS-B (built-in)`."""
    task = head.replace(" ", "_")
    if task in TASKS:
        return TASKS[task]
    return task_words(head).replace("(builtin)", "(built-in)")


def task_words(text: str) -> str:
    """Replace the tasks in a text by their names in papers."""
    return _WORD.sub(lambda word: task_name(word[0]), text)


def table_colours(tables: Iterable[Table]) -> dict[str, str]:
    """Choose the colours of all methods of some tables, by the texts of their cells."""
    methods = dict[str, str]()
    for table in tables:
        for column, head in enumerate(table.heads):
            if head.name == "method":
                texts = [row[column].text for row in table.rows]
                methods |= {text: text.partition(" ")[0] for text in texts}
    colours = method_colours(methods.values())
    return {text: colours[method] for text, method in methods.items()}


def cell_name(head: str, text: str) -> str:
    """Format a cell under a head, with methods, backbones and tasks by their display names."""
    if head == "method":
        name, space, suffix = text.partition(" ")
        return method_name(name) + space + suffix
    if head == "task":
        return task_words(text)
    return backbone_name(text) if head == "backbone" else text


def condition_text(condition: Condition) -> str:
    """Format a condition as the table does its values: `learning_rate >= 1e-4`, `kind a or b`."""
    name = hyperparameter_name(condition.name)
    if condition.sign not in SIGNS:
        return f"{name} {' or '.join(map(value_text, condition.values))}"
    return f"{name} {condition.sign} {number(condition.values[0])}"


def first_line(text: str | None) -> str:
    """Return the first line of a trial's error."""
    return (text or "").strip().partition("\n")[0]


FILTERS: dict[str, Callable[..., str]] = {
    "percent": percent,
    "measured": lambda value, quantity: percent(value) if quantity.factor == 100 else number(value),
    "clock": clock,
    "format_count": format_count,
    "moment": moment,
    "one_line": values_line,
    "as_condition": write_value,
    "condition_text": condition_text,
    "first_line": first_line,
    "hyperparameter_name": hyperparameter_name,
    "value_text": value_text,
}
_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(backbone_name, cell_name, sort_direction, head_name, leads_to, method_colours, method_name),
    *(row_reference, table_colours, task_words),
)
GLOBALS: dict[str, Any] = {each.__name__: each for each in _FUNCTIONS} | {"navigation": NAVIGATION}
