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
    records = json.loads(run("--json", "--runs", tmp_path).stdout)
    rows = list(csv.DictReader(io.StringIO(run("--csv", "--runs", tmp_path).stdout)))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert [row["interval_low"] for row in rows] == [str(r["interval"]["low"]) for r in records]
    for format in ("markdown", "latex", "html"):
        text = run("--format", format, "--runs", tmp_path).stdout
        assert text.count("sncse") >= 10
        assert "80.36" in text


def test_an_unknown_paper_is_an_error(tmp_path: Path) -> None:
    result = run("--paper", "rankse", "--runs", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no tables of a paper 'rankse'" in result.stderr
