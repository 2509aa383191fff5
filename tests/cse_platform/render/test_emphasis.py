"""Which numbers are best and second."""

from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.render.board import Board
from cse_platform.render.formats import percent
from cse_platform.render.table import Column, to_table


def emphasis(*values: float | None) -> list[str | None]:
    """Of the cells of one column; None where there is no number."""
    column = Column[float | None]("a", lambda value: value, percent, compared=lambda value: value)
    name = Column[float | None]("name", lambda _: "row")
    cells = [row[-1] for row in to_table([name, column], [values]).rows]
    return [cell.emphasis if cell.text else None for cell in cells]


def test_by_hand() -> None:
    assert emphasis(0.7, 0.8, None, 0.75) == ["none", "best", None, "second"]
    assert emphasis(0.7) == ["none"]  # one alone is no winner
    assert emphasis(0.80001, 0.80004, 0.7, 0.6) == ["best", "best", "second", "none"]  # as shown
    assert emphasis(0.8, 0.8) == ["best", "best"]


@given(st.lists(st.integers(0, 9).map(lambda n: n / 10), min_size=2, max_size=6))
def test_the_best_are_the_highest(values) -> None:
    found = emphasis(*values)
    assert [v for v, place in zip(values, found, strict=True) if place == "best"] == [
        value for value in values if value == max(values)
    ]


def test_ours_and_published_are_emphasised_apart_and_other_identities_not_at_all(
    written, row, estimate, published
) -> None:
    papers = [published({"avg_sts": 0.8}), published({"avg_sts": 0.6}, system="x")]
    ours = row({"avg_sts": estimate(0.7)})
    lower = row({"avg_sts": estimate(0.65)}, method="hicl")
    for form, best, second in (
        ("markdown", "**{}**", "<u>{}</u>"),
        ("latex", r"\textbf{{{}}}", r"\underline{{{}}}"),
    ):
        text = written(Board([ours, lower], papers), form)
        for winner, runner_up in (("80.00", "60.00"), ("70.00", "65.00")):
            assert best.format(winner) in text and second.format(runner_up) in text


def test_one_row_of_ours_is_not_the_best_of_itself(written, row, estimate, published) -> None:
    papers = [published({"avg_sts": 0.8})]
    ours = row({"avg_sts": estimate(0.7)})
    other = row({"avg_sts": estimate(0.5, identity="e2")}, method="hicl")
    text = written(Board([ours, other], papers), "markdown")
    assert "**" not in text and "<u>" not in text


def test_rows_of_one_source_share_a_footnote_and_variants_have_names(written, published) -> None:
    variants = [
        published({"avg_sts": 0.8 - n / 10}, system="rankcse", settings={"rank_loss": loss})
        for n, loss in enumerate(("listnet", "listmle"))
    ]
    text = written(Board([], variants), "latex")
    for loss in ("listnet", "listmle"):
        assert rf"RankCSE (rank\_loss={loss})" in text
    assert text.count("rankcse table2") == 1
