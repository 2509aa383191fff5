"""Count the code of the packages by room: lines without docstrings, comments and blanks, records,
functions and their median length: `make bench-size`.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGES = ("methods/cse_methods", "platform/cse_platform", "dashboards/cse_dashboards")
RECORDS = {"dataclass", "NamedTuple", "Settings", "BaseModel", "TypedDict", "Base"}
"""What a class that only holds values is decorated with or derived from."""
_SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@dataclass
class Size:
    """The code of some modules."""

    modules: int = 0
    total: int = 0
    """All lines."""
    code: int = 0
    """Lines with code."""
    records: int = 0
    functions: list[int] = field(default_factory=list)
    """The lines with code of each function."""

    def add(self, other: "Size") -> None:
        """Add the code of other modules."""
        self.modules, self.total = self.modules + other.modules, self.total + other.total
        self.code, self.records = self.code + other.code, self.records + other.records
        self.functions += other.functions

    def format(self, name: str) -> str:
        """Format as a line of the table."""
        middle = f"{median(self.functions):.0f}" if self.functions else ""
        counts = (self.modules, self.total, self.code, self.records, len(self.functions))
        return f"{name:40}" + "".join(f"{count:>10,}" for count in counts) + f"{middle:>8}"


def measure_module(source: str) -> Size:
    """Measure one module."""
    tree = ast.parse(source)
    lines = _find_code_lines(source) - set(_iterate_docstring_lines(tree))
    functions = [
        len(lines.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    records = sum(isinstance(node, ast.ClassDef) and _is_record(node) for node in ast.walk(tree))
    return Size(1, source.count("\n"), len(lines), records, functions)


def _find_code_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _iterate_docstring_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of strings that stand alone: docstrings of modules, functions and fields."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_record(node: ast.ClassDef) -> bool:
    marks = [part.func if isinstance(part, ast.Call) else part for part in node.decorator_list]
    names = {part.id for part in (*marks, *node.bases) if isinstance(part, ast.Name)}
    return not names.isdisjoint(RECORDS)


def main() -> None:
    """Print a line for each room, each package, and everything."""
    heads = ("modules", "lines", "code", "records", "functions")
    lines = [f"{'room':40}" + "".join(f"{head:>10}" for head in heads) + f"{'median':>8}"]
    everything = Size()
    for package in PACKAGES:
        rooms: dict[str, Size] = {}
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT / package).parts
            room = parts[0] if len(parts) > 1 else "(root)"
            rooms.setdefault(room, Size()).add(measure_module(file.read_text(encoding="utf-8")))
        whole = Size()
        for room, size in rooms.items():
            lines.append(size.format(f"{Path(package).name}/{room}"))
            whole.add(size)
        lines += [whole.format(Path(package).name), ""]
        everything.add(whole)
    sys.stdout.write("\n".join([*lines, everything.format("all"), ""]))


if __name__ == "__main__":
    main()
