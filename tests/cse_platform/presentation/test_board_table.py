import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from board_rows import estimate, published, row

from cse_platform.leaderboard.families import BOARD_FAMILIES
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.ranking import sort_rows
from cse_platform.leaderboard.records import (
    Configuration,
    DevSets,
    Gap,
    LeaderboardRow,
    SeenSentences,
)
from cse_platform.leaderboard.statistics.intervals import Interval, RankInterval
from cse_platform.presentation.board_entries import Board

RANKING = "Ranking by avg_sts, x 100"
ON_DEV = "Ranking by dev stsb (senteval), x 100"
ONE_SEED = "‡ Over the pairs, texts or queries of a single seed; other seeds may differ."
OPENED = "* Chosen after such test sets had been opened for its method and backbone."


def titled(lines: list[str], title: str) -> list[str]:
    """The lines of one table: what stands below its title, without the note on fewer seeds."""
    start = lines.index(title) + 1
    below = lines[start : [*lines, ""].index("", start)]
    return [line for line in below if not line.startswith("Over fewer seeds")]


def test_the_ranking_by_hand(lines) -> None:
    # Over 0.76 and 0.77: mean 0.765, std 0.01 / sqrt(2) = 0.00707, best 0.77.
    score = estimate(0.76, 0.77, interval=Interval(0.7015, 0.8285, "seeds"))
    gap = Gap(0.7625, "simcse table5", 0.0025, True)
    ours = row({"avg_sts": score}, rank=RankInterval(1, 3, 4), gap=gap)
    *_, found, note = titled(lines(Board([ours])), RANKING)
    numbers = "76.50 ±0.71 [70.15, 82.85] 1-3 of 4 77.00 2 84.00 ±1.41 +0.25 inside"
    assert found == f"simcse bert-base {numbers}"
    assert note.startswith("paper: ours minus the published number")
    score = estimate(0.76, interval=Interval(0.75, 0.77, "examples"))
    ours = row({"avg_sts": score}, seeds=[1], rank=RankInterval(1, 2, 2))
    *_, found, note = titled(lines(Board([ours])), RANKING)
    assert "76.00 [75.00, 77.00] ‡ 1-2 of 2 ‡ 76.00 1" in found
    assert note == ONE_SEED


def test_a_row_without_the_headline_still_stands(lines) -> None:
    scored = row({"avg_sts": estimate(0.76, 0.76)}, method="hicl")
    partly = row({"avg_sts": estimate(0.75)}, method="pcl")
    told = titled(lines(Board([scored, partly, row(headline="avg_sts")])), RANKING)
    *_, first, of_two, second, note = told
    assert "75.00 1 of 2 84.00" in of_two
    assert note.endswith(", 1 without this score.")
    assert first == "hicl bert-base 76.00 ±0.00 76.00 2 84.00 ±1.41"
    assert second == "simcse bert-base 2 84.00 ±1.41"


def test_without_test_scores_it_is_dev_that_counts(lines) -> None:
    for headline in (None, "avg_sts"):
        head, _, found = titled(lines(Board([row(headline=headline)])), ON_DEV)
        assert head == "method backbone dev stsb (senteval) best of n n untrained"
        assert found == "simcse bert-base 84.00 ±1.41 85.00 2 50.00"
    every = {name: estimate(0.5) for name in BOARD_FAMILIES["ranking"].columns}
    told = lines(Board([row(every)], family="ranking"))
    for metric in ("kcc", "ndcg"):
        title = f"Test scores, sts12_{metric} to avg_sts_{metric}, x 100"
        assert titled(told, title)[-1] == "simcse bert-base" + 8 * " 50.00"


def test_a_table_by_a_task_has_the_rows_with_scores_best_first_and_the_others_stand_by_dev(
    lines,
) -> None:
    low, high = row({"sts12": estimate(0.42, 0.42)}), row({"sts12": estimate(0.69, 0.69)})
    board = Board([row(method="dev alone"), low, replace(high, method="pcl")])
    _, _, first, second, *_ = titled(lines(board), "Ranking by sts12, x 100")
    assert first.startswith("pcl bert-base 69.00") and second.startswith("simcse bert-base 42.00")
    assert titled(lines(board), ON_DEV)[2].startswith("dev alone bert-base 84.00")
    _, _, first, *_ = titled(
        lines(replace(board, sorted_by="method")), "Ranking on sts12, sorted by method, x 100"
    )
    assert first.startswith("simcse")


def test_the_column_that_sorts_the_ranking_is_shown_beside_the_score_that_ranks(lines) -> None:
    scores = {"avg_sts": estimate(0.76, 0.76), "sts12": estimate(0.42, 0.42), "mr": estimate(0.81)}
    rows = [row(scores, method="hicl"), row({"avg_sts": estimate(0.7, 0.7)})]
    for by, shown in {"sts12": "42.00 ±0.00", "mr": "81.00", "gpu_hours": "12.2"}.items():
        title = f"Ranking on avg_sts, sorted by {by}, x 100"
        _, _, first, *_ = titled(lines(Board(rows, sorted_by=by)), title)
        assert first == f"hicl bert-base {shown} 76.00 ±0.00 76.00 2 84.00 ±1.41"
    head = titled(
        lines(Board(rows, sorted_by="dev")),
        RANKING.replace("by avg_sts", "on avg_sts, sorted by dev"),
    )[0]
    assert head.count("dev") == 1


def test_hyperparameters_that_differ_are_shown_though_no_search_varied_them(lines) -> None:
    def of(hash_: str, method: str = "simcse", **values: Any) -> LeaderboardRow:
        found = Configuration(hash_ * 64, {"lr": 1, "batch_size": 32, **values}, ["lr"], "code")
        return row(method=method, configuration=found)

    rows = [of("a", max_steps=16), of("b", max_steps=60), of("c"), of("d", "hicl", max_steps=99)]
    head, _, *found = titled(lines(Board(rows)), "Hyperparameters")
    assert head.endswith("searched also differs")
    shown = [line.partition("lr=1")[2] for line in found]
    assert shown == [" max_steps=16", " max_steps=60", "", ""]


def test_old_code_opened_tests_and_what_keeps_rows_from_comparing_are_told(lines) -> None:
    unknown = row(configuration=Configuration("c" * 64, {}, []))
    told = lines(Board([row(other_code=True), unknown]))
    head, _, known, older = titled(told, "Hyperparameters")
    assert head == "method backbone configuration trial code searched"
    assert "unknown" not in known and older.split()[-1] == "unknown"
    _, _, first, second, *_ = titled(told, ON_DEV)
    assert first.startswith("simcse ¶ ") and second.startswith("simcse ")
    assert any(note.startswith("¶") for note in told)
    rows = [
        row({"avg_sts": estimate(0.5, 0.5, identity=identity)}, method=method,
            configuration=Configuration(method * 8, {"pooler": pooler}, []))
        for identity, method, pooler in (("e1", "simcse", "cls"), ("e2", "rankcse", "avg"))
    ]  # fmt: skip
    told = lines(Board(rows))
    assert any(
        note.startswith("avg sts: 2 evaluation identities, which are not ranked") for note in told
    )
    assert any("cls: simcse; avg: rankcse" in note for note in told)
    library = replace(
        rows[0], method="st", configuration=Configuration("s", {"pooler": "mean"}, [])
    )
    assert "poolers" not in " ".join(lines(Board([library, rows[1]])))  # its mean is our avg
    alone = " ".join(lines(Board(rows[:1])))
    assert "evaluation identities" not in alone and "Poolers" not in alone
    told = lines(Board([row(test_opened=datetime(2030, 1, 1, tzinfo=UTC))]))
    assert sum(line.startswith("simcse * bert-base") for line in told) == 4
    assert told.count(OPENED) == 1
    assert OPENED not in lines(Board([row()]))


def test_rows_that_share_a_name_are_told_apart(lines) -> None:
    """Golden outputs show how, where they differ by their configuration."""
    sickr = row(dev=DevSets("sickr", "sickr", "d2", "senteval"))
    told = lines(Board([row(), sickr]))
    for name in ("stsb", "sickr"):  # each dev set in a table of its own
        *_, only = titled(told, f"Ranking by dev {name} (senteval), x 100")
        assert only == "simcse bert-base 84.00 ±1.41 85.00 2 50.00"
    high = row(dev=DevSets("sickr", "sickr", "d2", "x"), dev_score=estimate(0.9), method="hicl")
    low = replace(high, method="pcl", dev_score=estimate(0.1))
    assert [one.method for one in sort_rows([low, row(), high], "dev")] == ["hicl", "pcl", "simcse"]
    _, _, *found = titled(told, "Runs")
    assert found[0].startswith("simcse bert-base stsb (senteval) 40")
    assert found[1].startswith("simcse bert-base sickr (senteval) 40")


def test_rows_tied_for_first_are_named_up_to_five(lines) -> None:
    scores = {"avg_sts": estimate(0.5, 0.5)}
    tied = [
        row(scores, rank=RankInterval(1, 2, 7), configuration=Configuration(f"{n}" * 64, {}, []))
        for n in range(6)
    ]
    hicl = replace(tied[0], method="hicl")
    last = replace(tied[1], rank=RankInterval(7, 7, 7))
    for rows, named in (
        ([hicl, tied[1]], "hicl, simcse"),
        ([hicl, tied[2], last], "hicl, simcse@22222222"),
        (tied[:5], ", ".join(f"simcse@{n * 8}" for n in "01234")),
        (tied, "6 rows"),
    ):
        told = (
            f"Tied for first: {named}. With other seeds or test pairs, any of them may be the best."
        )
        assert told in lines(Board(rows)), named
    on_dev = [replace(one, scores={}, headline=None) for one in tied[:2]]
    for board, others in (
        (Board(on_dev), "seeds"),
        (Board(tied[:2], family="transfer"), "seeds or test texts"),
        (Board(tied[:2], family="own"), "seeds or test examples"),
    ):
        assert any(f"With other {others}, any" in line for line in lines(board)), others


def test_who_has_no_rank_is_counted_and_told_why(lines) -> None:
    several = {"avg_sts": estimate(0.5, 0.5)}
    ranked = [row(several, rank=RankInterval(1, best, 2)) for best in (1, 2)]
    elsewhere = {"avg_sts": estimate(0.5, 0.5, identity="e2")}
    alone = row(elsewhere, rank=RankInterval(1, 1, 1))
    among_single = {"avg_sts": estimate(0.5, 0.5, identity="e3")}
    one_seed = {"avg_sts": estimate(0.5, identity="e3")}
    beside = [row(among_single, rank=RankInterval(1, 1, 1)), row(one_seed), row(one_seed)]
    not_scored = row(headline="avg_sts")
    told = titled(lines(Board([*ranked, alone, *beside, not_scored])), RANKING)
    shown = {"1 of 2 50.00 2": "e1", "1-2 of 2 50.00 2": "e1", "50.00 2": "e2"}
    for line, (rank, way) in zip(told[2:5], shown.items(), strict=True):
        assert line.startswith(f"simcse bert-base {way} 50.00 ±0.00 {rank} 84.00")
    counted = (
        r"Not ranked: 2 with a single seed and no stored scores of its pairs, "
        r"1 comparable with these alone, 1 scored as no other row here is, "
        r"1 without this score\."
    )
    assert any(re.match(counted, line) for line in told)
    assert not any("Not ranked" in line for line in lines(Board(ranked)))
    assert not any("Not ranked" in line for line in lines(Board([alone])))


def test_by_default_there_is_one_table_and_a_line_names_the_others(written) -> None:
    scores = {"avg_sts": estimate(0.76, 0.76)}
    shown = written(Board([row(scores), row(scores, method="hicl")]), "table")
    table, _, hint = shown.partition("\n\n")
    assert table.startswith(RANKING) and "Hyperparameters" not in shown
    assert hint == (
        "More: --show with scores, hyperparameters, sweeps, runs, costs or all; --wide has all "
        "columns in one table.\n"
    )
    for format in ("html", "markdown", "latex"):
        assert "--show" not in written(Board([row(scores)]), format)


def test_a_table_without_the_headline_counts_no_missing_scores(lines) -> None:
    """On real data, no row has the average; all have the score that the table is ranked by."""
    scores = {"stsb": estimate(0.4, source="hub")}
    partly = [row(scores, headline="avg_sts", method=name) for name in ("hicl", "pcl")]
    told = lines(Board([row({"avg_sts": estimate(0.5, 0.5)}, dev=BUILTIN), *partly]))
    ranking = titled(told, "Ranking by stsb, x 100")
    assert len(ranking) == 5 and not any("without this score" in line for line in ranking)
    why = "Not ranked: the leaderboard ranks by avg_sts, which these rows lack; "
    assert ranking[-1].startswith(why)


def test_a_note_fits_its_format(lines, written) -> None:
    """A paper's table has neither the column `saw` nor intervals, and tells no command."""
    scores = {"avg_sts_clean": estimate(0.7), "avg_sts": estimate(0.71)}
    seen = (SeenSentences("stsb", "test", "corpus", ("wiki1m",), 100, 2),)
    board = Board(
        [row(scores, seen=seen, headline="avg_sts_clean"), row(headline="avg_sts_clean")],
        family="clean",
    )
    told = " ".join(lines(board))
    assert "saw: test sentences" in told and "cse-evaluate TRIAL --tasks sts" in told
    for format in ("latex", "markdown"):
        paper = written(board, format)
        assert "contain sentences of these test sets." in paper
        assert not any(text in paper for text in ("saw", "`", "cse-evaluate"))


def test_a_board_tells_what_was_seen_of_its_own_test_sets(lines, written) -> None:
    """Sentences of a lab's test set leave a table of STS without a mark; data files have all."""
    scores = {"avg_sts": estimate(0.76), "my-test": estimate(0.5)}
    tests = {"stsb": (100, 0), "my-test": (10, 7)}
    seen = [SeenSentences(t, "test", "corpus", ("ours",), n, m) for t, (n, m) in tests.items()]
    board = Board([row(scores, seen=tuple(seen))])
    told = lines(board)
    assert any(line.startswith("simcse bert-base 76.00") for line in told)
    assert any("corpus 0 of 100" in line for line in told)
    own = lines(replace(board, family="own"))
    assert any(line.startswith("simcse ° bert-base") for line in own)
    assert any("corpus 7 of 10" in line for line in own)
    for format in ("json", "csv"):
        assert "saw test sentences" in written(board, format)


def test_a_board_marks_values_that_chose_if_they_count_in_its_own_scores(lines, written) -> None:
    """The third seed chose the row, and alone has a score of a transfer task."""
    scores = {"avg_sts": estimate(0.75, 0.77), "mr": estimate(0.1, 0.2, 0.3)}
    board = Board([row(scores, chosen_by={3: 0.9}), row(scores)])
    for told in (" ".join(lines(board)), written(board, "latex")):
        assert "△" not in told and "triangle" not in told and "The value that chose" not in told
    transfer = " ".join(lines(replace(board, family="transfer")))
    assert "simcse △ bert-base" in transfer and "The further seeds of simcse lack" in transfer
    assert "simcse △ bert-base" in " ".join(lines(replace(board, sorted_by="mr")))
    # Of two own sets, only one has values that chose it: that cell is marked, and named.
    chose = replace(estimate(0.2), values={3: 0.2})
    own = {"law": estimate(0.75, 0.77), "triplets:t": chose}
    of_own = Board([row(own, chosen_by={3: 0.9}, headline="law")], family="own")
    told = " ".join(lines(of_own))
    assert "simcse bert-base" in told and "20.00 △" in told
    assert "The further seeds of simcse lack scores on triplets:t" in told
    scores["avg_sts"] = estimate(0.75, 0.77, interval=Interval(0.7, 0.8, "seeds"))
    of_one_seed = row(scores, chosen_by={1: 0.9}, dev_score=estimate(0.9))
    for family in ("sts", "long"):
        told = " ".join(lines(Board([of_one_seed], family=family)))
        assert "The value that chose" in told, family
        assert ("covers less" in told) is (family == "sts")


def test_training_on_texts_of_test_sets_is_marked(lines, written) -> None:
    scores = {"avg_sts": estimate(0.76)}
    knowing = row(scores, method="consert", corpus="wiki1m+sts (transductive)")
    board = Board([row(scores, method="consert", corpus="wiki1m"), knowing])
    told = lines(board)
    assert any(line.startswith("consert bert-base 76.00") for line in told)
    assert any(line.startswith("consert (transductive) bert-base 76.00") for line in told)
    assert sum(line.startswith("(transductive): ") for line in told) == 1
    assert "ConSERT (transductive)" in written(board, "latex")
    assert "ConSERT (transductive)" in written(board, "markdown")
    corpora = [one["corpus"] for one in json.loads(written(board, "json"))]
    assert corpora == ["wiki1m", "wiki1m+sts (transductive)"]
    clean = lines(Board([row(scores, method="consert", corpus="wiki1m")]))
    assert not any("transductive" in line for line in clean)


def test_a_released_encoder_is_its_system_and_marked(lines, written) -> None:
    configuration = Configuration("d" * 64, {"pooler": "cls", "whitening": False}, [])
    released = row({"avg_sts": estimate(0.78)}, method="untrained",
                   backbone="diffcse-bert-base", configuration=configuration)  # fmt: skip
    board = Board([row({"avg_sts": estimate(0.76)}), released])
    told = lines(board)
    assert any(line.startswith("diffcse (released) bert-base 78.00") for line in told)
    assert any(line.startswith("(released): ") for line in told)
    assert "DiffCSE (released)" in written(board, "latex")
    ours, theirs = json.loads(written(board, "json"))
    assert (ours["released"], ours["trained_from"]) == (None, None)
    assert (theirs["method"], theirs["backbone"]) == ("untrained", "diffcse-bert-base")
    assert (theirs["released"], theirs["trained_from"]) == ("diffcse", "bert-base")


def test_recent_rows_stand_by_year_and_those_set_apart_below(lines, written) -> None:
    def recent(system: str, score: float, year: int | None = None, **more: Any) -> PublishedRow:
        return published({"avg_sts": score}, system=system, year=year, **more)

    papers = [
        recent("new", 0.7, 2025),
        recent("written", 0.9, 2024, apart=("llm",)),
        recent("first", 0.72),
        recent("newer", 0.71, 2025),
        recent("old", 0.6, 2024),
    ]
    order = ["simcse", "first †1", "old †2", "newer †3", "new †4", "written (llm) †5"]
    board = Board([row({"avg_sts": estimate(0.65)})], papers)
    *_, ours, line, first, old, newer, new, other_line, apart = [
        found for found in titled(lines(board), SCORES) if not found.startswith(("†", "("))
    ]
    found = (ours, first, old, newer, new, apart)
    assert [one.partition(" bert-base")[0] for one in found] == order
    assert (line, other_line) == ("---", "---")
    assert old == "old †2 bert-base 2024 60.00"
    # Sorted among ours by score, one that is set apart is still below.
    merged = titled(lines(replace(board, sorted_by="avg_sts")), SCORES)
    assert [found for found in merged if "bert-base" in found][-1] == apart
    # The best of those that are not set apart is bold.
    assert "\\textbf{72.00}" in written(board, "latex")


SCORES = "Test scores, avg_sts, x 100"
BUILTIN = DevSets("stsb", "stsb", "d0", "builtin")
PUBLISHED = "† Published, not ours; the number leads to its source."


def test_they_stand_sorted_among_ours(lines) -> None:
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


def test_those_without_the_headline_are_not_ranked(lines) -> None:
    papers = [published({"avg_sts": 0.8}), published({"sts12": 0.7}, system="partly")]
    told = lines(Board([row({"avg_sts": estimate(0.75)}, starred=True)], papers))
    ranking = titled(told, RANKING)
    assert [line.split(" bert-base")[0] for line in ranking if "bert-base" in line] == [
        *("simcse ★", "simcse †1")
    ]
    assert "★ Starred: the configuration, or one of its trials." in ranking
    assert any(line.startswith("partly †2") for line in told)
    assert RANKING not in lines(Board([], papers))


def test_built_in_data_never_stand_beside_them(lines) -> None:
    real, small = row({"avg_sts": estimate(0.5)}), row({"avg_sts": estimate(0.9)}, dev=BUILTIN)
    board = Board([small, real], [published({"avg_sts": 0.8})])
    told = lines(board)
    for title in (RANKING, SCORES):
        assert "90.00" not in "".join(titled(told, title))
        on_built_in = "".join(titled(told, f"{title}, on built-in data"))
        assert "90.00" in on_built_in and "†" not in on_built_in
    wide = lines(board, wide=True)
    title = RANKING.replace("Ranking", "Leaderboard") + ", on built-in data"
    assert "†" not in "".join(titled(wide, title))
    scores = {"stsb": estimate(0.9, source="builtin"), "sickr": estimate(0.5, source="hub")}
    leaderboard = "Leaderboard by sickr, x 100"
    for wide in (False, True):
        told = lines(Board([row(scores, headline="sickr")]), wide=wide)
        small = titled(told, "Test scores, stsb, x 100, on built-in data")
        assert small == ["method backbone stsb", "---", "simcse bert-base 90.00"]
        real = titled(told, leaderboard if wide else "Test scores, sickr, x 100")
        assert "50.00" in real[-1] and "90.00" not in real[-1]


def test_a_score_has_its_own_data(lines) -> None:
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
    # A row that lacks the headline stands where its other scores are, under their name.
    partly = row({"stsb": estimate(0.4, source="hub")}, dev=BUILTIN, headline="avg_sts")
    told = lines(Board([replace(small, dev=BUILTIN), partly]))
    assert len(titled(told, f"{RANKING}, on built-in data")) == 3
    assert "40.00" in titled(told, "Ranking by stsb, x 100")[-1]
    assert titled(told, f"{SCORES}, on built-in data")[-1] == "hicl bert-base 92.00 ±0.00"


def test_scores_of_fewer_seeds_and_configurations_in_other_tables_are_told(lines) -> None:
    average = {name: estimate(0.7, 0.8) for name in ("sts13", "avg_sts")}
    alone = {"sts12": estimate(0.6), "mr": estimate(0.9)}
    both = row({**average, **alone})
    told = lines(Board([both]))
    assert "Over fewer seeds than the row: simcse sts12 1 of 2." in told
    assert not any("fewer" in line for line in lines(Board([row(average)])))
    other = row({}, headline="avg_sts", configuration=replace(both.configuration, hash="c" * 64))
    told = lines(Board([both, other]))
    title = "Test scores, sts12 to avg_sts, x 100"
    _, _, scored = titled(told, title)
    assert scored.startswith("simcse bert-base bbbbbbbb 60.00")


def test_significant_differences_are_marked(lines, comparison) -> None:
    scores = {name: estimate(0.5) for name in ("sts12", "sts13", "avg_sts")}
    title = "Test scores, sts12 to avg_sts, x 100"
    ours = [row(scores, method="rankcse"), row(scores)]
    told = lines(Board(ours, against={0: comparison}))
    _, _, marked, plain = titled(told, title)
    assert marked == "rankcse bert-base 50.00 § 50.00 50.00 §"
    assert plain == "simcse bert-base 50.00 50.00 50.00"
    assert "§ Above simcse with p < 0.05 (tasks: after Holm's correction)." in told
    for single in ({"n_a": 1}, {"n_b": 1}):
        tasks = tuple(replace(task, **single) for task in comparison.tasks)
        average = replace(comparison.average, **single)
        alone = replace(comparison, tasks=tasks, average=average)
        told = lines(Board([row(scores)], against={0: alone}))
        assert titled(told, title)[-1] == "simcse bert-base 50.00 § ‡ 50.00 50.00 § ‡"
        assert told.count(ONE_SEED) == 1
    tasks = tuple(replace(task, effect=-task.effect) for task in comparison.tasks)
    average = replace(comparison.average, effect=-0.01)
    below = Board([row(scores)], against={0: replace(comparison, tasks=tasks, average=average)})
    assert not any("§" in line for line in lines(below))
