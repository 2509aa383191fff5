"""`cse-leaderboard audit`: each claim of the papers beside its noise, by the command."""

import csv
import io
import json
from pathlib import Path

from click.testing import CliRunner, Result

from cse_platform.cli.leaderboard import main


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, words)], env={"CSE_STORE": None})


def test_without_a_leaderboard_it_is_of_what_papers_print(tmp_path: Path) -> None:
    result = run("--paper", "whitenedcse", "--runs", tmp_path)
    assert result.exit_code == 0
    assert "no leaderboard" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("table1 bert-base avg_sts whitenedcse 78.78") for line in lines)
    assert any("78.11 +0.67 ≈ [" in line for line in lines)
    assert any(line.startswith("The best is above the best other in 5 of 5") for line in lines)
    result = run("--paper", "rankse", "--runs", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no tables of a paper 'rankse'" in result.stderr


def test_our_own_seeds_come_before_printed_ones(paper_file: Path) -> None:
    result = run("--paper", "whitenedcse", "--json", "--store", f"sqlite:///{paper_file}")
    assert (result.exit_code, result.stderr) == (0, "")
    first = json.loads(result.stdout)[0]
    assert (first["paper"], first["table"], first["rival"]) == ("whitenedcse", "table1", "arccse")
    assert first["seeds_sources"][0] == "ours, 3 seeds"
    assert first["difference"] == first["best_score"] - first["rival_score"]
    low, high = first["interval"]["low"], first["interval"]["high"]
    assert (first["verdict"] == "not apart") == (low < 0 < high)


def test_every_format_has_every_claim(tmp_path: Path) -> None:
    def told(*words: str) -> str:
        return run("--paper", "hicl", "--runs", tmp_path, *words).stdout

    records = json.loads(told("--json"))
    rows = list(csv.DictReader(io.StringIO(told("--csv"))))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert [row["interval_low"] for row in rows] == [str(r["interval"]["low"]) for r in records]
    for form in ("markdown", "latex", "html"):
        text = told("--format", form)
        assert all(f"{100 * one['best_score']:.2f}" in text for one in records), form
