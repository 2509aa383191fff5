"""Writes pages and tables as Markdown, LaTeX and HTML, by Jinja templates."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cse_platform.render.page import Page
from cse_platform.render.table import Markup, Table

MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")
LATEX_SPECIAL = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "★": r"$\star$",
    "◊": r"$\diamond$",
    "°": r"$^{\circ}$",
    "§": r"\S{}",
    "¶": r"\P{}",
    "≈": r"$\approx$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    # LaTeX would read these two as options of the line's end before them.
    "[": "{[}",
    "*": "{*}",
}
LATEX_MARKS = str.maketrans(
    {
        **{"†": r"\dagger", "‡": r"\ddagger", "§": r"\S", "¶": r"\P", "★": r"\star", " ": r"\,"},
        **{"◊": r"\diamond", "°": r"\circ", "≈": r"\approx", "↑": r"\uparrow", "↓": r"\downarrow"},
    }
)
LONG_TEXT = 24
"""LaTeX breaks longer texts into lines."""
LONG_COLUMN = r"p{0.22\linewidth}"
NEGATIVE = re.compile(r"(?<!\w)-(?=\d)")
"""A minus sign, which LaTeX would set as a hyphen."""


def to_markdown(page: Page) -> str:
    """Write a page as GitHub's Markdown: the best numbers bold, the second ones underlined.

    Markdown has no lines between rows, so groups follow each other.
    """
    return render_template("cse_platform.render", "page.md.j2", page=page)


def to_latex(tables: Sequence[Table]) -> str:
    """Write floating tables with caption, label and notes, by booktabs; empty for no tables.

    The best numbers are bold, the second ones underlined, standard deviations small after a
    plus-minus sign, and marks raised.
    """
    # LaTeX is full of braces, so its template has other signs for what is filled in.
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
        "latex_marks": lambda mark: mark.translate(LATEX_MARKS),
        "latex_columns": _align_latex_columns,
        "slug": _make_slug,
    }
    environment = _make_environment("cse_platform.render", **signs)
    environment.filters.update(filters)
    return environment.get_template("tables.tex.j2").render(tables=tables, long=[LONG_COLUMN])


def to_html(tables: Sequence[Table]) -> str:
    """Write a fragment of HTML that stands alone; heads of columns and rows have a scope."""
    environment = _make_environment("cse_platform.render", autoescape=True)
    return environment.get_template("tables.html.j2").render(tables=tables)


def render_template(
    package: str,
    name: str,
    *,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    **values: Any,
) -> str:
    """Fill in a Markdown template.

    It is in the package's folder `templates`. `filters` stand beside `markdown`, which escapes
    text.
    """
    environment = _make_environment(package)
    environment.filters.update(filters or {})
    return environment.get_template(name).render(**values)


def escape_markdown(text: str, markup: Markup = "text") -> str:
    """Escape one line of a table, so that no character has a meaning; code and Markdown stay."""
    line = re.sub(r"\s+", " ", text)
    if markup == "text":
        return MARKDOWN_SPECIAL.sub(r"\\\1", line)
    line = line.replace("|", r"\|")
    return f"`{line}`" if markup == "code" and line else line


def escape_latex(text: str) -> str:
    """Escape one line, so that no character has a meaning."""
    line = NEGATIVE.sub("−", re.sub(r"\s+", " ", text))
    return "".join(LATEX_SPECIAL.get(character, character) for character in line)


def _align_latex_columns(table: Table) -> list[str]:
    """Find how each column is aligned, or that its texts are broken into lines."""
    longest = [max((len(row[n].plain) for row in table.rows), default=0)
               for n in range(len(table.heads))]  # fmt: skip
    return [
        LONG_COLUMN if head.align == "left" and length > LONG_TEXT else head.align[0]
        for head, length in zip(table.heads, longest, strict=True)
    ]


def _make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@cache
def _make_environment(package: str, **options: Any) -> Environment:
    """Make the environment of a package's templates; a name that is not given is an error."""
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
