"""Published rows, built-in data and significance on a leaderboard for people."""

from dataclasses import replace

from cse_platform.leaderboard.records import DevSets
from cse_platform.leaderboard.render.board import Board

RANKING = "Ranking on avg_sts, in order of dev, x 100"
LEADERBOARD = "Leaderboard on avg_sts, in order of dev, x 100"
SCORES = "Test scores, avg_sts, x 100"
BUILTIN = DevSets("stsb", "stsb", "d0", "builtin")
ONE_SEED = "‡ Over the pairs of a single seed: how other seeds would do is not known."
PUBLISHED = "† Published, not ours; the number leads to its source."


def test_they_are_marked_and_fill_none_of_our_columns(
    lines, titled, row, estimate, published
) -> None:
    ours = row({"avg_sts": estimate(0.76, 0.76)})
    high = published({"avg_sts": 0.8}, system="sncse", std={"avg_sts": 0.0012})
    low = published({"avg_sts": 0.7}, settings={"base": "x"}, sources=("a table1", "b table2"))
    dev = published({"avg_sts": 0.9}, split="dev")
    told = lines(Board([ours], [low, dev, high]))
    _, _, first, rule, second, third, note = titled(told, RANKING)
    assert first == "simcse bert-base 76.00 ±0.00 76.00 2 84.00 ±1.41"
    assert (rule, note) == ("---", PUBLISHED)
    assert second == "sncse †1 bert-base 80.00 ±0.12"
    assert third == "simcse †2 bert-base 70.00"
    _, _, *sources = titled(told, "Sources of published rows")
    assert sources == [
        "sncse †1 bert-base rankcse table2",
        "simcse †2 bert-base base=x a table1, b table2",
    ]


def test_they_stand_among_ours_on_a_board_that_is_sorted_by_the_headline(
    lines, titled, row, estimate, published
) -> None:
    ours = [
        row({"avg_sts": estimate(0.9)}, method="hicl"),
        row({"avg_sts": estimate(0.7)}),
        row(headline="avg_sts", method="last"),
    ]
    papers = [published({"avg_sts": value}, system=f"s{value}") for value in (0.6, 0.8)]
    _, _, *found, note, _ = titled(
        lines(Board(ours, papers, sorted_by="avg_sts")), "Ranking by avg_sts, x 100"
    )
    assert note.startswith(PUBLISHED[:3])
    assert [line.split()[0] for line in found] == ["hicl", "s0.8", "simcse", "s0.6", "last"]


def test_built_in_data_never_stand_beside_them(lines, titled, row, estimate, published) -> None:
    real, small = row({"avg_sts": estimate(0.5)}), row({"avg_sts": estimate(0.9)}, dev=BUILTIN)
    board = Board([small, real], [published({"avg_sts": 0.8})])
    told = lines(board)
    for title in (RANKING, SCORES):
        assert "90.00" not in "".join(titled(told, title))
        on_built_in = "".join(titled(told, f"{title}, on built-in data"))
        assert "90.00" in on_built_in and "†" not in on_built_in
    wide = lines(board, wide=True)
    assert "†" not in "".join(titled(wide, f"{LEADERBOARD}, on built-in data"))


def test_the_data_of_a_score_is_its_own_and_not_that_of_the_dev_sets(
    lines, titled, row, estimate, published
) -> None:
    real = row({"avg_sts": estimate(0.51, 0.51, source="hub")}, dev=BUILTIN)
    small = row({"avg_sts": estimate(0.92, 0.92, source="builtin")}, method="hicl")
    other = row({"avg_sts": estimate(0.53, 0.53, source="senteval")}, method="sncse")
    told = lines(Board([small, real, other], [published({"avg_sts": 0.8})]))
    *heads, _, first, second, _, paper, _ = titled(told, RANKING)
    assert " ".join(heads).count("dev stsb") == 2
    assert first == "simcse bert-base stsb (builtin) 51.00 ±0.00 51.00 2 84.00 ±1.41"
    assert second == "sncse bert-base stsb (senteval) 53.00 ±0.00 53.00 2 84.00 ±1.41"
    assert paper.endswith("80.00")
    head, _, only = titled(told, f"{RANKING}, on built-in data")
    assert head == "method backbone avg sts best of n n dev stsb (senteval)"
    assert only == "hicl bert-base 92.00 ±0.00 92.00 2 84.00 ±1.41"
    assert titled(told, f"{SCORES}, on built-in data")[-1] == "hicl bert-base 92.00 ±0.00"


def test_scores_of_one_row_on_two_kinds_of_data_stand_apart(lines, titled, row, estimate) -> None:
    scores = {"stsb": estimate(0.9, source="builtin"), "sickr": estimate(0.5, source="hub")}
    leaderboard = "Leaderboard on sickr, in order of dev, x 100"
    for wide in (False, True):
        told = lines(Board([row(scores, headline="sickr")]), wide=wide)
        small = titled(told, "Test scores, stsb, x 100, on built-in data")
        assert small == ["method backbone stsb", "---", "simcse bert-base 90.00"]
        real = titled(told, leaderboard if wide else "Test scores, sickr, x 100")
        assert "50.00" in real[-1] and "90.00" not in real[-1]


def test_the_other_comparisons_are_marked_where_they_are_significant(
    lines, titled, row, estimate, comparison
) -> None:
    """Those that are above, and not those below; on one seed it is said."""
    scores = {name: estimate(0.5) for name in ("sts12", "sts13", "avg_sts")}
    title = "Test scores, sts12 to avg_sts, x 100"
    ours = [row(scores, method="rankcse"), row(scores)]
    told = lines(Board(ours, against={0: comparison}))
    _, _, marked, plain = titled(told, title)
    assert marked == "rankcse bert-base 50.00 § 50.00 50.00 §"
    assert plain == "simcse bert-base 50.00 50.00 50.00"
    assert "§ Above simcse with p < 0.05, after Holm's correction over the tasks." in told
    for single in ({"n_a": 1}, {"n_b": 1}):
        told = lines(Board([row(scores)], against={0: replace(comparison, **single)}))
        assert titled(told, title)[-1] == "simcse bert-base 50.00 § ‡ 50.00 50.00 § ‡"
        assert told.count(ONE_SEED) == 1
    tasks = tuple(replace(task, effect=-task.effect) for task in comparison.tasks)
    average = replace(comparison.average, effect=-0.01)
    below = Board([row(scores)], against={0: replace(comparison, tasks=tasks, average=average)})
    assert not any("§" in line for line in lines(below))
