"""What gives way on a line that is too short, and in which order."""

from io import StringIO

import pytest
from rich.console import Console

from cse_platform import folding

COLUMNS = (["n", "a" * 20], ["s", "78.12 ±0.35"])


def test_the_natural_width_by_hand() -> None:
    assert folding.natural_width(COLUMNS) == 20 + 2 + 11


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (40, [20, 11]),
        (33, [20, 11]),
        (25, [12, 11]),  # a name may be broken after twelve letters
        (20, [7, 11]),  # then anywhere
        (12, [5, 5]),  # then the number between its mean and its deviation
        (6, [2, 2]),  # then anything anywhere
    ],
)
def test_names_give_way_before_numbers(total: int, expected: list[int]) -> None:
    assert folding.widths(COLUMNS, total, folds=["freely", "last"]) == expected


def test_a_deviation_goes_below_its_mean_before_a_name_is_broken() -> None:
    assert folding.widths(COLUMNS, 29, folds=["freely", "at blanks"]) == [20, 7]


def test_names_are_broken_after_all_else_gave_way() -> None:
    columns = (["method", "whitenedcse"], ["sweep", "a" * 20], ["s", "78.12 ±0.35"])
    folds: list[folding.Fold] = ["names", "freely", "last"]
    expected = {40: [11, 14, 11], 31: [11, 5, 11], 25: [11, 5, 5], 24: [11, 4, 5], 23: [10, 4, 5]}
    for total, room in expected.items():
        assert folding.widths(columns, total, folds=folds) == room, total


def test_the_head_of_names_is_broken_before_they_are() -> None:
    columns = (["configuration", "bbbbbbbb"], ["s", "78.12 ±0.35"])
    assert folding.widths(columns, 8 + 2 + 5, folds=["names", "last"]) == [8, 5]


def test_settings_are_folded_between_and_never_inside() -> None:
    setting = "consistency_temperature=0.0123"
    columns = (["sweep", "a" * 20], ["searched", f"{setting} temperature=0.05"])
    folds: list[folding.Fold] = ["freely", "at blanks"]
    for total in range(len(setting) + 2 + 5, 90):
        assert folding.widths(columns, total, folds=folds)[1] >= len(setting)


def test_heads_are_folded_before_cells_are() -> None:
    columns = (["a long head", "ab"], ["n", "one two"])
    assert folding.widths(columns, 4 + 2 + 7) == [4, 7]


def test_heads_are_broken_within_words_last_of_all() -> None:
    columns = (["configuration", "bbbbbbbb"], ["names", "a" * 20], ["s", "78.12 ±0.35"])
    folds: list[folding.Fold] = ["freely", "freely", "last"]
    assert folding.widths(columns, 13 + 2 + 12 + 2 + 11, folds=folds) == [13, 12, 11]
    assert folding.widths(columns, 13 + 2 + 5 + 2 + 11, folds=folds) == [13, 5, 11]
    assert folding.widths(columns, 13 + 2 + 5 + 2 + 5, folds=folds) == [13, 5, 5]
    assert folding.widths(columns, 13 + 2 + 5 + 2 + 4, folds=folds)[0] < 13


def test_only_a_terminal_gets_blanks_at_the_ends_of_lines() -> None:
    for terminal, expected in ((False, "a\n b\n"), (True, "a  \n b \n")):
        out = StringIO()
        console = Console(file=out, force_terminal=terminal, no_color=True)
        with folding.trimmed(console):
            console.print("a  \n b ")
        assert out.getvalue() == expected
