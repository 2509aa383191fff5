"""Reads runs from files of other trackers: CSV tables, and Trackio's database."""

import ast
import csv
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cse_platform.errors import ImportRefusedError
from cse_platform.stores.mlflow.logged_runs import LoggedRun, LoggedValue
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import format_value

_READ = (
    "import-csv reads CSV tables of runs, as W&B exports them, import-trackio reads Trackio's "
    "PROJECT.db, import-mlflow an MLflow store, import-log logs of Hugging Face's Trainer"
)
_STATES = {
    "running": "RUNNING",
    "pending": "SCHEDULED",
    "crashed": "FAILED",
    "failed": "FAILED",
    "killed": "KILLED",
}
"""MLflow's run statuses by W&B's states; any other text counts as finished."""
_LONGEST = timedelta(days=3650).total_seconds()
"""Durations above this are not durations of runs, but e.g. times since 1970."""


class TableRuns:
    """The runs of a CSV table, one per row; its columns are both params and metrics.

    W&B's columns `Name`, `State`, `User`, `Created` and `Runtime` have their meaning in W&B. A cell
    with a dictionary, such as W&B's `config` and `summary`, becomes columns `config.NAME`. Raises
    ImportRefusedError if the file is not such a table.
    """

    kind = "CSV"

    def __init__(self, place: str) -> None:
        self._file = Path(place)
        try:
            with self._file.open(newline="", encoding="utf-8-sig") as file:
                head, *rows = csv.reader(file, strict=True)
            written = datetime.fromtimestamp(self._file.stat().st_mtime, UTC)
        except (UnicodeDecodeError, csv.Error):
            raise ImportRefusedError(f"{place} is not a CSV table; {_READ}") from None
        except OSError as error:
            raise ImportRefusedError(f"{place} cannot be read: {error.strerror}") from None
        except ValueError:
            raise ImportRefusedError(f"{place} is empty; the first row names columns") from None
        self._refuse_uneven_rows(head, rows)
        self._runs = {
            run.id: run
            for line, row in enumerate(rows, start=2)
            if row
            for run in [_make_run(line, dict(zip(head, row, strict=True)), written)]
        }

    def _refuse_uneven_rows(self, head: list[str], rows: list[list[str]]) -> None:
        if len(head) < 2 or len(set(head)) < len(head):
            text = "one column" if len(head) < 2 else "two columns of one name"
            raise ImportRefusedError(f"{self._file} is not a CSV table: it has {text}; {_READ}")
        for line, row in enumerate(rows, start=2):
            if row and len(row) != len(head):
                raise ImportRefusedError(
                    f"{self._file}, row {line}: {len(row)} cells, and there are {len(head)} columns"
                )

    def find_runs(self, *_: Any, **__: Any) -> Iterable[LoggedRun]:
        """Return all runs; identical rows are one run."""
        return self._runs.values()

    def history(self, run: str, metric: str) -> list[LoggedValue]:
        """Return the only value of a metric, at step 0."""
        row = self._runs[run]
        return [LoggedValue(0, row.started, row.metrics[metric])]


def _make_run(line: int, row: Mapping[str, str], written: datetime) -> LoggedRun:
    cells = {name: text for name, text in _flatten_cells(row) if text.strip()}
    seconds = _parse_number(cells.get("Runtime", "")) or 0.0
    seconds = seconds if 0 < seconds <= _LONGEST else 0.0  # not plausible for a run
    created = _parse_time(cells.get("Created", ""))
    started = written - timedelta(seconds=seconds) if created is None else created
    return LoggedRun(
        id=canonical_hash(sorted(row.items())),
        name=cells.get("Name") or cells.get("name") or f"row {line}",
        user=cells.get("User", ""),
        status=_STATES.get(cells.get("State", "").lower(), "FINISHED"),
        started=started,
        ended=started + timedelta(seconds=seconds) if seconds else None,
        params=cells,
        tags={},
        metrics={
            name: value
            for name, text in cells.items()
            if (value := _parse_number(text)) is not None
        },
    )


def _flatten_cells(row: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the cells by column; a dictionary in Python or JSON syntax gives a cell per entry."""
    for name, text in row.items():
        inner = _parse_dictionary(text)
        if inner is None:
            yield name, text
        else:
            yield from ((f"{name}.{key}", _format_value(value)) for key, value in inner.items())


def _parse_dictionary(text: str) -> dict[Any, Any] | None:
    for parse in (json.loads, ast.literal_eval) if text.startswith("{") else ():
        try:
            value = parse(text)
        except (ValueError, SyntaxError, TypeError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _format_value(value: Any) -> str:
    """Format a value as JSON; parts without a JSON form, such as sets, as Python prints them."""
    return value if isinstance(value, str) else json.dumps(value, default=str, skipkeys=True)


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _parse_time(text: str) -> datetime | None:
    """Parse an ISO time, or milliseconds since 1970; UTC if it has no time zone."""
    try:
        if text.isdecimal():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class TrackioRuns:
    """The runs of a Trackio project: the file PROJECT.db in its TRACKIO_DIR.

    Trackio does not record whether a run has ended, so all count as finished. Raises
    ImportRefusedError if the file is not such a database.
    """

    kind = "Trackio"

    def __init__(self, place: str) -> None:
        self._place, file = place, Path(place)
        if not file.is_file():
            raise ImportRefusedError(f"{place}: no such file")
        try:
            with closing(
                sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            ) as opened:
                # Earlier versions identify runs only by their names.
                known = {row[1] for row in opened.execute("PRAGMA table_info(metrics)")}
                run = "run_id" if "run_id" in known else "run_name"
                points = opened.execute(
                    f"SELECT {run}, run_name, step, timestamp, metrics FROM metrics ORDER BY id"
                ).fetchall()
                configs = dict(opened.execute(f"SELECT {run}, config FROM configs").fetchall())
        except sqlite3.DatabaseError:
            raise ImportRefusedError(f"{place} is not a database of Trackio; {_READ}") from None
        self._runs: dict[str, LoggedRun] = {}
        self._history: dict[tuple[str, str], list[LoggedValue]] = {}
        for identity, name, step, timestamp, text in points:
            self._add_point(str(identity), name, step, timestamp, text, configs.get(identity))

    def _add_point(
        self, run: str, name: str, step: int, timestamp: str, text: str, config: str | None
    ) -> None:
        time = _parse_time(timestamp) or datetime.fromtimestamp(0, UTC)
        logged = _parse_dictionary(text)
        if logged is None:
            raise ImportRefusedError(
                f"{self._place}: the metrics of run {name!r} at step {step} must be a JSON object, "
                f"got {format_value(text)}"
            )
        values = {
            metric: value
            for metric, given in logged.items()
            if (value := _parse_number(str(given))) is not None
        }
        known = self._runs.get(run)
        if known is None:
            settings = _parse_dictionary(config or "") or {}
            params = {key: _format_value(value) for key, value in settings.items()}
            user = params.get("_Username", "")
            known = LoggedRun(run, name, user, "FINISHED", time, time, params, {}, {})
        self._runs[run] = replace(known, ended=time, metrics=known.metrics | values)
        for metric, value in values.items():
            self._history.setdefault((run, metric), []).append(LoggedValue(step, time, value))

    def find_runs(self, *_: Any, **__: Any) -> Iterable[LoggedRun]:
        """Return all runs."""
        return self._runs.values()

    def history(self, run: str, metric: str) -> list[LoggedValue]:
        """Return all values of a run's metric, in order of step and time."""
        return sorted(self._history[run, metric], key=lambda value: (value.step, value.time))
