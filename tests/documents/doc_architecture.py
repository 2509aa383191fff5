"""The generated parts of docs/architecture.md: the diagram of imports and the table of folders."""

import ast
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from doc_blocks import ROOT, fill_generated

PACKAGES = ("cse_dashboards", "cse_platform", "cse_methods")
PAGE = ROOT / "docs" / "architecture.md"
Edges = set[tuple[str, str]]


def folders() -> dict[str, Path]:
    """Every package and folder of ours that holds modules, by dotted name, in order."""
    found = {}
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for file in sorted(root.rglob("__init__.py")):
            dotted = ".".join((package, *file.parent.relative_to(root).parts))
            found[dotted] = file.parent
    return found


def purpose(folder: Path) -> str:
    """The first sentence of a folder's own docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    first = text.partition("\n\n")[0].replace("\n", " ")
    return re.match(r".*?\.(?= |$)|.*", first)[0]  # type: ignore[index]


def imports() -> Edges:
    """Which folder right below a package imports from which other one, as the code stands."""
    import grimp

    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    rooms = {name for name in folders() if name.count(".") == 1}
    edges = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = tuple(".".join(name.split(".")[:2]) for name in (importer, imported))
            if ends[0] != ends[1] and rooms.issuperset(ends):
                edges.add(ends)
    return edges


def without_detours(edges: Edges) -> Edges:
    """The edges that no longer path replaces; those on a circle stay."""
    kept = set(edges)
    for edge in sorted(edges):
        start, end = edge
        if start not in _reached(end, kept) and end in _reached(start, kept - {edge}):
            kept.remove(edge)
    return kept


def _reached(start: str, edges: Edges) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        here = waiting.pop()
        further = {end for begin, end in edges if begin == here} - found
        found |= further
        waiting += further
    return found


def diagram() -> str:
    """The folders of each package and their imports, as Mermaid text."""
    edges = imports()
    lines = ["flowchart TD"]
    for package in PACKAGES:
        rooms = sorted(name for name in folders() if re.fullmatch(rf"{package}\.\w+", name))
        lines.append(f"    subgraph {package}")
        lines += [f"        {_node(name)}[{name.split('.')[1]}]" for name in rooms]
        within = {edge for edge in edges if rooms and set(edge) <= set(rooms)}
        lines += [f"        {_node(a)} --> {_node(b)}" for a, b in sorted(without_detours(within))]
        lines.append("    end")
    across = {(a.split(".")[0], b.split(".")[0]) for a, b in edges}
    crossing = without_detours({(a, b) for a, b in across if a != b})
    lines += [f"    {a} ==> {b}" for a, b in sorted(crossing)]
    return "".join(f"{line}\n" for line in lines)


def _node(name: str) -> str:
    return name.replace(".", "_")


def table() -> str:
    """What each folder is for, in its own words."""
    rows = ["| folder | what it is for | modules |", "|---|---|---:|"]
    for dotted, folder in folders().items():
        count = sum(1 for file in folder.glob("*.py") if file.name != "__init__.py")
        path = folder.relative_to(ROOT).as_posix()
        rows.append(f"| [`{dotted}`](../{path}) | {purpose(folder)} | {count or ''} |")
    return "".join(f"{row}\n" for row in rows)


def generated() -> Mapping[str, str]:
    """The generated parts of the page, by the name in their markers."""
    return {"imports": f"```mermaid\n{diagram()}```\n", "folders": table()}


def filled(text: str) -> str:
    """The page with its generated parts written anew."""
    return fill_generated(text, generated(), page=PAGE)
