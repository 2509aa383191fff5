"""Curves and counts as one line of bars."""

from hypothesis import given
from hypothesis import strategies as st

from cse_platform.render.page import bars, sparkline


def test_a_curve_by_hand() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.2, None, 0.1]) == "█ ▁"
    assert sparkline([0.3, 0.3]) == "▁▁"
    assert sparkline([]) == sparkline([None, None]) == ""


def test_neighbours_are_averaged_where_there_is_no_room() -> None:
    assert sparkline([0.0, 0.0, 1.0, None, 0.5, 0.5], width=3) == "▁█▅"


def test_counts_by_hand() -> None:
    assert bars([0, 1, 8]) == " ▁█"
    assert bars([0, 0]) == "  " and bars([]) == ""
    assert bars([1, 1000]) == "▁█"  # one that is there is seen


@given(st.lists(st.none() | st.floats(-1, 1), max_size=200))
def test_any_curve_fits(values) -> None:
    drawn = sparkline(values)
    known = [value for value in values if value is not None]
    assert len(drawn) == (min(len(values), 60) if known else 0)
    if len(values) <= 60 and len(set(known)) > 1:
        assert drawn[values.index(max(known))] == "█"
        assert drawn[values.index(min(known))] == "▁"
