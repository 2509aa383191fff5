"""Reads the rows of tables: CSV, TSV, JSON, JSON lines, Excel and Parquet, and MTEB's results."""

import ast
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cse_methods.errors import DataError
from cse_methods.files.text import read_content
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.trials import refuse
from cse_platform.sweep.problems import format_value

_FROM_LOG = "keep the dictionaries of a log by: grep -o '{.*}' LOG > TABLE.jsonl"
_EXCEL = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
_NO_NUMBER = ("", "na", "n/a", "#n/a", "nan", "-nan", "none", "null", "<na>", "-")
_NAMES: dict[str, Any] = {"true": True, "true_": True, "false": False, "false_": False}
_NAMES |= {"null": None, "nan": math.nan, "inf": math.inf, "infinity": math.inf}
"""Values by the names, in small letters, that Python, numpy, torch and JSON print."""
_OBJECT = re.compile(r"(?<![\w'\"])<[^<>\n]*>")
"""An object as Python prints it, such as `<class 'dict'>`."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")

Row = tuple[str, dict[str, str]]
"""A row: its place for people, and the texts of the cells that are not empty, by column."""


def read_rows(file: Path) -> list[Row]:
    """Read the rows of a table; a cell with a dictionary becomes columns such as `config.optim.lr`.

    A folder holds MTEB's results of one encoder, which are one row. Raises ImportRefusedError with
    all problems of the file.
    """
    try:
        read = [(label, cells) for label, cells in _read_cells(file) if isinstance(cells, dict)]
    except (DataError, OSError) as error:
        raise ImportRefusedError(str(error)) from None
    rows = [(p, {n: t for n, t in _flatten("", cells) if t.strip()}) for p, cells in read]
    if not any(cells for _, cells in rows):
        raise ImportRefusedError(f"{file} has no rows; expected the names of columns, and runs")
    return [(label, cells) for label, cells in rows if cells]


def _read_cells(file: Path) -> list[tuple[str, Any]]:
    """Read a file's rows as mappings of cells, each with its place."""
    if file.is_dir():
        paths = [path for path in sorted(file.glob("*.json")) if path.name != "model_meta.json"]
        read = {
            path: _merge_results([_parse_json(path.read_text("utf-8", "replace"))])
            for path in paths
        }
        refuse(
            [f"{path}: no result of MTEB" for path, result in read.items() if not result],
            f"{file} is not a folder of MTEB's results, one JSON file a task:",
        )
        return [(file.name, {name: cell for row in read.values() for name, cell in row.items()})]
    content = read_content(file)
    if file.suffix.lower() in (*_EXCEL, ".parquet"):
        return _read_grid(file, _read_frame(file, content))
    try:
        utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = content.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # of Excel in western Europe
    if "\0" in text:
        raise ImportRefusedError(f"{file} is not a table: no CSV, JSON, Excel or Parquet file")
    text = io.StringIO(text, None).read()  # every end of a line becomes \n
    if not text.lstrip().startswith(("{", "[")):
        return _read_grid(file, _read_csv(file, text))
    if (data := _parse_json(text)) is not None:
        return [(f"row {number}", row) for number, row in enumerate(_find_rows(data), 1)]
    lines = {f"line {n}": line for n, line in enumerate(text.split("\n"), 1) if line.strip()}
    entries = {label: parse_dictionary(line) for label, line in lines.items()}
    refuse(
        [f"{p}: no dictionary: {format_value(lines[p])}" for p in lines if entries[p] is None],
        f"{file} is not of JSON lines; {_FROM_LOG}",
    )
    return [*entries.items()]


def _read_frame(file: Path, content: bytes) -> Iterator[tuple[str, list[Any]]]:
    import pandas as pd

    is_parquet = file.suffix.lower() == ".parquet"
    try:
        if is_parquet:
            frame = pd.read_parquet(io.BytesIO(content))
            frame = frame.reset_index() if any(frame.index.names) else frame
            yield "row 0", [*frame.columns]
        else:  # pandas would rename columns of one name
            frame = pd.read_excel(io.BytesIO(content), dtype=object, header=None)
    except Exception as error:  # each reader has errors of its own
        raise ImportRefusedError(f"{file} cannot be read as a table: {error}") from None
    cells = frame.astype(object).where(frame.notna(), "")
    for number, row in enumerate(cells.itertuples(index=False), 1):
        yield f"row {number}", [*row]


def _read_csv(file: Path, text: str) -> list[tuple[str, list[str]]]:
    """Read CSV; of the header's separators, the most frequent by which all rows have its width."""
    csv.field_size_limit(2**31 - 1)  # of the whole process, whose default is 131,072 characters
    text = re.sub(r"^sep=.(?=\n)", "", text)  # of Excel
    head = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    separators = [s for s in sorted(",;\t|", key=head.count, reverse=True) if s in head] or [","]
    for separator in separators:
        with suppress(ImportRefusedError):
            lines = _split_lines(file, text, separator)
            if len({len(cells) for _, cells in lines}) == 1:
                return lines
    return _split_lines(file, text, separators[0])


def _split_lines(file: Path, text: str, separator: str) -> list[tuple[str, list[str]]]:
    """Split the lines that are not empty into cells."""
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True, strict=True)
    lines, line = [], 1
    try:
        for cells in reader:
            lines += [(f"line {line}", cells)] if "".join(cells).strip() else []
            line = reader.line_num + 1
    except csv.Error as error:
        raise ImportRefusedError(f"{file} is not a table (line {line}: {error})") from None
    return lines


def _read_grid(file: Path, grid: Iterable[tuple[str, list[Any]]]) -> list[tuple[str, Any]]:
    """Name the cells of each line that is not empty by those of the first."""
    lines = [(label, cells) for label, cells in grid if any(str(cell).strip() for cell in cells)]
    names = [str(name).strip() for name in lines[0][1]] if lines else []
    if len(names) < 2:
        reason = "it has one column" if names else "it is empty"
        way = f"; {_FROM_LOG}" if any("{" in str(cells) for _, cells in lines) else ""
        raise ImportRefusedError(
            f"{file} is not a table ({reason}); expected names of columns{way}"
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    wrong = [f"two columns have the name {format_value(name)}" for name in twice]
    wrong += [
        f"{p}: {len(cells)} cells, and there are {len(names)} columns: {format_value(cells[0])}, …"
        for p, cells in lines
        if len(cells) != len(names)
    ]
    refuse(wrong, f"{file} is not a table:")
    return [(label, dict(zip(names, cells, strict=True))) for label, cells in lines[1:]]


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _find_rows(data: Any) -> list[Any]:
    """Find the rows of a JSON document: a list, or as a Trainer, W&B, pandas and MTEB write it."""
    match data:
        case {"log_history": [*rows]} | {"task_results": [*rows]}:
            return _find_rows(rows)
        case {"columns": [*names], "data": [*rows]} if all(isinstance(row, list) for row in rows):
            return [dict(zip(map(str, names), row, strict=False)) for row in rows]
        case {"schema": _, "data": [*rows]}:
            return rows
        case {"task_name": _, "scores": _} | {"mteb_dataset_name": _}:
            return [_merge_results([data])]
        case [{"task_name": _, "scores": _} | {"mteb_dataset_name": _}, *_]:
            return [_merge_results(data)]
        case [*rows]:
            return rows
    columns = [dict(enumerate(c)) if isinstance(c, list) else c for c in data.values()]
    if all(isinstance(c, dict) and c and all(str(key).isdecimal() for key in c) for c in columns):
        keys = dict.fromkeys(key for column in columns for key in column)
        return [{n: c.get(key) for n, c in zip(data, columns, strict=True)} for key in keys]
    return [*columns] if all(str(key).isdecimal() for key in data) else [data]


def _merge_results(results: Iterable[Any]) -> dict[str, Any]:
    """Merge MTEB's results of tasks into a row with columns TASK.SPLIT.METRIC."""
    merged: dict[str, Any] = {}
    for result in results:
        match result:
            case {"task_name": str(task), "scores": {**splits}}:
                for split, subsets in splits.items():
                    for scores in subsets if isinstance(subsets, list) else [subsets]:
                        subset = scores.get("hf_subset") if isinstance(scores, dict) else None
                        names = (task, str(split), str(subset or "default"))
                        merged[".".join(name for name in names if name != "default")] = scores
            case {"mteb_dataset_name": str(task)}:  # of versions before 1.2
                merged[task] = result
    return merged


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
    is_json = value is None or isinstance(value, bool | int | float | list | tuple)
    yield name, json.dumps(value, default=str, skipkeys=True) if is_json else str(value)


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
            return {str(keyword.arg): _evaluate(keyword.value) for keyword in keywords}
        case None:
            raise ValueError("an entry without a key")
    return ast.unparse(node)


def with_point(text: str, *, thousands: bool = True) -> str:
    """Write a decimal comma as a point; that of 1,000 stays if it may separate thousands."""
    is_decimal = _DECIMAL_COMMA.fullmatch(text) and not (thousands and text.endswith(",000"))
    return text.replace(",", ".") if is_decimal else text


def parse_number(text: str, *, thousands: bool = False) -> float | None:
    """Parse a number, also with a decimal comma; NaN for a mark of none, None for other text.

    1,000 is one, or None where its comma may separate thousands.
    """
    text = text.strip()
    try:
        return float(with_point(text, thousands=thousands))
    except ValueError:
        return math.nan if text.lower() in _NO_NUMBER else None
