"""Writes pages and tables as Markdown, LaTeX and HTML, with Jinja templates."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from cse_platform.presentation.tables import Document, Markup, Page, Table, to_json

TextFormat = Literal["json", "csv", "markdown", "latex", "html"]
Format = TextFormat | Literal["table"]

MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")
LATEX_MARKS = {
    **{"†": r"\dagger", "‡": r"\ddagger", "★": r"\star", "◊": r"\diamond", "△": r"\triangle"},
    **{"≈": r"\approx", "↑": r"\uparrow", "↓": r"\downarrow"},
}
LATEX_SPECIAL = {
    **{mark: f"${command}$" for mark, command in LATEX_MARKS.items()},
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "°": r"$^{\circ}$",
    "§": r"\S{}",
    "¶": r"\P{}",
    # After the end of a row (\\), LaTeX would read these two as its options.
    "[": "{[}",
    "*": "{*}",
}
LATEX_SUPERSCRIPTS = str.maketrans(
    LATEX_MARKS | {"§": r"\S", "¶": r"\P", "°": r"\circ", " ": r"\,"}
)
LONG_TEXT = 24
"""Texts longer than this many characters are broken into lines in LaTeX."""
LONG_COLUMN = r"p{0.22\linewidth}"
NEGATIVE = re.compile(r"(?<!\w)-(?=\d)")
"""A hyphen before a number, to be written as a minus sign."""


def render_document(document: Document, *, format: TextFormat) -> str:
    """Render a document as text that ends in a line break.

    `json` and `csv` have fractions, for programs; the other formats have percentages, for people.
    Markdown and LaTeX have the form that papers print, if the document has one.
    """
    if format == "json":
        return to_json(document.record())
    if format == "csv":
        return document.csv()
    is_printed = document.printed is not None and format != "html"
    tables = document.printed() if document.printed and is_printed else document.tables()
    return {"markdown": to_markdown, "latex": to_latex, "html": to_html}[format](tables)


def to_markdown(page: Page) -> str:
    """Write a page as GitHub's Markdown: best numbers bold, second-best underlined.

    Markdown has no lines between rows, so groups are not separated.
    """
    return render_template("cse_platform.presentation", "page.md.j2", page=page)


def to_latex(tables: Sequence[Table]) -> str:
    """Write floating tables with caption, label and notes, for booktabs; empty without tables.

    Best numbers are bold, second-best underlined, standard deviations small after a plus-minus
    sign, and marks superscripts.
    """
    # LaTeX is full of braces, so its template has other delimiters.
    signs = {
        "block_start_string": "<%",
        "block_end_string": "%>",
        "variable_start_string": "<<",
        "variable_end_string": ">>",
        "comment_start_string": "<#",
        "comment_end_string": "#>",
    }
    filters: dict[str, Callable[..., Any]] = {
        "latex": escape_latex,
        "latex_marks": lambda mark: mark.translate(LATEX_SUPERSCRIPTS),
        "latex_columns": _align_latex_columns,
        "slug": lambda text: re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-"),
    }
    environment = _make_environment("cse_platform.presentation", **signs)
    environment.filters.update(filters)
    return environment.get_template("tables.tex.j2").render(tables=tables, long=[LONG_COLUMN])


def to_html(tables: Sequence[Table]) -> str:
    """Write a self-contained HTML fragment; column and row heads have a scope."""
    environment = _make_environment("cse_platform.presentation", autoescape=True)
    return environment.get_template("tables.html.j2").render(tables=tables)


def render_template(
    package: str,
    name: str,
    *,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    **values: Any,
) -> str:
    """Render a Markdown template from the package's folder `templates`.

    `filters` are added to `markdown`, which escapes text.
    """
    environment = _make_environment(package)
    environment.filters.update(filters or {})
    return environment.get_template(name).render(**values)


def escape_markdown(text: str, markup: Markup = "text") -> str:
    """Escape text for one line of a table, so that no character is markup; code is kept."""
    line = re.sub(r"\s+", " ", text)
    if markup == "text":
        return MARKDOWN_SPECIAL.sub(r"\\\1", line)
    line = line.replace("|", r"\|")
    return f"`{line}`" if line else line


def escape_latex(text: str) -> str:
    """Escape text for one line, so that no character is a command."""
    line = NEGATIVE.sub("−", re.sub(r"\s+", " ", text))
    return "".join(LATEX_SPECIAL.get(character, character) for character in line)


def _align_latex_columns(table: Table) -> list[str]:
    """Return the alignment of each column; long texts get a paragraph column."""
    longest = [max((len(row[n].plain) for row in table.rows), default=0)
               for n in range(len(table.heads))]  # fmt: skip
    return [
        LONG_COLUMN if head.align == "left" and length > LONG_TEXT else head.align[0]
        for head, length in zip(table.heads, longest, strict=True)
    ]


@cache
def _make_environment(package: str, **options: Any) -> Environment:
    """Make the environment of a package's templates, in which undefined names are errors."""
    made = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    made.filters["markdown"] = escape_markdown
    return made
