"""A method looks alike in every figure, whoever stands beside it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

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
    for some in [*permutations(rows), *permutations(rows, 2), *permutations(rows, 1)]:
        own = {method_name(row.method): method_style(row.method).colour for row in some}
        board = colours_on_the_board(some)
        assert {method: board[f"{method_name(method)} mini"] for method in own} == own
        assert colours_of_curves(lab, some) == own


def test_shipped_methods_have_unlike_colours() -> None:
    shipped = available_methods()

    assert len({method_style(name).colour for name in shipped}) == len(shipped)
    assert {method_style(name).dash for name in shipped} == {"solid"}


def test_a_method_from_outside_has_a_look_of_its_own() -> None:
    outside = method_style("angle")

    assert outside == method_style("angle")
    assert all(
        (outside.colour, outside.dash, outside.symbol) != (one.colour, one.dash, one.symbol)
        for one in map(method_style, available_methods())
    )


def test_rows_of_one_method_differ_by_dash_and_marker(rows: list[LeaderboardRow]) -> None:
    first, second = rows[:2]
    again = replace(first, backbone="another")

    styles = row_styles({"a": first, "b": second, "c": again})

    assert styles["a"].colour == styles["c"].colour != styles["b"].colour
    assert (styles["a"].dash, styles["a"].symbol) != (styles["c"].dash, styles["c"].symbol)


def test_configurations_of_one_method_alone_have_colours_of_their_own(
    rows: list[LeaderboardRow],
) -> None:
    styles = row_styles({"a": rows[0], "b": replace(rows[0], backbone="another")})

    assert styles["a"].colour != styles["b"].colour
