"""A leaderboard as papers print it, by hand."""

from dataclasses import replace

from cse_platform.leaderboard.records import BOARD_FAMILIES
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_tables import board_tables, paper_board
from cse_platform.render.table import Table


def heads(table: Table) -> list[str]:
    return [head.name for head in table.heads]


def names(table: Table) -> list[list[str]]:
    return [[row[0].plain for row in group] for group in table.groups]


def test_the_nine_columns_of_the_papers(row, estimate) -> None:
    scores = dict.fromkeys(BOARD_FAMILIES["sts"].columns, estimate(0.76, 0.78))
    (table,) = paper_board(Board([row(scores, method="simcse")]))
    sets = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    assert heads(table) == ["Method", *sets, "Avg."]
    assert table.title.startswith("Spearman x 100")
    ((cells,),) = table.groups
    assert cells[0].text == "SimCSE"
    assert {(cell.text, cell.spread) for cell in cells[1:]} == {("77.00", "1.41")}
    assert "n = 2" in table.notes[0]


def test_other_families_have_their_own_columns(row, estimate) -> None:
    transfer = dict.fromkeys(BOARD_FAMILIES["transfer"].columns, estimate(0.8))
    (table,) = paper_board(Board([row(transfer)], family="transfer"))
    assert heads(table)[1:] == ["MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC", "Avg."]
    ranking = dict.fromkeys(BOARD_FAMILIES["ranking"].columns, estimate(0.5))
    kcc, ndcg = paper_board(Board([row(ranking)], family="ranking"))
    assert heads(kcc) == heads(ndcg)
    assert (kcc.title[:4], ndcg.title[:5]) == ("KCC ", "NDCG ")


def test_backbones_are_groups_that_do_not_compete(row, estimate) -> None:
    rows = [
        row({"avg_sts": estimate(score)}, method=method, backbone=backbone)
        for backbone in ("bert-base", "roberta-base")
        for method, score in (("simcse", 0.70), ("rankcse", 0.75))
    ]
    (table,) = paper_board(Board(rows))
    assert names(table) == [
        ["SimCSE-BERT-base", "RankCSE-BERT-base"],
        ["SimCSE-RoBERTa-base", "RankCSE-RoBERTa-base"],
    ]
    best = [[cell.emphasis == "best" for _, cell in group] for group in table.groups]
    assert best == [[False, True], [False, True]]


def test_rows_of_one_name_are_told_apart_by_their_configuration(row, estimate) -> None:
    one = row({"avg_sts": estimate(0.7)})
    other = replace(one, configuration=replace(one.configuration, hash="f" * 64))
    (table,) = paper_board(Board([one, other]))
    first, second = (name for group in names(table) for name in group)
    assert first != second
    assert second.endswith("(ffffffff)")


def test_marks_of_significance_and_of_published_rows_are_explained(
    row, estimate, published, comparison
) -> None:
    ours = row({"sts12": estimate(0.72), "avg_sts": estimate(0.76)})
    board = Board([ours], [published({"avg_sts": 0.7})], against={0: comparison})
    (table,) = paper_board(board)
    ((our, theirs),) = table.groups
    assert [cell.mark for cell in our] == ["", "§", "§"]
    assert theirs[0].mark == "†1"
    assert any(note.startswith("§ Above simcse") for note in table.notes)
    assert any("†1 rankcse table2" in note for note in table.notes)


def test_a_board_without_test_scores_is_ranked_on_dev(row) -> None:
    (table,) = paper_board(Board([row({})]))
    assert any(name.startswith("dev") for name in heads(table))


def test_a_star_is_on_the_board_and_in_no_paper(row, estimate) -> None:
    board = Board([row({"avg_sts": estimate(0.7)}, starred=True)])
    (printed,), shown = paper_board(board), board_tables(board, wide=False)
    assert printed.groups[0][0][0].mark == ""
    assert {table.groups[0][0][0].mark for table in shown} == {"★"}
