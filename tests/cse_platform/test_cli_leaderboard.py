import csv
import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from commands import invoke
from stored_trials import fill_store
from sweep_events import sweep_started, trial_life

from cse_methods.tasks import STS_TASKS
from cse_platform.cli.leaderboard import main
from cse_platform.cli.sweep import main as sweep
from cse_platform.tracking.events import Event

run = partial(invoke, main)


@pytest.fixture
def runs(tmp_path, empty_leaderboard) -> Path:
    simcse = {"method": "simcse", "backbone": "bert-base"}
    events = [
        sweep_started("rankcse-mini"),
        *trial_life(0, {0: 0.5, 10: 0.75}, sweep="rankcse-mini", configuration="a" * 64, seed=1),
        *trial_life(1, {0: 0.5, 10: 0.76}, sweep="rankcse-mini", configuration="a" * 64, seed=2),
        *trial_life(2, {0: 0.5, 10: 0.71}, sweep="rankcse-mini", configuration="b" * 64, seed=1),
        sweep_started("simcse-bert", **simcse),
        *trial_life(0, {0: 0.25, 10: 0.5}, sweep="simcse-bert", configuration="c" * 64, **simcse),
    ]
    folder = tmp_path / "runs"
    fill_store(empty_leaderboard(folder / "leaderboard.db"), events)
    return folder


def test_an_output_without_a_character_has_its_escape(runs) -> None:
    narrow = CliRunner(charset="ascii")
    for words in ([], ["--published"], ["paper", "rankcse", "2"]):
        told = narrow.invoke(main, [*words, "--runs", str(runs)])
        assert told.exit_code == 0, told.output
        assert told.output.isascii()


def test_published_numbers_stand_beside_ours_or_alone(runs, tmp_path) -> None:
    shown = run("--runs", runs, "--backbone", "bert-base", "--published", "--json")
    ours = [row for row in json.loads(shown.stdout) if not row["published"]]
    assert [row["method"] for row in ours] == ["simcse"]
    alone = run("--runs", tmp_path, "--backbone", "bert-base", "--published", "--json")
    assert str(tmp_path) in alone.stderr
    listed = json.loads(alone.stdout)
    assert listed == [row for row in json.loads(shown.stdout) if row["published"]]
    simcse = [row for row in listed if row["method"] == "simcse"]
    assert any(
        row["scores"].get("avg_sts") == pytest.approx(0.7625) and len(row["sources"]) > 1
        for row in simcse
    )


def test_one_table_of_a_paper_is_chosen(runs, tmp_path) -> None:
    def ask(tables: str, *words: object, folder: Path = runs, code: int = 0) -> Result:
        return run("--runs", folder, "--published", tables, *words, code=code)

    def sources(tables: str, folder: Path) -> set[str]:
        rows = json.loads(ask(tables, "--json", folder=folder).stdout)
        return {source for row in rows if row["published"] for source in row["sources"]}

    assert sources("rankcse:2", runs) == {"rankcse table2"}
    assert sources("RankCSE:table2", tmp_path / "none") == {"rankcse table2"}
    assert sources("rankcse:5,compcse:1", runs) == {"rankcse table5", "compcse table1"}
    for tables, nearest in (("rankcs:2", "'rankcse'"), ("rankcse:table22", "'table2'")):
        assert f"did you mean {nearest}" in ask(tables, code=1).stderr
    for told in (
        ask("rankcse:Figure 3", code=1).stderr.lower(),
        run("paper", "rankcse", "figure3", "--runs", runs, code=1).stderr,
    ):
        assert "of rankcse is known, but has no numbers that a table can show; there are" in told
    wrong = ask("rankcse:3", "--tasks", "stsb", code=2).stderr
    assert "stsb is of the family sts; write --tasks sts" in wrong
    for words, is_unshown in (((), True), (("--tasks", "transfer"), False)):
        told = ask("rankcse:3", *words).stderr
        assert ("No published row of rankcse:3 has" in told) == is_unshown
    for backbone, is_unshown in (("mini", True), ("bert-base", False)):
        told = run("--runs", runs, "--backbone", backbone, "--published").stderr
        assert (f"No published row of {backbone} has test scores of sts" in told) == is_unshown


def test_a_file_of_published_numbers(runs, tmp_path) -> None:
    file = tmp_path / "lab.csv"
    head = "paper,table,backbone,method,settings,task,split,metric,value,std\n"
    file.write_text(head + "ours,table1,bert-base,simcse,,avg_sts,test,spearman,77.5,\n")
    told = run("--runs", runs, "--published", "--published-file", file, "--json").stdout
    assert ["ours table1"] in [row["sources"] for row in json.loads(told) if row["published"]]
    for folder in (runs, tmp_path / "none"):  # the file's rows alone, and where none is known
        told = run("--runs", folder, "--published-file", file, "--json").stdout
        shown = [row["sources"] for row in json.loads(told) if row["published"]]
        assert shown == [["ours table1"]]
    file.write_text(head + "ours,table1,bert-base,simcse,,avg_sts,test,spearman,high,\n")
    refused = run("--runs", runs, "--published-file", file, code=1)
    assert "line 2" in refused.stderr and "note: " not in refused.stderr


def test_likely_mistakes_in_a_file_of_published_numbers_are_noted(runs, tmp_path) -> None:
    file = tmp_path / "lab.csv"

    def noted(average: str, *scores: str) -> str:
        numbers = {"avg_sts": average, **dict(zip(STS_TASKS, scores, strict=True))}
        head = "paper,table,backbone,method,settings,task,split,metric,value\n"
        lines = [f"ours,t,b,m,,{task},test,spearman,{n}\n" for task, n in numbers.items()]
        file.write_text(head + "".join(lines))
        shown = run("--runs", runs, "--published-file", file, "--json")
        [row] = [row for row in json.loads(shown.stdout) if row["published"]]
        assert row["scores"]["avg_sts"] == pytest.approx(float(average) / 100)
        return shown.stderr

    scores = ("70.1", *["80.04"] * 5, "80")
    assert noted("78.62", *scores) == noted("78.6", *scores) == noted("79", *scores) == ""
    told = f"note: {file}, line 2: avg_sts is 78.7, and the mean of its tasks 78.61\n"
    assert noted("78.7", *scores) == told
    told = f"note: {file}, line 2: avg_sts is 80, and the mean of its tasks 68.67 (and 1 more)\n"
    assert noted("80", "0.461", *scores[1:]) == told
    told = f"note: {file}, line 9: sickr is -0.5, and the file is in percent\n"
    assert noted("68.5", *["80"] * 6, "-0.5") == told


def test_misuse() -> None:
    for words, named in {
        "compare a": ["compare a with what?"],
        "compare a b --all": ["--all"],
        "compare --on dev": ["--on dev needs A and B"],
        "--all show abcdef": ["No such option '--all'"],
        "--backbone mini paper": ["--backbone"],
        "--since yesterday": ["'yesterday'"],
        "--since 0001-01-01T00:00+05:00": ["0001-01-01", "+05:30"],
        "--runs here --store sqlite:///other.db": ["--runs", "--store"],
        "--json --format csv": ["two formats"],
        "--sweep a compare --sweep b --sweep c": ["--sweep is given 3 times (a, b, c)"],
        "--published --published rankcse:2": ["--published is given twice"],
    }.items():
        result = run(*words.split(), code=2)
        assert [word for word in named if word not in result.stderr] == []
    run("--json", "--format", "json", "--runs", "nowhere", code=1)  # there is no leaderboard


def test_options_before_a_subcommand_are_passed_on(runs) -> None:
    shown = run("--runs", runs, "--json", "show", "rankcse-mini#1")
    assert json.loads(shown.stdout)["key"] == "a" * 64 + "-2"
    compared = run("--runs", runs, "--on", "dev", "compare", "rankcse", "rankcse-mini")
    assert "No such option" not in compared.stderr
    version = run("--version", "show", prog_name="cse-leaderboard")
    assert version.stdout.startswith("cse-leaderboard ")
    assert "rankcse-mini" in invoke(sweep, "--runs", runs, "status").stdout


def test_dev_scores_by_width_are_shown_at_the_kept_checkpoint(tmp_path, empty_leaderboard) -> None:
    """A row has the means over its seeds; one that was trained without widths is left out."""

    def live(number: int, seed: int, **scores: float) -> list[Event]:
        widths = {f"dev/stsb_spearman_width_{name[1:]}": value for name, value in scores.items()}
        of = {"configuration": "ab"[number // 2] * 64, "seed": seed, "measured": widths}
        *before, point, end = trial_life(number, {0: 0.5, 10: 0.75}, **of)
        spoilt = dict.fromkeys(widths, 0.0)  # at step 0, which was not kept
        before[-1] = before[-1].model_copy(update={"metrics": before[-1].metrics | spoilt})
        return [*before, point, end]

    events = [*live(0, 1, w8=0.5, w32=0.75), *live(1, 2, w8=0.25, w32=0.65), *live(2, 1)]
    fill_store(
        empty_leaderboard(tmp_path / "runs" / "leaderboard.db"), [sweep_started("first"), *events]
    )
    where = ("--runs", tmp_path / "runs")
    shown = run("--all", "--show", "widths", *where).stdout
    assert "stsb 32  stsb 8" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("rankcse")]
    assert [row[-4:] for row in rows] == [["mini", "aaaaaaaa", "70.00", "37.50"]]
    trial = run("show", "first#0", *where).stdout
    assert "First coordinates alone at step 10, Spearman on dev x 100" in trial
    table = trial.partition("First coordinates")[2].partition("\n\n")[2]
    assert ["8", "50.00"] in [line.split() for line in table.splitlines()]
    assert "width_8" not in trial


def test_refusals_are_one_sentence(runs, tmp_path) -> None:
    for words, told in {
        "compare bert rankcse": "'bert'",
        "compare rankcse simcse": "'rankcse' has no test scores of sts",
        "compare": "sts",
        "paper whitendcse": "did you mean 'whitenedcse'?",
        "paper whitenedcse 9": "there are table1, table2, table3, table4",
        "--sort speed": "'speed'",
        "--method simsce": "did you mean 'simcse'?",
        "--method SimCSE": "did you mean 'simcse'?",
        "--backbone bert": "did you mean 'bert-base'?",
        "--backbone bert-bse": "did you mean 'bert-base'?",
        "--backbone mini-bert": "did you mean 'mini'?",  # not 'non-bert', which a paper has
        f"--runs {tmp_path}/none": f"sqlite:///{tmp_path}/none/leaderboard.db",
    }.items():
        result = run(*words.split(), *(() if "--runs" in words else ("--runs", runs)), code=1)
        assert result.stdout == "", words
        assert result.stderr.startswith("Error: ") and told in result.stderr
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_filters_and_one_that_matches_nothing_says_what_is_there(runs) -> None:
    expected = {
        "--backbone bert-base": ["simcse"],
        "--backbone mini,bert-base": ["rankcse", "simcse"],
        "--method rankcse": ["rankcse"],
        "--sweep simcse-bert": ["simcse"],
        "--method rankcse --all": ["rankcse", "rankcse"],
    }
    for filters, methods in expected.items():
        rows = json.loads(run("--runs", runs, "--json", *filters.split()).stdout)
        assert [row["method"] for row in rows] == methods, filters
    there = ("bert-base", "mini", "rankcse", "simcse", "rankcse-mini", "simcse-bert")
    for filters, named in (
        (("--backbone", "roberta-large"), ("'roberta-large'", *there)),
        (("--method", "hicl"), ("No complete trial of method 'hicl'",)),
    ):
        result = run("--runs", runs, *filters, "--json")
        assert json.loads(result.stdout) == []
        assert [name for name in named if name not in result.stderr] == []
    done = run("--runs", runs, "--backbone", "bert-base,bert-bse", "--published", "--json")
    assert {row["backbone"] for row in json.loads(done.stdout)} == {"bert-base"}


def test_a_typed_folder_wins_over_the_environment_and_the_default(runs, monkeypatch) -> None:
    monkeypatch.chdir(runs.parent)
    assert len(json.loads(run("--json").stdout)) == 2
    missing = {"CSE_STORE": f"sqlite:///{runs / 'missing.db'}"}
    run("--json", env=missing, code=1)
    run("--json", "--runs", runs, env=missing)


def test_a_reader_that_goes_away_is_no_error(runs) -> None:
    call = "from cse_platform.cli.leaderboard import main; main()"
    shell = f"'{sys.executable}' -c '{call}' --runs '{runs}' --json | head -c 1"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[", "")


def of(store: Path) -> tuple[str, str]:
    return "--store", f"sqlite:///{store}"


def test_the_list_says_what_is_filled_and_what_is_left(paper_file) -> None:
    result = run("paper", *of(paper_file))
    assert result.stderr == ""
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 3 of 4 3 of 4 3 of 4" in lines
    assert "table6 whitenedcse-table6.yaml 2 of 5 2 of 5 2 of 5" in lines
    assert "table9 rankcse-table9.yaml 0 of 96" in lines
    assert "Left out: 24 of systems that are not run here." in result.stdout
    assert result.stdout.count("--dry-run estimates the time") == 1
    listed = json.loads(run("paper", "--json", *of(paper_file)).stdout)
    rows = list(
        csv.DictReader(io.StringIO(run("paper", "--format", "csv", *of(paper_file)).stdout))
    )
    assert [one["table"] for one in listed] == [row["table"] for row in rows]
    [table5] = [one for one in listed if (one["paper"], one["table"]) == ("whitenedcse", "table5")]
    assert (table5["rows_filled"], table5["trials_done"]) == (3, 3)
    [row] = [row for row in rows if (row["paper"], row["table"]) == ("whitenedcse", "table5")]
    assert (row["cells_filled"], row["cells"], row["left_out"]) == ("3", "4", "0")
    own = json.loads(run("paper", "whitenedcse", "--json", *of(paper_file)).stdout)
    assert own == [one for one in listed if one["paper"] == "whitenedcse"]
    text = run("paper", "--format", "latex", *of(paper_file)).stdout
    assert text.count(r"\begin{table}") == 6


def test_without_a_store_all_is_left(tmp_path) -> None:
    result = run("paper", "--runs", tmp_path)
    assert "rebuild from journals; no table has trials of yours yet" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "table5 whitenedcse-table5.yaml 0 of 4 0 of 4 0 of 4" in lines
    table = run("paper", "whitenedcse", "5", "--runs", tmp_path).stdout
    assert [line.split()[-1] for line in table.splitlines()[3:]] == [
        *("77.81", "78.78", "78.65", "78.74")
    ]


def test_an_audit_without_a_leaderboard_is_of_what_papers_print(tmp_path) -> None:
    result = run("audit", "--paper", "whitenedcse", "--runs", tmp_path)
    assert "no leaderboard" in result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("table1 bert-base avg_sts whitenedcse 78.78") for line in lines)
    assert any("78.11 +0.67 ≈ [" in line for line in lines)
    assert any(line.startswith("The best is above the best other in 5 of 5") for line in lines)
    result = run("audit", "--paper", "rankse", "--runs", tmp_path, code=1)
    assert result.stdout == ""
    assert "no tables of a paper 'rankse'" in result.stderr

    def told(*words: str) -> str:
        return run("audit", "--paper", "hicl", "--runs", tmp_path, *words).stdout

    records = json.loads(told("--json"))
    rows = list(csv.DictReader(io.StringIO(told("--format", "csv"))))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert [row["interval_low"] for row in rows] == [str(r["interval"]["low"]) for r in records]
    for form in ("markdown", "latex", "html"):
        text = told("--format", form)
        assert all(f"{100 * one['best_score']:.2f}" in text for one in records), form


def test_an_audit_without_a_claim_says_why(tmp_path) -> None:
    file = tmp_path / "lab.csv"
    words = ("audit", "--published-file", file, "--paper", "OurLab", "--json", "--runs", tmp_path)
    for method, reason in (
        ("simcse", "none of its rows is of a method named ourlab"),
        ("ourlab", "no table has avg_sts or avg_transfer of ourlab and of another method"),
    ):
        head = "paper,table,backbone,method,task,split,metric,value\n"
        file.write_text(f"{head}ourlab,1,bert-base,{method},avg_sts,test,spearman,78\n")
        result = run(*words)
        assert (f"no claim of ourlab: {reason}" in result.stderr, result.stdout) == (True, "[]\n")


def test_in_an_audit_our_own_seeds_come_before_printed_ones(paper_file) -> None:
    result = run("audit", "--paper", "whitenedcse", "--json", *of(paper_file))
    assert result.stderr == ""
    first = json.loads(result.stdout)[0]
    assert (first["paper"], first["table"], first["rival"]) == ("whitenedcse", "table1", "arccse")
    assert first["seeds_sources"][0] == "ours, 3 seeds"
    assert first["difference"] == first["best_score"] - first["rival_score"]
    low, high = first["interval"]["low"], first["interval"]["high"]
    assert (first["verdict"] == "not apart") == (low < 0 < high)
