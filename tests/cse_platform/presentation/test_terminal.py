import re
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

import pytest
from board_rows import estimate, row
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_platform.cli.common import print_document
from cse_platform.leaderboard.families import BOARD_FAMILIES
from cse_platform.leaderboard.records import Gap
from cse_platform.leaderboard.statistics.intervals import Interval, RankInterval
from cse_platform.presentation.board import TABLES, board_document
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.tables import Cell, ColumnHead, Page, Table, sparkline, text_table
from cse_platform.presentation.terminal import print_page


def printed(page: Page, *, wide: bool = False) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        print_page(page, wide=wide)
    return out.getvalue().splitlines()


class TerminalText(StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(width: int, show: Callable[[], None]) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(TerminalText()) as out:
        patch.setenv("COLUMNS", str(width))
        show()
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_the_best_is_bold_and_the_second_underlined(monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    cells = (Cell("8", emphasis="best"), Cell("7", emphasis="second"), Cell("6"))
    (*_, line) = printed([Table((ColumnHead("a"), ColumnHead("b"), ColumnHead("c")), ((cells,),))])
    assert "\x1b[1m8" in line and "\x1b[4m7" in line and not line.endswith("m6\x1b[0m")


@settings(max_examples=30)
@given(
    texts=st.lists(st.text("ab_:[/]-& \\", max_size=60), min_size=1, max_size=4),
    width=st.integers(20, 120),
)
def test_a_terminal_folds_and_never_cuts(texts, width) -> None:
    table = text_table(("n", "m"), [(text, f"x{text}") for text in texts])
    lines = on_a_terminal(width, lambda: print_page([table])).splitlines()
    assert max(map(len, lines)) <= width
    expected = "".join(["nm" if any(texts) else "m", *texts, *(f"x{text}" for text in texts)])
    found = "".join(lines).replace("─", "").replace(" ", "")
    assert sorted(found) == sorted(expected.replace(" ", ""))


def test_a_word_is_broken_only_where_the_words_of_all_columns_do_not_fit(capsys) -> None:
    name = "adamw_without_bias_correction"  # the third column has 68 - 25 - 29 = 14 for its words
    table = text_table(("a", "b", "c"), [("x" * 25, f"adamw, {name}", "some words " * 9)])
    for width, is_whole in ((70, True), (50, False)):
        print_page([table], width=width)
        shown = capsys.readouterr().out
        assert (name in shown) == is_whole and max(map(len, shown.splitlines())) <= width


def test_a_huge_text_takes_no_longer_than_its_length(capsys) -> None:
    """Such as a stranger's leaderboard can have; the other rows are padded to its width."""
    start = time.monotonic()
    print_page([text_table(("n", "m"), [("x" * 200_000, "y"), ("z", "y")])])
    assert time.monotonic() - start < 10
    assert not any(line.endswith(" ") for line in capsys.readouterr().out.splitlines())


def test_eighty_columns_break_no_number_and_no_name() -> None:
    score = estimate(0.76, 0.77, interval=Interval(0.7015, 0.8285, "seeds"))
    scores = dict.fromkeys(BOARD_FAMILIES["sts"].columns, score)
    ours = row(scores, method="whitenedcse", backbone="roberta-large",
               rank=RankInterval(1, 2, 2), gap=Gap(0.8, "x", -0.04, True))  # fmt: skip
    document = board_document(Board([ours]), TABLES)
    text = on_a_terminal(80, lambda: print_document(document, format="table"))
    assert max(map(len, text.splitlines())) <= 80
    words = text.split()
    assert words.count("whitenedcse") == words.count("roberta-large") == 5
    assert words.count("76.50") == 9 and words.count("±0.71") == 9
    for word in ("[70.15,", "82.85]", "77.00", "-4.00", "inside", "temperature=0.05"):
        assert word in words


def test_a_curve_by_hand() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.2, None, 0.1]) == "█ ▁"
    assert sparkline([0.3, 0.3]) == "▁▁"
    assert sparkline([]) == sparkline([None, None]) == ""
    # Neighbours are averaged where there is no room.
    assert sparkline([0.0, 0.0, 1.0, None, 0.5, 0.5], width=3) == "▁█▅"
