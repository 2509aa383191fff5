"""`cse-leaderboard paper` and `audit`: papers' tables, and what ours say of them."""

import csv
import io
import json
from pathlib import Path

from click.testing import CliRunner, Result

from cse_platform.cli.leaderboard import main


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"CSE_STORE": None})


def of(store: Path) -> tuple[str, str]:
    return "--store", f"sqlite:///{store}"


def test_the_list_says_what_is_filled_and_what_is_left(paper_file) -> None:
    result = run("paper", *of(paper_file))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 3 of 4 3 of 4 3 of 4 1.0" in lines
    assert "table6 whitenedcse-table6.yaml 2 of 5 2 of 5 2 of 5 2.5" in lines
    assert "table9 rankcse-table9.yaml 0 of 96 273.6" in lines
    assert "Left out: 24 of systems that are not run here." in result.stdout
    assert result.stdout.count("GPU-hours left: the file's total") == 1
    listed = json.loads(run("paper", "--json", *of(paper_file)).stdout)
    rows = list(
        csv.DictReader(io.StringIO(run("paper", "--format", "csv", *of(paper_file)).stdout))
    )
    assert [one["table"] for one in listed] == [row["table"] for row in rows]
    [table5] = [one for one in listed if (one["paper"], one["table"]) == ("whitenedcse", "table5")]
    assert (table5["rows_filled"], table5["trials_done"], table5["gpu_hours_left"]) == (3, 3, 1.0)
    [row] = [row for row in rows if (row["paper"], row["table"]) == ("whitenedcse", "table5")]
    assert (row["cells_filled"], row["cells"], row["left_out"]) == ("3", "4", "0")
    own = json.loads(run("paper", "whitenedcse", "--json", *of(paper_file)).stdout)
    assert own == [one for one in listed if one["paper"] == "whitenedcse"]
    text = run("paper", "--format", "latex", *of(paper_file)).stdout
    assert text.count(r"\begin{table}") == 6


def test_without_a_store_all_is_left(tmp_path) -> None:
    result = run("paper", "--runs", tmp_path)
    assert result.exit_code == 0
    assert "a finished cse-sweep creates it; no table has trials of yours yet" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 0 of 4 0 of 4 0 of 4 4.0" in lines
    table = run("paper", "whitenedcse", "5", "--runs", tmp_path).stdout
    assert [line.split()[-1] for line in table.splitlines()[3:]] == [
        *("77.81", "78.78", "78.65", "78.74")
    ]


def test_what_is_unknown_is_refused_with_the_nearest_name(paper_file) -> None:
    for words, nearest in (
        (("paper", "whitendcse", "5"), "did you mean 'whitenedcse'?"),
        (("paper", "whitenedcse", "tabl5"), "did you mean 'table5'?"),
        (("paper", "whitendcse"), "did you mean 'whitenedcse'?"),
        (("paper", "whitenedcse", "9"), "there are table1, table2, table3, table4"),
    ):
        result = run(*words, *of(paper_file))
        assert result.exit_code == 1
        assert nearest in result.stderr and "Traceback" not in result.stderr
    assert run("--backbone", "mini", "paper").exit_code == 2


def test_an_audit_without_a_leaderboard_is_of_what_papers_print(tmp_path) -> None:
    result = run("audit", "--paper", "whitenedcse", "--runs", tmp_path)
    assert result.exit_code == 0
    assert "no leaderboard" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("table1 bert-base avg_sts whitenedcse 78.78") for line in lines)
    assert any("78.11 +0.67 ≈ [" in line for line in lines)
    assert any(line.startswith("The best is above the best other in 5 of 5") for line in lines)
    result = run("audit", "--paper", "rankse", "--runs", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no tables of a paper 'rankse'" in result.stderr


def test_in_an_audit_our_own_seeds_come_before_printed_ones(paper_file) -> None:
    result = run("audit", "--paper", "whitenedcse", "--json", *of(paper_file))
    assert (result.exit_code, result.stderr) == (0, "")
    first = json.loads(result.stdout)[0]
    assert (first["paper"], first["table"], first["rival"]) == ("whitenedcse", "table1", "arccse")
    assert first["seeds_sources"][0] == "ours, 3 seeds"
    assert first["difference"] == first["best_score"] - first["rival_score"]
    low, high = first["interval"]["low"], first["interval"]["high"]
    assert (first["verdict"] == "not apart") == (low < 0 < high)


def test_an_audit_has_every_claim_in_every_format(tmp_path) -> None:
    def told(*words: str) -> str:
        return run("audit", "--paper", "hicl", "--runs", tmp_path, *words).stdout

    records = json.loads(told("--json"))
    rows = list(csv.DictReader(io.StringIO(told("--format", "csv"))))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert [row["interval_low"] for row in rows] == [str(r["interval"]["low"]) for r in records]
    for form in ("markdown", "latex", "html"):
        text = told("--format", form)
        assert all(f"{100 * one['best_score']:.2f}" in text for one in records), form
