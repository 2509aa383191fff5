"""LaTeX tables: by hand, well formed whatever the names are, and compiled where TeX is there."""

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.records import BOARD_FAMILIES, Gap
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.statistics.results import Interval, RankInterval
from cse_platform.render.table import Cell, ColumnHead, Table
from cse_platform.render.text import to_latex

ENGINES = {
    "tectonic": ("tectonic",),
    "pdflatex": ("pdflatex", "-halt-on-error", "-interaction=nonstopmode"),
    "lualatex": ("lualatex", "-halt-on-error", "-interaction=nonstopmode"),
}
BROKEN = r"p{0.22\linewidth}"
DOCUMENT = r"""\documentclass[twocolumn]{{article}}
\usepackage{{booktabs}}
\begin{{document}}
{}
\end{{document}}
"""
TEXT = st.text("ab&%$#_{}\\~^|<>[]*-0±†‡§\n ", max_size=20)


def check(text: str) -> None:
    """Balanced groups, mathematics and environments; rows as wide as their table says."""
    bare = re.sub(r"\\[&%$#_{}\\]", "", text.replace("% needs \\usepackage{booktabs}\n", ""))
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert not set("%#~") & set(bare)
    assert bare.count("$") % 2 == 0
    outside = "".join(bare.split("$")[::2])
    assert not set("_^<>|") & set(outside)
    opened: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{([\w*]+)\}", text):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    for columns, body in re.findall(
        r"\\begin\{tabular\}\{@\{\}(.+?)@\{\}\}\n(.*?)\\end\{tabular\}", text, re.S
    ):
        lines = [line for line in body.strip().splitlines() if not line.endswith("rule")]
        assert lines
        for line in lines:
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns.replace(BROKEN, "p")) - 1
            assert line[0] not in "[*"


def test_a_table_by_hand() -> None:
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
    check(to_latex([table]))


@given(texts=st.lists(TEXT, min_size=5, max_size=5))
def test_any_text_is_well_formed(texts) -> None:
    title, head, name, cell, note = texts
    row = (Cell(name), Cell(cell, "0.10", "‡", "best"))
    check(to_latex([Table((ColumnHead(head), ColumnHead("b")), ((row,), (row,)), title, (note,))]))


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
    check(paper)
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


def test_long_texts_are_broken_into_lines_across_the_page() -> None:
    row = (Cell("a"), Cell("name=0.05 " * 5))
    text = to_latex([Table((ColumnHead("a"), ColumnHead("b")), ((row,),), "T")])
    assert r"\begin{tabular}{@{}lp{0.22\linewidth}@{}}" in text
    assert r"\begin{table*}[t]" in text
    check(text)
