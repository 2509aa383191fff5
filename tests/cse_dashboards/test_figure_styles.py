"""A method looks alike in every figure, whoever stands beside it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.rows import method_style, row_styles
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_methods.names import method_name
from cse_methods.registry import available_methods
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.records import LeaderboardRow

STSB = "dev/stsb_spearman"


@pytest.fixture(scope="module")
def rows(lab: Leaderboard) -> list[LeaderboardRow]:
    return lab.rows(ranked=False)


def colours_on_the_board(rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    [picture] = leaderboard_pictures(rows)
    shown = [trace for trace in picture.figure.data if trace.showlegend is False]
    return {
        name: colour
        for trace in shown
        for name, colour in zip(trace.y, trace.marker.color, strict=True)
    }


def colours_of_curves(reader: Leaderboard, rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    [picture] = dev_curve_pictures(reader, rows, STSB)
    means = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    return {trace.name: trace.line.color for trace in means}


def test_neither_order_nor_filters_change_the_colour_of_a_method(
    lab: Leaderboard, rows: list[LeaderboardRow]
) -> None:
    assert len(rows) > 2
    for some in [rows, rows[::-1], rows[1:], rows[:1], [rows[2], rows[0]]]:
        own = {method_name(row.method): method_style(row.method).colour for row in some}
        board = colours_on_the_board(some)
        assert {method: board[f"{method_name(method)} mini"] for method in own} == own
        assert colours_of_curves(lab, some) == own


def test_every_method_has_a_look_of_its_own() -> None:
    shipped = [method_style(name) for name in available_methods()]
    assert len({style.colour for style in shipped}) == len(shipped)
    assert {style.dash for style in shipped} == {"solid"}
    outside = method_style("angle")
    assert outside == method_style("angle")
    assert (outside.colour, outside.dash, outside.symbol) not in {
        (style.colour, style.dash, style.symbol) for style in shipped
    }


def test_rows_of_one_method_differ_by_dash_and_marker_or_alone_by_colour(
    rows: list[LeaderboardRow],
) -> None:
    first, second = rows[:2]
    again = replace(first, backbone="another")
    styles = row_styles({"a": first, "b": second, "c": again})
    assert styles["a"].colour == styles["c"].colour != styles["b"].colour
    assert (styles["a"].dash, styles["a"].symbol) != (styles["c"].dash, styles["c"].symbol)
    alone = row_styles({"a": first, "b": again})
    assert alone["a"].colour != alone["b"].colour
