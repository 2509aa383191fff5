import math
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from board_rows import estimate, published, row

from cse_platform.leaderboard.families import BOARD_FAMILIES
from cse_platform.leaderboard.records import Configuration, DevSets, Gap, LeaderboardRow
from cse_platform.leaderboard.row_names import named_rows
from cse_platform.leaderboard.statistics.intervals import Interval, RankInterval
from cse_platform.numbers import percent, signed_percent
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.board_printed import paper_board
from cse_platform.presentation.formats import to_html, to_latex, to_markdown
from cse_platform.presentation.tables import Cell, Column, ColumnHead, Table, to_table

TABLE = Table(
    (ColumnHead("method"), ColumnHead("score", "right")),
    (
        ((Cell("sim_cse", mark="*"), Cell("78.12", "0.35", "§", "best")),),
        ((Cell("a|<b>&\\\n`c`"), Cell("77.00", emphasis="second", link="https://x.y/z")),),
    ),
    "avg_sts, x 100",
    ("* opened.", "p < 0.05."),
)


def test_means_added_in_another_order_are_shown_alike() -> None:
    """The sums of equal seeds can differ in the last bit, which decides how a half is rounded."""
    one, other = 0.00015, math.nextafter(0.00015, 1)
    assert percent(one) == percent(other)
    assert signed_percent(one) == signed_percent(other)


def test_markdown_by_hand() -> None:
    assert to_markdown([TABLE, TABLE]).split("\n\n### ")[1] == (
        "avg\\_sts, x 100\n"
        "\n"
        "| method | score |\n"
        "| :--- | ---: |\n"
        "| sim\\_cse \\* | **78.12** ±0.35 § |\n"
        "| a\\|\\<b\\>\\&\\\\ \\`c\\` | [<u>77.00</u>](https://x.y/z) |\n"
        "\n"
        "\\* opened.\n"
        "\n"
        "p \\< 0.05.\n"
    )


def test_html_holds_any_text() -> None:
    nasty = "a|<b>&\"'"
    row = ((Cell(nasty), Cell(nasty)),)
    table = Table((ColumnHead(nasty), ColumnHead("b")), (row,), nasty, (nasty,))
    text = to_html([table])
    assert "<b>" not in text and '&"' not in text
    assert unescape(text).count(nasty) == text.count("a|&lt;b&gt;&amp;") == 5


ENGINES = {
    "tectonic": ("tectonic",),
    "pdflatex": ("pdflatex", "-halt-on-error", "-interaction=nonstopmode"),
    "lualatex": ("lualatex", "-halt-on-error", "-interaction=nonstopmode"),
}
DOCUMENT = r"""\documentclass[twocolumn]{{article}}
\usepackage{{booktabs}}
\begin{{document}}
{}
\end{{document}}
"""


def test_latex_by_hand() -> None:
    table = Table(
        (ColumnHead("method"), ColumnHead("p", "right")),
        (
            ((Cell("sim_cse", mark="* †3"), Cell("78.12", "0.35", "§", "best")),),
            ((Cell("[a]"), Cell("-0.31 < b-2", emphasis="second")),),
        ),
        "avg_sts, 95 %",
        ("* opened.", "± over seeds."),
    )
    assert to_latex([table]) == (
        "% needs \\usepackage{booktabs}\n"
        "\n"
        "\\begin{table}[t]\n"
        "\\centering\n"
        "\\footnotesize\n"
        "\\setlength{\\tabcolsep}{3pt}\n"
        "\\caption{avg\\_sts, 95 \\%}\n"
        "\\label{tab:avg-sts-95}\n"
        "\\begin{tabular}{@{}lr@{}}\n"
        "\\toprule\n"
        "method & p \\\\\n"
        "\\midrule\n"
        "sim\\_cse$^{*\\,\\dagger3}$ & \\textbf{78.12}$_{\\pm 0.35}^{\\S}$ \\\\\n"
        "\\midrule\n"
        "{[}a] & \\underline{$-$0.31 $<$ b-2} \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip {*} opened.\n"
        "\\par\\smallskip $\\pm$ over seeds.\n"
        "\\end{table}\n"
    )


@pytest.fixture
def paper(written, comparison) -> str:
    """A document with every kind of table, and names that TeX would stumble over."""
    score = estimate(0.76, 0.77, interval=Interval(0.7, 0.8, "examples"))
    nasty = row(
        {"sts12": score, "avg_sts": score},
        method="[a_b]",
        backbone=r"C:\models\50%_{x}^&~#$|<>",
        test_opened=datetime(2030, 1, 1, tzinfo=UTC),
        rank=RankInterval(1, 2, 2),
        gap=Gap(0.77, "x", -0.005, None),
    )
    board = Board([nasty], [published({"avg_sts": 0.7}, system="*")], against={0: comparison})
    tables = [written(board, "latex", wide=wide) for wide in (False, True)]
    return DOCUMENT.format("\n".join([*tables, written(comparison, "latex")]))


def test_a_board_is_well_formed_and_compiles(paper, tmp_path) -> None:
    for part in (r"76.50$_{\pm 0.71}^{\S}$", "& 70.00", "$-$0.50"):
        assert part in paper
    compiled(paper, tmp_path)


def compiled(document: str, folder: Path) -> str:
    """What the engine says of it."""
    engine = next((command for name, command in ENGINES.items() if shutil.which(name)), None)
    if engine is None:
        pytest.skip("no TeX engine on the PATH; the tables are parsed instead")
    source = folder / "paper.tex"
    source.write_text(document)
    done = subprocess.run([*engine, source.name], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout + done.stderr


def test_a_table_of_scores_fits_a_page_of_two_columns(written, tmp_path) -> None:
    every = dict.fromkeys(BOARD_FAMILIES["sts"].columns, estimate(0.7612, 0.7745, 0.7811))
    longest = row(every, method="whitenedcse", backbone="roberta-large")
    board = Board([longest, row(every)], [])
    tables = written(board, "latex").split("\n\n")
    (scores,) = [table for table in tables if r"\caption{Spearman x 100" in table]
    assert scores.startswith(r"\begin{table*}[t]") and scores.rstrip().endswith(r"\end{table*}")
    assert "Overfull" not in compiled(DOCUMENT.format(scores), tmp_path)


def heads(table: Table) -> list[str]:
    return [head.name for head in table.heads]


def names(table: Table) -> list[list[str]]:
    return [[row[0].plain for row in group] for group in table.groups]


def test_the_nine_columns_of_the_papers() -> None:
    scores = dict.fromkeys(BOARD_FAMILIES["sts"].columns, estimate(0.76, 0.78))
    (table,) = paper_board(Board([row(scores, method="simcse")]))
    sets = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    assert heads(table) == ["Method", *sets, "Avg."]
    assert table.title.startswith("Spearman x 100")
    ((cells,),) = table.groups
    assert cells[0].text == "SimCSE"
    assert {(cell.text, cell.spread) for cell in cells[1:]} == {("77.00", "1.41")}
    assert "n = 2" in table.notes[0]
    transfer = dict.fromkeys(BOARD_FAMILIES["transfer"].columns, estimate(0.8))
    (table,) = paper_board(Board([row(transfer)], family="transfer"))
    assert heads(table)[1:] == ["MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC", "Avg."]
    ranking = dict.fromkeys(BOARD_FAMILIES["ranking"].columns, estimate(0.5))
    kcc, ndcg = paper_board(Board([row(ranking)], family="ranking"))
    assert heads(kcc) == heads(ndcg)
    assert (kcc.title[:4], ndcg.title[:5]) == ("KCC ", "NDCG ")


def test_n_counts_the_seeds_of_the_printed_scores() -> None:
    sts = {"sts12": estimate(0.6, 0.7, 0.8), "avg_sts": estimate(0.7, 0.7, 0.7)}
    transfer = {"mr": estimate(0.8, 0.9), "avg_transfer": estimate(0.8, 0.9)}
    five = row({**sts, **transfer}, seeds=[1, 2, 3, 4, 5])

    def note_n(*rows: LeaderboardRow, family: str = "sts") -> str:
        (table,) = paper_board(Board(rows, family=family))
        return table.notes[0].partition("n = ")[2]

    assert note_n(five) == "3."
    assert note_n(five, family="transfer") == "2."
    assert note_n(five, row({"avg_sts": estimate(0.7)}, method="hicl")) == "1-3."
    assert note_n(row({**sts, "avg_sts": estimate(0.7, 0.7)})) == "2-3."


def test_imported_and_recorded_rows_say_so() -> None:
    ours, imported, recorded = (
        row({"avg_sts": estimate(0.7)}, dev=DevSets("stsb", "stsb", source, source))
        for source in ("senteval", "imported", "recorded")
    )
    (table,) = paper_board(Board([ours, imported, recorded]))
    assert names(table) == [["SimCSE", "SimCSE (imported)", "SimCSE (recorded)"]]
    assert table.notes[0].startswith("Ours, imported, recorded: mean and ")
    (table,) = paper_board(Board([imported]))
    assert table.notes[0].startswith("Imported: mean and ")
    (table,) = paper_board(Board([ours]))
    assert table.notes[0].startswith("Ours: mean and ")


def test_only_rows_of_one_name_have_a_longer_one() -> None:
    scores = {"avg_sts": estimate(0.7)}
    rows = [
        row(scores, configuration=Configuration(letter * 64, {}, [], code=None), **named)
        for letter, named in (
            ("a", {"method": "rankcse"}),
            ("b", {}),
            ("c", {}),
            ("d", {"method": "hicl"}),
            ("e", {"method": "hicl", "backbone": "mini"}),
        )
    ]
    (table,) = paper_board(Board(rows[:3]))
    assert names(table) == [["RankCSE", "SimCSE (bbbbbbbb)", "SimCSE (cccccccc)"]]
    alike = ["simcse@bbbbbbbb", "simcse@cccccccc"]
    assert [*named_rows(rows)] == ["rankcse", *alike, "hicl bert-base", "hicl mini"]
    assert [*named_rows(rows[1:2] * 2)] == ["simcse@bbbbbbbb 1", "simcse@bbbbbbbb 2"]


def test_backbones_are_groups_that_do_not_compete() -> None:
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


def test_rows_of_one_name_are_told_apart_and_without_test_scores_ranked_on_dev(written) -> None:
    one = row({"avg_sts": estimate(0.7)})
    other = replace(one, configuration=replace(one.configuration, hash="f" * 64))
    (table,) = paper_board(Board([one, other]))
    first, second = (name for group in names(table) for name in group)
    assert first != second
    assert second.endswith("(ffffffff)")
    assert "dev stsb (senteval)" in written(Board([row({})]), "markdown")


def emphasis(*values: float | None) -> list[str | None]:
    """Of the cells of one column; None where there is no number."""
    column = Column[float | None]("a", lambda value: value, percent, compared=lambda value: value)
    name = Column[float | None]("name", lambda _: "row")
    cells = [row[-1] for row in to_table([name, column], [values]).rows]
    return [cell.emphasis if cell.text else None for cell in cells]


def test_emphasis_by_hand() -> None:
    assert emphasis(0.7, 0.8, None, 0.75) == ["none", "best", None, "second"]
    assert emphasis(0.7) == ["none"]  # one alone is no winner
    assert emphasis(0.80001, 0.80004, 0.7, 0.6) == ["best", "best", "second", "none"]  # as shown
    assert emphasis(0.8, 0.8) == ["best", "best"]


def test_ours_and_published_are_emphasised_apart(written) -> None:
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
    papers = [published({"avg_sts": 0.8})]
    ours = row({"avg_sts": estimate(0.7)})
    other = row({"avg_sts": estimate(0.5, identity="e2")}, method="hicl")
    text = written(Board([ours, other], papers), "markdown")
    assert "**" not in text and "<u>" not in text


def test_rows_of_one_source_share_a_footnote_and_variants_have_names(written) -> None:
    variants = [
        published({"avg_sts": 0.8 - n / 10}, system="rankcse", settings={"rank_loss": loss})
        for n, loss in enumerate(("listnet", "listmle"))
    ]
    text = written(Board([], variants), "latex")
    for loss in ("listnet", "listmle"):
        assert rf"RankCSE (rank\_loss={loss})" in text
    assert text.count("rankcse table2") == 1
    (table,) = paper_board(Board([], variants))
    assert names(table) == [["RankCSE (rank_loss=listnet) †1", "RankCSE (rank_loss=listmle) †1"]]
    others = [
        published({"avg_sts": 0.5}, backbone=backbone, settings={"seeds": "5"}, sources=(source,))
        for backbone, source in (("bert-base", "rankcse table2"), ("roberta-base", "hicl table1"))
    ]
    (table,) = paper_board(Board([row({"avg_sts": estimate(0.9)}, starred=True)], others))
    assert names(table) == [["SimCSE-BERT-base", "SimCSE-BERT-base †1"], ["SimCSE-RoBERTa-base †2"]]
