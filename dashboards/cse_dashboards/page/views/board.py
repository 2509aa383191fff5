"""The leaderboard, at first without ranks, and the papers' tables; as pages and as files."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, render_template

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.picture import Picture
from cse_dashboards.page.address import BoardAddress, PapersAddress, PaperTableAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_dashboards.page.words import arrange_columns
from cse_methods.names import backbone_name, method_name, paper_page
from cse_platform.leaderboard.families import FAMILIES, OWN, family_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.ranking import sort_rows
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.presentation.board import board_document, wide_board_tables
from cse_platform.presentation.board_entries import PUBLISHED, Board
from cse_platform.presentation.formats import TextFormat, render_document
from cse_platform.presentation.paper import (
    paper_document,
    paper_layout,
    papers_document,
    papers_layout,
)
from cse_platform.presentation.tables import Document, Table, TableRow

SHOWN = 200
"""Most rows if all configurations are shown."""
DOWNLOADS: dict[str, tuple[TextFormat, str, str]] = {
    "csv": ("csv", "CSV", "text/csv"),
    "json": ("json", "JSON", "application/json"),
    "md": ("markdown", "Markdown", "text/markdown"),
    "tex": ("latex", "LaTeX", "application/x-tex"),
}
"""By file extension: the format, its display name, and its MIME type."""


@pages.get("/")
def show_board() -> str:
    """Render everything that needs no resampling."""
    address = read_address(BoardAddress)
    quick = _read_rows(address, ranked=False)
    benchmarks = (name for row in quick for name in row.benchmarks)
    known = site().standings.recall(_make_ranking_key(address), quick)
    return render_template(
        "board.html",
        catalogue=reader().catalogue(),
        families=dict.fromkeys([*FAMILIES, *benchmarks]),
        waiting=known is None and bool(quick),
        **_build_context(address, quick if known is None else known, whole=known is not None),
    )


@pages.get("/parts/standing/")
def board_ranked() -> str:
    """Render the board with ranks, intervals over examples and the figure."""
    address = read_address(BoardAddress)
    shown = _build_context(address, _rank_rows(address), whole=True)
    return render_template("part.html", title="Leaderboard", body="board_tables.html", **shown)


@pages.get("/as/<form>/")
def board_file(form: str) -> Response:
    address = read_address(BoardAddress)
    return document_file(
        lambda: board_document(_build_board(address, _rank_rows(address), marked=True)),
        form,
        name="leaderboard",
    )


def document_file(make: Callable[[], Document], form: str, *, name: str) -> Response:
    """Make a download; the file extension decides the format. Raises AddressError if unknown."""
    if form not in DOWNLOADS:
        raise AddressError(f"no file ends in {form!r}; expected {', '.join(DOWNLOADS)}")
    kind, _, mimetype = DOWNLOADS[form]
    answer = Response(render_document(make(), format=kind), mimetype=mimetype)
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.{form}")
    return answer


def _make_ranking_key(address: BoardAddress) -> BoardAddress:
    """Keep only the choices that ranks depend on, without the order and published rows; own test
    sets are ranked by the one that sorts them.
    """
    sort = address.sort if address.tasks == OWN else None
    return address.model_copy(
        update={"sort": sort, "published": False, "against": None, "search": None}
    )


def _read_rows(address: BoardAddress, *, ranked: bool) -> list[LeaderboardRow]:
    return reader().rows(
        address.filters,
        tasks=address.tasks,
        per_configuration=address.every,
        limit=SHOWN if address.every else None,
        ranked=ranked,
        sort=_make_ranking_key(address).sort,
    )


def _rank_rows(address: BoardAddress) -> list[LeaderboardRow]:
    return site().standings.ask(
        _make_ranking_key(address),
        _read_rows(address, ranked=False),
        lambda: _read_rows(address, ranked=True),
    )


def _build_board(
    address: BoardAddress, rows: list[LeaderboardRow], *, marked: bool = False
) -> Board:
    """Build the board of the rows that contain each word of the search, in any case.

    `marked` adds marks of significance, which need resampling.
    """
    published: Sequence[PublishedRow] = ()
    if address.published:
        published = reader().published(backbone=address.backbone, method=address.method)
    kept = []
    for row in rows:
        values = (f"{name}={value}" for name, value in row.configuration.values.items())
        shown = (method_name(row.shown_method), backbone_name(row.shown_backbone))
        names = (row.reference, row.backbone, row.shown_backbone, *shown)
        text = " ".join([*names, row.sweep, row.corpus, *row.tags, *row.machines, *values]).lower()
        if all(word in text for word in (address.search or "").lower().split()):
            kept.append(row)
    rows = sort_rows(kept, address.sort)
    family = address.tasks or family_of(rows)
    against: Mapping[int, Comparison] = {}
    if marked and (reference := address.against):
        board, filters = reader(), address.filters
        named = board.row(reference, filters, tasks=family, scored=True)
        against = site().marks.ask(
            address, (rows, named), lambda: board.against(rows, reference, filters, tasks=family)
        )
    return Board(rows, published, family, sorted_by=address.sort, against=against)


def _build_context(
    address: BoardAddress, rows: list[LeaderboardRow], *, whole: bool
) -> dict[str, Any]:
    """Build the template's variables; the `whole` board has marks and pictures."""
    board, pictures = _build_board(address, rows, marked=whole), list[Picture]()
    if whole and (board.rows or board.published):
        from cse_dashboards.figures.board.leaderboard import leaderboard_pictures

        pictures = leaderboard_pictures(board.rows, board.published, board.family)
    front = ("method", address.sort or "method")
    tables = [arrange_columns(table, front=front) for table in wide_board_tables(board)]
    scored = [row for row in rows if row.scores]
    times = Counter(row.method for row in scored)
    lacking = address.tasks is None and len(scored) < len(rows)
    own = reader().rows(address.filters, tasks=OWN, ranked=False) if lacking else ()
    return {
        "address": address,
        "board": board,
        "tables": tables,
        "sources": _find_paper_pages(tables),
        "references": [r.method if times[r.method] == 1 else r.reference for r in scored],
        "has_own": any(row.scores for row in own),
        "cut": len(rows) == SHOWN and address.every,
        "downloads": DOWNLOADS,
        "pictures": pictures,
        "filtered": bool(address.search or list(_make_ranking_key(address).iterate_chosen())),
    }


def _find_paper_pages(tables: list[Table]) -> dict[str, str]:
    """Find the web pages of the papers of published rows, or of the documents that the numbers were
    read in, by the row's mark.
    """
    links = {}
    for table in tables:
        names = [head.name for head in table.heads]
        for row in table.rows if "source" in names else ():
            mark = row[0].mark.split(" ")[-1]
            texts = dict(zip(names, (cell.text for cell in row), strict=True))
            document = texts.get("read in", "").partition(" ")[0]
            page = paper_page(texts["source"]) or document
            if mark.startswith(PUBLISHED) and page.startswith("https://"):
                links[mark] = page
    return links


@pages.get("/papers")
def show_papers() -> str:
    """Render the frame of the list, which takes seconds when it is first asked for."""
    return render_template(
        "papers.html",
        address=read_address(PapersAddress),
        title="Papers",
        downloads=DOWNLOADS,
        file="papers",
    )


@pages.get("/parts/listed/papers")
def papers_listed() -> str:
    """Render the list of the papers' tables, with links to those with printed numbers."""
    listed = reader().papers()
    printed = {(progress.paper, progress.table) for progress in listed if progress.is_printed}
    papers = dict.fromkeys(progress.paper for progress in listed)
    tables = []
    for paper, table in zip(papers, papers_layout(listed), strict=True):
        groups = []
        for group in table.groups:
            rows: list[TableRow] = []
            for name, *other_cells in group:
                if (paper, name.text) in printed:
                    address = PaperTableAddress(paper=paper, table=name.text)
                    name = replace(name, link=address.link())
                rows.append((name, *other_cells))
            groups.append(tuple(rows))
        title = table.title.replace(paper, method_name(paper), 1)
        tables.append(replace(table, title=title, groups=tuple(groups)))
    return render_template("part.html", title="Papers", body="paper_tables.html", tables=tables)


@pages.get("/papers/<paper>/<table>")
def show_paper_table(paper: str, table: str) -> str:
    address = read_address(PaperTableAddress, paper=paper, table=table)
    shown = reader().paper_table(paper, table, address.filters)
    return render_template(
        "papers.html",
        address=address,
        title=f"{method_name(shown.paper)}, {shown.table}",
        tables=[paper_layout(shown)],
        downloads=DOWNLOADS,
        file=f"{shown.paper}-{shown.table}",
    )


@pages.get("/as/<form>/papers")
def papers_file(form: str) -> Response:
    return document_file(lambda: papers_document(reader().papers()), form, name="papers")


@pages.get("/as/<form>/papers/<paper>/<table>")
def paper_table_file(form: str, paper: str, table: str) -> Response:
    address = read_address(PaperTableAddress, paper=paper, table=table)
    shown = reader().paper_table(paper, table, address.filters)
    return document_file(lambda: paper_document(shown), form, name=f"{shown.paper}-{shown.table}")
