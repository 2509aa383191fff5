"""Grids as Markdown and as HTML: by hand, and parsed back whatever the names are."""

import re
from html import unescape
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.render import html, markdown
from cse_platform.leaderboard.render.grid import Cell, Column, Grid, Row, Rule

GRID = Grid(
    "avg_sts, x 100",
    (Column("method"), Column("score", "right")),
    (
        Row((Cell("sim_cse", mark="*"), Cell("78.12", "0.35", "§", "best"))),
        Rule(),
        Row((Cell("a|<b>&"), Cell("77.00", emphasis="second"))),
    ),
    ("p < 0.05.",),
    {"*": "opened."},
)
TEXT = st.text("ab|\\`*_[]<>~&$#'\"\n -", max_size=20)
VOID = {"br", "hr", "img", "meta"}


class Parsed(HTMLParser):
    """The cells of each row, their heads by scope, and the tags that are open at the end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.scopes: list[str | None] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in VOID
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "th":
            self.scopes.append(dict(attrs)["scope"])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def test_markdown_by_hand() -> None:
    assert markdown.written([GRID, GRID]).split("\n\n### ")[1] == (
        "avg\\_sts, x 100\n"
        "\n"
        "| method | score |\n"
        "| :--- | ---: |\n"
        "| sim\\_cse \\* | **78.12** ±0.35 § |\n"
        "| a\\|\\<b\\>\\& | <u>77.00</u> |\n"
        "\n"
        "\\* opened.\n"
        "\n"
        "p \\< 0.05.\n"
    )


@given(texts=st.lists(TEXT, min_size=3, max_size=3))
def test_markdown_rows_have_as_many_cells_as_the_head(texts: list[str]) -> None:
    columns = (Column(texts[0]), Column("b"))
    grid = Grid("T", columns, (Row((Cell(texts[1]), Cell(texts[2]))),))
    lines = markdown.written([grid]).splitlines()[2:]
    assert len(lines) == 3
    for line, own in zip(lines, ([texts[0], "b"], [":---", ":---"], texts[1:]), strict=True):
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)
        shown = [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in cells[1:-1]]
        assert len(shown) == 2
        if own != [":---", ":---"]:
            assert shown == [re.sub(r"\s+", " ", text).strip() for text in own]


def test_html_by_hand() -> None:
    parsed = Parsed(html.written([GRID]))
    assert parsed.open == []
    assert parsed.rows == [
        ["method", "score"],
        ["sim_cse*", "78.12 ±0.35§"],
        ["a|<b>&", "77.00"],
    ]
    assert parsed.scopes == ["col", "col", "row", "row"]
    text = html.written([GRID])
    assert "<strong>78.12</strong> ±0.35<sup>§</sup>" in text
    assert "<u>77.00</u>" in text
    assert "<caption>avg_sts, x 100</caption>" in text
    assert text.count("<tbody") == 2  # a rule begins another group
    assert "<p>* opened.</p>\n<p>p &lt; 0.05.</p>" in text


@given(texts=st.lists(TEXT, min_size=4, max_size=4))
def test_html_holds_any_text(texts: list[str]) -> None:
    title, head, name, cell = texts
    grid = Grid(title, (Column(head), Column("b")), (Row((Cell(name), Cell(cell))),), (cell,))
    text = html.written([grid])
    parsed = Parsed(text)
    assert (parsed.open, parsed.rows) == ([], [[head, "b"], [name, cell]])
    assert f"<caption>{title}</caption>" in unescape(text)
