"""`cse-leaderboard papers` and `--paper`: what ours fill of papers' tables, and how well."""

import csv
import io
import json
from pathlib import Path

from click.testing import CliRunner, Result

from cse_platform.cli.leaderboard import main

TABLE5 = """\
whitenedcse table5, x 100
backbone   method                         avg sts
─────────────────────────────────────────────────
bert-base  whitenedcse (positives=2)        77.81
bert-base  ours (n = 3, aaaaaaaa)     78.70 ±0.20
bert-base  difference                     +0.89 ↑
bert-base  whitenedcse (positives=3)        78.78
bert-base  ours (n = 2, bbbbbbbb)     78.70 ±0.14
bert-base  difference                     -0.08 ≈
bert-base  whitenedcse (positives=4)        78.65
bert-base  ours (n = 1, cccccccc)           78.00
bert-base  difference                     -0.65 ?
bert-base  whitenedcse (positives=5)        78.74
≈ within noise: the 95 % interval of the difference over seeds holds 0.
↑ above: the difference is more than seeds vary, with 95 %.
? noise not known: ours is of one seed.
Where the paper prints no standard deviation, its own noise is not known and not in the interval.
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"CSE_STORE": None})


def of(store: Path) -> tuple[str, str]:
    return "--store", f"sqlite:///{store}"


def test_a_table_with_ours_in_it(paper_file: Path) -> None:
    result = run("--paper", "whitenedcse", "--table", "5", *of(paper_file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == TABLE5


def test_the_list_says_what_is_filled_and_what_is_left(paper_file: Path) -> None:
    result = run("papers", *of(paper_file))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 3 of 4 3 of 4 3 of 4 1.0" in lines
    assert "table6 whitenedcse-table6.yaml 2 of 5 2 of 5 2 of 5 2.5" in lines
    assert "table9 rankcse-table9.yaml 0 of 96 273.6" in lines
    assert "Left out: 24 of systems that are not run here." in result.stdout
    assert result.stdout.count("GPU-hours left are those at the head") == 1
    listed = json.loads(run("papers", "--json", *of(paper_file)).stdout)
    rows = list(csv.DictReader(io.StringIO(run("papers", "--csv", *of(paper_file)).stdout)))
    assert [one["table"] for one in listed] == [row["table"] for row in rows]
    [table5] = [one for one in listed if (one["paper"], one["table"]) == ("whitenedcse", "table5")]
    assert (table5["rows_filled"], table5["trials_done"], table5["gpu_hours_left"]) == (3, 3, 1.0)
    [row] = [row for row in rows if (row["paper"], row["table"]) == ("whitenedcse", "table5")]
    assert (row["cells_filled"], row["cells"], row["left_out"]) == ("3", "4", "0")
    text = run("papers", "--format", "latex", *of(paper_file)).stdout
    assert text.count(r"\begin{table}") == 6


def test_without_a_store_all_is_left(tmp_path: Path) -> None:
    result = run("papers", "--runs", tmp_path)
    assert result.exit_code == 0
    assert "a finished cse-sweep creates it; no trial fills anything yet" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 0 of 4 0 of 4 0 of 4 4.0" in lines
    table = run("--paper", "whitenedcse", "--table", "5", "--runs", tmp_path).stdout
    assert [line.split()[-1] for line in table.splitlines()[3:]] == [
        *("77.81", "78.78", "78.65", "78.74")
    ]


def test_what_is_unknown_is_refused_with_the_nearest_name(paper_file: Path) -> None:
    for words, nearest in (
        (("--paper", "whitendcse", "--table", "5"), "did you mean 'whitenedcse'?"),
        (("--paper", "whitenedcse", "--table", "tabl5"), "did you mean 'table5'?"),
        (("--paper", "whitenedcse", "--table", "9"), "there are table1, table2, table3, table4"),
    ):
        result = run(*words, *of(paper_file))
        assert result.exit_code == 1
        assert nearest in result.stderr and "Traceback" not in result.stderr
    assert run("--backbone", "mini", "papers").exit_code == 2
