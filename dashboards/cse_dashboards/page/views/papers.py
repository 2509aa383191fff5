"""The papers' tables: a list of all with our progress, and each with our results beside it."""

from collections.abc import Iterator
from dataclasses import replace

from flask import Response, render_template

from cse_dashboards.page.address import PapersAddress, PaperTableAddress
from cse_dashboards.page.site import pages, read_address, reader
from cse_dashboards.page.views.board import DOWNLOADS, document_file
from cse_methods.names import method_name
from cse_platform.leaderboard.published.paper_files import PaperProgress
from cse_platform.leaderboard.render.documents import paper_layout, papers_layout
from cse_platform.render.table import Table, TableRow


@pages.get("/papers")
def show_papers() -> str:
    address = read_address(PapersAddress)
    listed = reader().papers()
    return _render_tables(address, "Papers", list(_add_links(listed)), file="papers")


@pages.get("/papers/<paper>/<table>")
def show_paper_table(paper: str, table: str) -> str:
    address = read_address(PaperTableAddress, paper=paper, table=table)
    paper_table = reader().paper_table(paper, table, address.filters)
    title = f"{method_name(paper_table.paper)}, {paper_table.table}"
    return _render_tables(
        address, title, [paper_layout(paper_table)], file=f"{paper_table.paper}-{paper_table.table}"
    )


@pages.get("/as/<form>/papers")
def papers_file(form: str) -> Response:
    return document_file(reader().papers, form, name="papers")


@pages.get("/as/<form>/papers/<paper>/<table>")
def paper_table_file(form: str, paper: str, table: str) -> Response:
    address = read_address(PaperTableAddress, paper=paper, table=table)
    paper_table = reader().paper_table(paper, table, address.filters)
    return document_file(lambda: paper_table, form, name=f"{paper_table.paper}-{paper_table.table}")


def _render_tables(
    address: PapersAddress | PaperTableAddress, title: str, tables: list[Table], *, file: str
) -> str:
    downloads = {end: name for end, (_, name, _) in DOWNLOADS.items()}
    return render_template(
        "papers.html", address=address, title=title, tables=tables, downloads=downloads, file=file
    )


def _add_links(listed: list[PaperProgress]) -> Iterator[Table]:
    """Link the names in the list to the tables that have printed numbers."""
    printed = {(progress.paper, progress.table) for progress in listed if progress.is_printed}
    papers = dict.fromkeys(progress.paper for progress in listed)

    def linked(paper: str, row: TableRow) -> TableRow:
        name, *rest = row
        if (paper, name.text) not in printed:
            return row
        link = PaperTableAddress(paper=paper, table=name.text).link()
        return replace(name, link=link), *rest

    for paper, table in zip(papers, papers_layout(listed), strict=True):
        groups = (tuple(linked(paper, row) for row in group) for group in table.groups)
        yield replace(table, groups=tuple(groups))
