"""A dev curve as text: where the dots are, and that any curve can be drawn."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.curve_chart import chart

VALUES = st.none() | st.floats(-1, 1)


def lines(points: list[tuple[int, float | None]], best: int | None = None) -> list[str]:
    return chart(points, best=best).splitlines()


def test_a_line_from_corner_to_corner() -> None:
    drawn = lines([(0, 0.25), (100, 0.75)], best=100)
    assert len(drawn) == 10
    assert [line[:7].strip() for line in drawn] == ["75.00", *[""] * 6, "25.00", "", ""]
    # Within a character the line, 32 dots high in 120, has both lowest, or both highest, dots set.
    assert (drawn[7][9], drawn[0][-1]) == ("⣀", "⠉")
    assert len(drawn[0]) == len(drawn[8]) == 69
    assert drawn[8] == "        └" + "─" * 59 + "▲"
    assert drawn[9].split() == ["0", "100"]
    assert len(drawn[9]) == 69


def test_a_point_that_is_not_a_number_is_a_gap() -> None:
    whole = lines([(0, 0.5), (10, 0.5), (20, 0.5), (30, 0.5)])
    gap = lines([(0, 0.5), (10, 0.5), (20, None), (30, 0.5)])
    row = next(n for n, line in enumerate(whole) if "50.00" in line)
    assert len(whole[row]) == len(gap[row]) == 69
    assert " " not in whole[row][9:]
    inside = gap[row][9:]
    assert set(inside[21:-1]) == {" "}  # from step 10, a third of 60 columns, to the last
    assert inside[-1] != " " and " " not in inside[:20]


@pytest.mark.parametrize("best", [None, 7])
def test_one_point(best: int | None) -> None:
    drawn = lines([(7, 0.3)], best=best)
    assert sum(ord(c) > 0x2800 and ord(c) < 0x2900 for line in drawn for c in line) == 1
    assert any(line.startswith("  30.00 ┤") for line in drawn)
    assert ("▲" in drawn[8]) is (best is not None)
    assert drawn[9].split() == ["7"]


def test_nothing_to_draw() -> None:
    assert chart([], best=None) == chart([(0, None), (5, None)], best=None) == ""


@given(values=st.lists(VALUES, min_size=1, max_size=60), stride=st.integers(1, 10_000))
def test_any_curve_fits(values: list[float | None], stride: int) -> None:
    points = [(n * stride, value) for n, value in enumerate(values)]
    numbers = [value for value in values if value is not None]
    drawn = lines(points, best=points[-1][0])
    if not numbers:
        assert drawn == []
        return
    assert len(drawn) == 10
    assert max(map(len, drawn)) <= 72
    dots = "".join(line[9:] for line in drawn[:8]).replace(" ", "")
    assert dots and all(0x2800 < ord(character) < 0x2900 for character in dots)
    labels = {float(text) for line in drawn[:8] if (text := line[:7].strip())}
    assert math.isclose(max(labels), 100 * max(numbers), abs_tol=0.005001)
    assert math.isclose(min(labels), 100 * min(numbers), abs_tol=0.005001)
