"""Markdown, HTML and LaTeX: by hand, and well formed whatever the names are."""

import shutil
import subprocess
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.records import BOARD_FAMILIES, Gap
from cse_platform.leaderboard.statistics.intervals import Interval, RankInterval
from cse_platform.render.table import Cell, ColumnHead, Table
from cse_platform.render.text import to_html, to_latex, to_markdown

TABLE = Table(
    (ColumnHead("method"), ColumnHead("score", "right")),
    (
        ((Cell("sim_cse", mark="*"), Cell("78.12", "0.35", "§", "best")),),
        ((Cell("a|<b>&\\\n`c`"), Cell("77.00", emphasis="second", link="https://x.y/z")),),
    ),
    "avg_sts, x 100",
    ("* opened.", "p < 0.05."),
)


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
def paper(written, row, estimate, published, comparison) -> str:
    """A document with every kind of table, and names that TeX would stumble over."""
    score = estimate(0.76, 0.77, interval=Interval(0.7, 0.8, "pairs"))
    nasty = row(
        {"sts12": score, "avg_sts": score},
        method="[a_b]",
        backbone=r"C:\models\50%_{x}^&~#$|<>",
        test_opened=datetime(2030, 1, 1, tzinfo=UTC),
        rank=RankInterval(1, 2, 2),
        gap=Gap("avg_sts", 0.77, "x", -0.005, None),
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


def test_a_table_of_scores_fits_a_page_of_two_columns(written, row, estimate, tmp_path) -> None:
    every = dict.fromkeys(BOARD_FAMILIES["sts"].columns, estimate(0.7612, 0.7745, 0.7811))
    longest = row(every, method="whitenedcse", backbone="roberta-large")
    board = Board([longest, row(every)], [])
    tables = written(board, "latex").split("\n\n")
    (scores,) = [table for table in tables if r"\caption{Spearman x 100" in table]
    assert scores.startswith(r"\begin{table*}[t]") and scores.rstrip().endswith(r"\end{table*}")
    assert "Overfull" not in compiled(DOCUMENT.format(scores), tmp_path)
