"""Reads runs from tables: CSV, TSV, JSON, JSON lines, Excel and Parquet, and MTEB's results."""

import ast
import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.contract import LAST_STEP
from cse_methods.errors import DataError
from cse_methods.files.text import read_content
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.mapping import RunMapping
from cse_platform.imports.trials import refuse
from cse_platform.stores.mlflow.logged_runs import LoggedRun, LoggedValue
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import format_value

_LONGEST = timedelta(days=3650).total_seconds()
"""Durations above this are not durations of runs, but e.g. times since 1970."""
_EXCEL = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
_IDS = ("run_id", "id", "run", "run_name", "name")
_NO_NUMBER = ("", "na", "n/a", "#n/a", "nan", "-nan", "none", "null", "<na>", "-")
_NAMES: dict[str, Any] = {"true": True, "true_": True, "false": False, "false_": False}
_NAMES |= {"null": None, "nan": math.nan, "inf": math.inf, "infinity": math.inf}
"""Values by the names, in small letters, that Python, numpy, torch and JSON print."""
_OBJECT = re.compile(r"(?<![\w'\"])<[^<>\n]*>")
"""An object as Python prints it, such as `<class 'dict'>`."""
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


class _Row(NamedTuple):
    place: str
    """For people: the line that it begins on, or its number."""
    cells: dict[str, str]
    """The texts of the cells that are not empty, by column."""


def read_table(file: Path, mapping: RunMapping) -> list[LoggedRun]:
    """Read the runs of a table: a row is a run or, if the mapping names a step, a dev point of one.

    A cell with a dictionary becomes columns such as `config.optim.lr`. A folder holds MTEB's
    results of one encoder. Raises ImportRefusedError with all problems of the file.
    """
    try:
        rows = [row for row in _read_rows(file) if row.cells]
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (DataError, OSError) as error:
        raise ImportRefusedError(str(error)) from None
    if not rows:
        raise ImportRefusedError(f"{file} has no rows; expected the names of columns, and runs")
    names, params = {name for row in rows for name in row.cells}, {*mapping.params.values()}
    defaults = {} if {"state", "status"} & {*map(str.lower, names)} else {"state": "finished"}
    if mapping.step is None:
        runs = [equal[:1] for equal in _group(rows, names)]
    else:
        # A column whose texts are all different where runs may be one numbers the rows, unless
        # the steps of their dev points repeat: then the runs are several.
        equal, ids = _group(rows, params), {name for name in names if name.lower() in _IDS}
        shared = {name for name in ids if any(_repeats(name, group) for group in equal)}
        runs = []
        for group in _group(rows, params | shared):
            points = [row for row in group if mapping.dev.metric in row.cells]
            runs += _group(group, ids) if _repeats(mapping.step.param, points) else [group]
    return [_make_run(points, mapping, written, defaults) for points in runs]


def _group(rows: Sequence[_Row], names: Collection[str]) -> list[list[_Row]]:
    """Group the rows whose cells in these columns are equal, in the order of the first ones."""
    groups: dict[tuple[str | None, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(tuple(map(row.cells.get, names)), []).append(row)
    return [*groups.values()]


def _repeats(name: str, rows: Sequence[_Row]) -> bool:
    return len({row.cells.get(name) for row in rows}) < len(rows)


def _make_run(
    rows: Sequence[_Row], mapping: RunMapping, written: datetime, defaults: Mapping[str, str]
) -> LoggedRun:
    cells = {name: text for row in rows for name, text in row.cells.items()}
    by_name = {**defaults, **{name.lower(): text for name, text in cells.items()}}
    seconds = parse_number(by_name.get("runtime", "")) or 0.0
    seconds = seconds if 0 < seconds <= _LONGEST else 0.0
    started = _parse_time(by_name.get("created", "")) or written - timedelta(seconds=seconds)
    numbers = {name: number for name in cells if (number := parse_number(cells[name])) is not None}
    curve: dict[int, LoggedValue] = {}  # the first value at a step stays
    metrics = {mapping.dev.metric, *(score.metric for score in mapping.scores.values())}
    read = {*mapping.params.values(), mapping.dev.metric, mapping.step and mapping.step.param}
    problems = []
    for place, row in rows:
        problems += [
            f"{place}: {name} is {format_value(row[name])}, not a number"
            for name in sorted(metrics & row.keys())
            if parse_number(row[name]) is None
        ]
        value = parse_number(row.get(mapping.dev.metric, ""))
        if value is None or not math.isfinite(value):
            continue
        step = 0.0
        if mapping.step:
            text, times = row.get(mapping.step.param, ""), mapping.step.times
            pointed = with_point(text)
            number = None if "," in pointed else parse_number(pointed)
            step = math.nan if number is None else number * times
            if not 0 <= step <= LAST_STEP or (times == 1 and step % 1):
                hint = "; of epochs, write times: the steps in one" if times == 1 else ""
                got = f"{mapping.step.param} is {format_value(text)}"
                problems.append(f"{place}: {got}, not a step from 0{hint}")
                continue
        curve.setdefault(round(step), LoggedValue(round(step), started, value))
    name = next((by_name[key] for key in ("name", "run_name") if key in by_name), "")
    return LoggedRun(
        # Not of all cells: a table that gets a column has the same runs.
        id=canonical_hash(
            sorted({tuple(sorted((n, c) for n, c in row.items() if n in read)) for _, row in rows})
        ),
        label=f"{rows[0].place} ({name})" if name else rows[0].place,
        user=by_name.get("user", ""),
        status=by_name.get("state", by_name.get("status", "")),
        started=started,
        ended=started + timedelta(seconds=seconds) if seconds else None,
        params=cells,
        tags={},
        metrics=numbers,
        curve=tuple(curve.values()),
        problems=tuple(problems),
    )


def _read_rows(file: Path) -> Iterator[_Row]:
    if file.is_dir():
        paths = [path for path in sorted(file.glob("*.json")) if path.name != "model_meta.json"]
        read = {path: _parse_json(path.read_text("utf-8", "replace")) for path in paths}
        refuse(
            [f"{path}: no result of MTEB" for path, data in read.items() if not _is_result(data)],
            f"{file} is not a folder of MTEB's results, one JSON file a task:",
        )
        yield _make_row(file.name, _merge_results([*read.values()]))
        return
    content = read_content(file)
    if file.suffix.lower() in (*_EXCEL, ".parquet"):
        yield from _read_frame(file, content)
        return
    try:
        utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = content.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # of Excel in western Europe
    if "\0" in text:
        raise ImportRefusedError(f"{file} is not a table: no CSV, JSON, Excel or Parquet file")
    if not text.lstrip().startswith(("{", "[")):
        yield from _read_csv(file, text)
        return
    data = _parse_json(text)
    if data is not None:
        rows = _find_rows(data)
        yield from (_make_row(f"row {number}", row) for number, row in enumerate(rows, 1))
        return
    lines = [(f"line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    entries = [(place, parse_dictionary(line)) for place, line in lines]
    way = "keep the dictionaries of a log by: grep -o '{.*}' LOG > TABLE.jsonl"
    refuse(
        [
            f"{place}: no dictionary: {format_value(line)}"
            for (place, entry), (_, line) in zip(entries, lines, strict=True)
            if entry is None
        ],
        f"{file} is not of JSON lines; {way}",
    )
    yield from (_make_row(place, entry or {}) for place, entry in entries)


def _read_frame(file: Path, content: bytes) -> Iterator[_Row]:
    import pandas as pd

    is_parquet = file.suffix.lower() == ".parquet"
    try:
        stream = io.BytesIO(content)
        if is_parquet:
            frame = pd.read_parquet(stream)
            if any(frame.index.names):
                frame = frame.reset_index()
        else:  # pandas would rename columns of one name
            frame = pd.read_excel(stream, dtype=object, header=None)
            head, frame = [*map(str, frame.iloc[0])], frame.iloc[1:]
            frame.columns = pd.Index(head)
    except Exception as error:  # each reader has errors of its own
        raise ImportRefusedError(f"{file} cannot be read as a table: {error}") from None
    _refuse_twice(file, [*frame.columns])
    for number, row in enumerate(frame.astype(object).to_dict("records"), 1 if is_parquet else 2):
        is_gap = {
            name: pd.api.types.is_scalar(cell) and pd.isna(cell) for name, cell in row.items()
        }
        yield _make_row(f"row {number}", {n: cell for n, cell in row.items() if not is_gap[n]})


def _read_csv(file: Path, text: str) -> Iterator[_Row]:
    """Read CSV; the separator is the one by which most rows have the header's width."""
    csv.field_size_limit(2**31 - 1)  # of the whole process, whose default is 131,072 characters
    best: tuple[Any, ...] = (0, 0, [])
    error: csv.Error | None = None
    for separator in ",;\t|":
        reader, table = csv.reader(io.StringIO(text, None), delimiter=separator, strict=True), []
        try:
            while (line := reader.line_num + 1) and (cells := next(reader, None)) is not None:
                if "".join(cells).strip():
                    table.append((f"line {line}", cells))
        except csv.Error as problem:
            error = error or csv.Error(f"line {line}: {problem}")
            continue
        width = len(table[0][1]) if table else 0
        fitting = sum(len(cells) == width for _, cells in table) if width > 1 else 0
        best = max(best, (fitting, width, table), key=lambda each: each[:2])
    _, width, table = best
    if width < 2:
        reason = f"{error}" if error else "it has one column" if text.strip() else "it is empty"
        raise ImportRefusedError(f"{file} is not a table ({reason}); expected names of columns")
    (_, head), *rows = table
    head = [name.strip() for name in head]
    _refuse_twice(file, head)
    wrong = [
        f"{place}: {len(cells)} cells, and there are {width} columns: {format_value(cells[0])}, …"
        for place, cells in rows
        if len(cells) != width
    ]
    refuse(wrong, f"{file} is not a table:")
    for place, cells in rows:
        yield _make_row(place, {n: c for n, c in zip(head, cells, strict=True) if c.strip()})


def _refuse_twice(file: Path, head: Sequence[str]) -> None:
    twice = sorted({name for name in head if name and head.count(name) > 1})
    wrong = [f"two columns have the name {format_value(name)}" for name in twice]
    refuse(wrong, f"{file} is not a table:")


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _find_rows(data: Any) -> list[Any]:
    """Find the rows of a JSON document: a list, or as a Trainer, W&B, pandas and MTEB write it."""
    if isinstance(data, dict):
        inner = data.get("log_history", data.get("task_results"))
        data = inner if isinstance(inner, list) else data
    match data:
        case {"columns": [*names], "data": [*rows]} if all(isinstance(row, list) for row in rows):
            return [dict(zip(map(str, names), row, strict=False)) for row in rows]
        case dict() if _is_result(data):
            return [_merge_results([data])]
        case [_, *_] if all(map(_is_result, data)):
            return [_merge_results(data)]
        case [*rows]:
            return rows
    columns = [dict(enumerate(c)) if isinstance(c, list) else c for c in data.values()]
    if all(isinstance(c, dict) and c and all(str(key).isdecimal() for key in c) for c in columns):
        keys = dict.fromkeys(key for column in columns for key in column)
        return [{n: c.get(key) for n, c in zip(data, columns, strict=True)} for key in keys]
    return [data]


def _is_result(data: Any) -> bool:
    """Whether this is MTEB's result of a task."""
    match data:
        case {"task_name": _, "scores": {}} | {"mteb_dataset_name": _}:
            return True
    return False


def _merge_results(results: list[Any]) -> dict[str, Any]:
    """Merge MTEB's results of tasks into a row with columns TASK.SPLIT.METRIC."""
    merged: dict[str, Any] = {}
    for result in results:
        if "scores" not in result:  # of versions before 1.2
            merged[result.get("mteb_dataset_name", "")] = result
            continue
        for split, subsets in result["scores"].items():
            for scores in subsets if isinstance(subsets, list) else [subsets]:
                subset = scores.get("hf_subset", "default") if isinstance(scores, dict) else split
                names = [f"{result['task_name']}", f"{split}", f"{subset}"]
                merged[".".join(name for name in names if name != "default")] = scores
    return merged


def _make_row(place: str, cells: Any) -> _Row:
    flat = _flatten("", cells) if isinstance(cells, dict) else iter(())
    return _Row(place, {name: text for name, text in flat if text.strip()})


def _flatten(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value by dotted names; of W&B's {'value': …}, also without `value`."""
    if isinstance(value, str) and (inner := parse_dictionary(value)) is not None:
        value = inner
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(f"{name}.{key}" if name else str(key), inner)
        if name and "value" in value and value.keys() <= {"value", "desc"}:
            yield from _flatten(name, value["value"])
        return
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, Decimal):
        value = str(value)
    yield name, value if isinstance(value, str) else json.dumps(value, default=str, skipkeys=True)


def parse_dictionary(text: str) -> dict[str, Any] | None:
    """Parse a dictionary in JSON, or as Python prints it, with nan and numpy's and torch's."""
    if not (text := text.strip()).startswith("{"):
        return None
    value = _parse_json(text)
    for source in (text, _OBJECT.sub(lambda match: repr(match[0]), text)) if value is None else ():
        try:
            value = _evaluate(ast.parse(source, mode="eval").body)
            break
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            continue
    return value if isinstance(value, dict) else None


def _evaluate(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Dict(keys=keys, values=values):
            return {str(_evaluate(k)): _evaluate(v) for k, v in zip(keys, values, strict=True)}
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return [_evaluate(part) for part in parts]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.lower() in _NAMES:
            return _NAMES[name.lower()]
        case ast.Call(func=func, args=[*_, last]) if ast.unparse(func).lower().endswith("dict"):
            return dict(_evaluate(last))  # OrderedDict([('a', 1)])
        case ast.Call(args=[only]):
            return _evaluate(only)  # np.float64(0.7), tensor(0.7, device='cuda:0')
        case ast.Call(args=[], keywords=[_, *_] as keywords):
            return {str(each.arg): _evaluate(each.value) for each in keywords}
        case None:
            raise ValueError("an entry without a key")
    return ast.unparse(node)


def with_point(text: str) -> str:
    """Write a decimal comma as a point, except where it may separate thousands: 1,000."""
    is_decimal = DECIMAL_COMMA.fullmatch(text) and not text.endswith(",000")
    return text.replace(",", ".") if is_decimal else text


def parse_number(text: str) -> float | None:
    """Parse a number, also with a decimal comma; NaN for a mark of none, None for other text."""
    text = text.strip()
    try:
        return float(text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text)
    except ValueError:
        return math.nan if text.lower() in _NO_NUMBER else None


def _parse_time(text: str) -> datetime | None:
    """Parse an ISO time, or milliseconds since 1970; UTC if it has no time zone."""
    try:
        if text.isdecimal():
            time = datetime.fromtimestamp(int(text) / 1000, UTC)
        else:
            time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    if not 1970 <= time.year < 2200:  # a gap, as some trackers write it
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
