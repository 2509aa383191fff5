"""Columns over rows as JSON, CSV and a pandas frame."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from cse_platform.render.table import Column

if TYPE_CHECKING:
    import pandas as pd

_R = TypeVar("_R")


def to_record(columns: Sequence[Column[_R]], row: _R) -> dict[str, Any]:
    """The values of a row by the names of the columns."""
    return {column.name: column.value(row) for column in columns}


def to_json(value: Any) -> str:
    """Anything as JSON that ends in a line break; records keep their names, times are ISO 8601."""
    return json.dumps(value, indent=2, default=_plain) + "\n"


def to_csv(columns: Sequence[Column[_R]], rows: Iterable[_R]) -> str:
    """A line a row under the names of the columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows([column.cell(row).text for column in columns] for row in rows)
    return text.getvalue()


def to_frame(columns: Sequence[Column[_R]], rows: Iterable[_R]) -> "pd.DataFrame":
    """A pandas frame; numbers, counts, truths and times have their type where some are missing."""
    import pandas as pd

    records = [to_record(columns, row) for row in rows]
    types = {column.name: column.dtype for column in columns}
    return pd.DataFrame(records, columns=list(types)).astype(types)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else asdict(value)
