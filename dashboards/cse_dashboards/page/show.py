"""Filters and functions for templates: how values are displayed, and links of table cells."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from cse_dashboards.figures.labels import (
    Quantity,
    method_style,
    number,
    value_text,
    values_line,
)
from cse_dashboards.page.address import (
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    PapersAddress,
    SweepsAddress,
)
from cse_methods.names import (
    TASKS,
    backbone_name,
    hyperparameter_name,
    method_name,
    paper_page,
    task_name,
)
from cse_methods.published.released import MARK, SCORED_BY
from cse_platform.leaderboard.columns import ORDERS, PUBLISHED
from cse_platform.leaderboard.records import SCORE_COLUMNS
from cse_platform.render.formats import clock, percent
from cse_platform.render.table import Table, TableRow
from cse_platform.sweep.conditions import SIGNS, Condition, write_value

NAVIGATION = {
    "Leaderboard": BoardAddress(),
    "Sweeps": SweepsAddress(),
    "Compare": CompareAddress(),
    "Geometry": GeometryAddress(),
    "Papers": PapersAddress(),
}


def _format_method(text: str) -> str:
    """Replace the method's name at the beginning of a text by its display name."""
    name, space, rest = text.partition(" ")
    return method_name(name) + space + rest


_WRITTEN = {"method": _format_method, "backbone": backbone_name}
"""Functions that format the cells of a column, by its head."""
_WORD = re.compile(r"(?<![\w-])[a-z0-9]+(_[a-z0-9]+)*(?![\w-])")
_LEADS = {"trial": "/trials/{}", "sweep": "/sweeps/{}"}
"""Links of cells, by the head of their column."""
_EARLY = ("trial", "trials", "GPU-hours", "wall time a trial", "finished")
"""Columns of a board that `arrange_columns` moves forward."""


@dataclass(frozen=True)
class TablePage:
    """One page of a long table."""

    asked: int
    """The page in the address; if it is beyond the last page, the last page is shown."""
    size: int
    total: int
    """The number of rows on all pages."""

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def page(self) -> int:
        return min(self.asked, self.pages)

    @property
    def before(self) -> int:
        """The number of rows on earlier pages."""
        return self.size * (self.page - 1)

    @property
    def first(self) -> int:
        return self.before + 1

    @property
    def last(self) -> int:
        return min(self.before + self.size, self.total)


def moment(when: datetime | None) -> str:
    """Format a time to the minute."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M} UTC"


def arrange_columns(table: Table) -> Table:
    """Move the columns of general interest before the scores by task."""
    names = [head.name for head in table.heads]
    early = [names.index(name) for name in _EARLY if name in names]
    if "n" not in names:
        return table
    order = [place for place in range(len(names)) if place not in early]
    ranking = names.index("n") + 1
    tasks = (at for at in order[ranking:] if table.heads[at].sort in SCORE_COLUMNS)
    before = order.index(next(tasks, ranking))
    order[before:before] = early
    groups = (tuple(tuple(row[at] for at in order) for row in group) for group in table.groups)
    return replace(table, heads=tuple(table.heads[at] for at in order), groups=tuple(groups))


def direction(column: str) -> str:
    """Return the sort direction of a column as an ARIA value."""
    return "descending" if ORDERS[column].descending else "ascending"


def leads_to(head: str, text: str) -> str | None:
    """Return the link of a cell with this text under this head, or None."""
    return _LEADS[head].format(quote(text, safe="")) if head in _LEADS and text else None


def reference(heads: list[str], row: TableRow) -> str | None:
    """Return METHOD@CONFIGURATION of one of our rows, or None if it has no configuration."""
    cells = {head: cell.text for head, cell in zip(heads, row, strict=True)}
    configuration = cells.get("configuration")
    shown = cells["method"]
    method = SCORED_BY if MARK in shown else shown.partition(" (")[0]
    return f"{method}@{configuration}" if configuration else None


def source_pages(tables: Iterable[Table]) -> dict[str, str]:
    """Find the web pages of the papers of published rows, by the row's mark."""
    pages = {}
    for table in tables:
        names = [head.name for head in table.heads]
        for row in table.rows if "source" in names else ():
            mark = row[0].mark.split(" ")[-1]
            if mark.startswith(PUBLISHED) and (page := paper_page(row[names.index("source")].text)):
                pages[mark] = page
    return pages


def head_name(head: str) -> str:
    """Format a column head with task names as in papers: `dev STS-B (built-in)`."""
    task = head.replace(" ", "_")
    if task in TASKS:
        return TASKS[task]
    return task_words(head).replace("(builtin)", "(built-in)")


def task_words(text: str) -> str:
    """Replace the tasks in a text by their names in papers."""
    return _WORD.sub(lambda word: task_name(word[0]), text)


def cell_name(head: str, text: str) -> str:
    """Format a cell under a head, with methods and backbones by their display names."""
    return _WRITTEN.get(head, str)(text)


def condition_text(condition: Condition) -> str:
    """Format a condition as the table does its values: `learning_rate >= 1e-4`, `kind a or b`."""
    name = hyperparameter_name(condition.name)
    if condition.sign not in SIGNS:
        return f"{name} {' or '.join(map(value_text, condition.values))}"
    return f"{name} {condition.sign} {number(condition.values[0])}"


def measured_text(value: float, quantity: Quantity) -> str:
    """Format a stored value in the unit of its quantity."""
    return percent(value) if quantity.factor == 100 else number(value)


def first_line(text: str | None) -> str:
    """Return the first line of a trial's error."""
    return (text or "").strip().partition("\n")[0]


FILTERS = {
    "percent": percent,
    "measured": measured_text,
    "clock": clock,
    "moment": moment,
    "one_line": values_line,
    "as_condition": write_value,
    "condition_text": condition_text,
    "first_line": first_line,
    "hyperparameter_name": hyperparameter_name,
    "value_text": value_text,
}
GLOBALS: dict[str, Any] = {
    "backbone_name": backbone_name,
    "cell_name": cell_name,
    "direction": direction,
    "head_name": head_name,
    "leads_to": leads_to,
    "method_colour": lambda method: method_style(method.partition(" ")[0]).colour,
    "method_name": method_name,
    "navigation": NAVIGATION,
    "reference": reference,
    "task_words": task_words,
}
