"""Markdown and HTML: by hand, and parsed back whatever the names are."""

import re
from html import unescape
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cse_platform.render.page import Curve, Heading, Paragraph
from cse_platform.render.table import Cell, ColumnHead, Table, text_table
from cse_platform.render.text import to_html, to_markdown

TABLE = Table(
    (ColumnHead("method"), ColumnHead("score", "right")),
    (
        ((Cell("sim_cse", mark="*"), Cell("78.12", "0.35", "§", "best")),),
        ((Cell("a|<b>&"), Cell("77.00", emphasis="second", link="https://x.y/z")),),
    ),
    "avg_sts, x 100",
    ("* opened.", "p < 0.05."),
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
    assert to_markdown([TABLE, TABLE]).split("\n\n### ")[1] == (
        "avg\\_sts, x 100\n"
        "\n"
        "| method | score |\n"
        "| :--- | ---: |\n"
        "| sim\\_cse \\* | **78.12** ±0.35 § |\n"
        "| a\\|\\<b\\>\\& | [<u>77.00</u>](https://x.y/z) |\n"
        "\n"
        "\\* opened.\n"
        "\n"
        "p \\< 0.05.\n"
    )


@given(texts=st.lists(TEXT, min_size=3, max_size=3))
def test_markdown_rows_have_as_many_cells_as_the_head(texts) -> None:
    row = (Cell(texts[1]), Cell(texts[2]))
    table = Table((ColumnHead(texts[0]), ColumnHead("b")), ((row,),), "T")
    lines = to_markdown([table]).splitlines()[2:]
    assert len(lines) == 3
    for line, own in zip(lines, ([texts[0], "b"], [":---", ":---"], texts[1:]), strict=True):
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)
        shown = [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in cells[1:-1]]
        assert len(shown) == 2
        if own != [":---", ":---"]:
            assert shown == [re.sub(r"\s+", " ", text).strip() for text in own]


def test_html_by_hand() -> None:
    parsed = Parsed(to_html([TABLE]))
    assert parsed.open == []
    assert parsed.rows == [["method", "score"], ["sim_cse*", "78.12 ±0.35§"], ["a|<b>&", "77.00"]]
    assert parsed.scopes == ["col", "col", "row", "row"]
    text = to_html([TABLE])
    assert "<strong>78.12</strong> ±0.35<sup>§</sup>" in text
    assert "<u>77.00</u>" in text
    assert "<caption>avg_sts, x 100</caption>" in text
    assert text.count("<tbody") == 2  # a rule begins another group
    assert "<p>* opened.</p>\n<p>p &lt; 0.05.</p>" in text


@given(texts=st.lists(TEXT, min_size=4, max_size=4))
def test_html_holds_any_text(texts) -> None:
    title, head, name, cell = texts
    row = (Cell(name), Cell(cell))
    text = to_html([Table((ColumnHead(head), ColumnHead("b")), ((row,),), title, (cell,))])
    parsed = Parsed(text)
    assert (parsed.open, parsed.rows) == ([], [[head, "b"], [name, cell]])
    assert f"<caption>{title}</caption>" in unescape(text)


def test_a_page_as_markdown_by_hand() -> None:
    """The first column is code, and what is Markdown already stays it."""
    rows = [("a", "`b` | c", ""), ("d_e", "<f>", "")]
    page = [
        Heading("Top_1", 2),
        Paragraph("Some `words`."),
        text_table(("setting", "takes", "none"), rows, markup="markdown"),
        text_table(("setting", "takes"), [("a", "[x]")]),
        Curve(((0, 0.5), (10, None), (20, 0.75)), best=20),
    ]
    assert to_markdown(page) == (
        "## Top\\_1\n\nSome `words`.\n\n"
        "| setting | takes |\n| :--- | :--- |\n| `a` | `b` \\| c |\n| `d_e` | <f> |\n\n"
        "| setting | takes |\n| :--- | :--- |\n| `a` | \\[x\\] |\n\n"
        "`50.00 ▁ █ 75.00, steps 0 to 20, best at 20`\n"
    )
