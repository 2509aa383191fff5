"""Grids on a terminal: nothing is cut, whatever the names are."""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.render import terminal
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.grid import Cell, Column, Grid, Row, Rule
from cse_platform.leaderboard.render.write import write
from cse_platform.leaderboard.row import FAMILIES, Estimate, Gap, LeaderboardRow
from cse_platform.leaderboard.statistics.results import Interval, RankInterval

NAMES = st.text("ab_:[/]-& \\", min_size=1, max_size=60)


def printed(grids: list[Grid], *, wide: bool = False) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        terminal.show(grids, wide=wide)
    return out.getvalue().splitlines()


def letters(text: str) -> list[str]:
    return sorted(text.replace(" ", ""))


def one_column(texts: list[str], column: Column) -> Grid:
    return Grid("T", (column,), tuple(Row((Cell(text),)) for text in texts))


def test_a_table_by_hand() -> None:
    grid = Grid(
        "Title",
        (Column("name"), Column("score", "right")),
        (
            Row((Cell("a", mark="*"), Cell("78.12", "0.35", emphasis="best"))),
            Rule(),
            Row((Cell("[b]"), Cell("7.00"))),
        ),
        ("A note.",),
        {"*": "meant.", "§": "not there."},
    )
    assert printed([grid, grid]) == [
        "Title",
        "name        score",
        "─────────────────",
        "a *   78.12 ±0.35",
        "─────────────────",
        "[b]          7.00",
        "* meant.",
        "A note.",
        "",
        "Title",
        "name        score",
        "─────────────────",
        "a *   78.12 ±0.35",
        "─────────────────",
        "[b]          7.00",
    ]


@given(
    method=NAMES,
    backbone=NAMES,
    sweep=NAMES,
    family=st.sampled_from(["sts", "transfer", "ranking"]),
    system=NAMES,
)
def test_every_board_fits_and_is_whole(
    row: Callable[..., LeaderboardRow],
    estimate: Callable[..., Estimate],
    published: Callable[..., PublishedRow],
    method: str,
    backbone: str,
    sweep: str,
    family: str,
    system: str,
) -> None:
    columns = FAMILIES[family].columns
    score = estimate(0.7, 0.8, interval=Interval(0.6123, 0.8877, "seeds"))
    ours = row(
        dict.fromkeys(columns, score),
        method=method,
        backbone=backbone,
        sweep=sweep,
        headline=columns[-1],
        rank=RankInterval(10, 12, 20),
        gap=Gap(columns[-1], 0.8, "x", -0.05, False),
    )
    paper = published(dict.fromkeys(columns, 0.5), system=system)
    with redirect_stdout(StringIO()) as out:
        write(Board([ours], [paper], family=family), form="table")
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= terminal.WIDTH
    for number in ("75.00", "[61.23,", "88.77]", "10-12", "50.00"):
        assert number in text
    folded = letters(text)
    for name in (method, backbone, sweep, system):
        assert all(folded.count(letter) >= name.count(letter) for letter in set(name) - {" "})


@given(texts=st.lists(NAMES, min_size=1, max_size=4), width=st.integers(8, 120))
def test_cells_are_folded_and_never_cut(texts: list[str], width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "WIDTH", width)
        _, *lines = printed([one_column(texts, Column("n"))])
    assert max(map(len, lines)) <= width
    assert letters("".join(lines).replace("─", "")) == letters("".join(["n", *texts]))


def test_wide_folds_nothing() -> None:
    name = "a long name " * 20
    assert name.strip() in printed([one_column([name], Column("n"))], wide=True)[-1]


def test_numbers_are_folded_after_names_and_at_blanks() -> None:
    names, numbers = Cell("name" * 5), Cell("78.12", "0.35")
    columns = (Column("n"), *[Column("s", "right", "at blanks")] * 13)
    lines = printed([Grid("T", columns, (Row((names, *[numbers] * 13)),))])
    assert [line.split()[1:] for line in lines if "." in line] == [["78.12"] * 13, ["±0.35"] * 13]
