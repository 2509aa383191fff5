"""Clean scores of past trials: from stored similarities, once, on record; shown on request."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from clean_runs import KEYS, url
from click.testing import CliRunner
from letter_models import Letters
from sqlalchemy import delete
from stored_trials import stored_scores, stored_test_accesses

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.results import Evaluation
from cse_methods.tasks import CONTAMINATION_METRICS, STS_TASKS, parse_tasks
from cse_platform.cli.leaderboard import main
from cse_platform.leaderboard import comparisons, ranking
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.tables import PairSimilaritiesRecord
from cse_platform.leaderboard.trials import TestAccess
from cse_platform.recompute import recompute
from cse_platform.tracking.events import Event, SweepStarted

Life = Callable[..., list[Event]]
Start = Callable[..., SweepStarted]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (comparisons, ranking):
        monkeypatch.setattr(module, "_RESAMPLES", 100)


def scores_of(runs: Path, key: str) -> dict[tuple[str, str], tuple[float, str]]:
    with open_store(url(runs)) as board, board.session() as session:
        stored = stored_scores(session, key)
        return {(one.task, one.metric): (one.value, one.identity) for one in stored}


def accesses_of(runs: Path) -> list[TestAccess]:
    with open_store(url(runs)) as board, board.session() as session:
        return stored_test_accesses(session)


def test_past_trials_get_what_a_new_evaluation_gives_once_and_on_record(
    runs: Path, lab_file: Path
) -> None:
    done = recompute(url(runs), runs=runs)
    assert (done.trials, dict(done.refused), done.without_similarities) == (3, {}, [])
    dev = DevSelection.model_validate({"checkpoint": str(lab_file), "search": "stsb"})
    training = TrainingData(dev=dev, chosen_on=("lab", "stsb"), data="builtin")
    key = KEYS["b"]
    new: Evaluation = evaluate(
        Letters(skip=1), parse_tasks(["sts"]), data="builtin", training=training
    )
    before = scores_of(runs, key)
    assert before == {
        (one.task, one.metric): (one.value, one.identity)
        for one in new.scores
        if one.metric not in CONTAMINATION_METRICS
    }
    accesses = accesses_of(runs)
    assert [(one.trial, one.command, one.source) for one in accesses] == [
        (key, "cse-leaderboard", "builtin") for key in KEYS.values()
    ]
    assert recompute(url(runs), runs=runs).trials == 0
    assert (accesses_of(runs), scores_of(runs, key)) == (accesses, before)


def test_what_cannot_be_computed_is_refused_and_the_others_are_done(
    runs: Path, lab_file: Path
) -> None:
    assert "no clean scores" in shown(runs, "--tasks", "clean")
    words = ["--runs", str(runs), "--tasks", "clean", "--compare", "rankcse", "simcse"]
    compared = CliRunner().invoke(main, words)
    assert compared.exit_code == 1 and "cse-leaderboard recompute" in compared.output
    text = lab_file.read_text()
    lab_file.unlink()
    result = CliRunner().invoke(main, ["recompute", "--runs", str(runs)])
    assert result.exit_code == 1 and str(lab_file) in result.output
    assert ("sts12", "clean") not in scores_of(runs, KEYS["a"])
    lab_file.write_text(text)
    with open_store(url(runs)) as board, board.writing() as session:
        session.execute(delete(PairSimilaritiesRecord).where(PairSimilaritiesRecord.trial_id == 1))
    result = CliRunner().invoke(main, ["recompute", "--runs", str(runs)])
    assert result.exit_code == 1
    assert "Clean scores: 2 trials new" in result.output
    assert f"cse-evaluate {KEYS['a'][:8]} --tasks sts" in result.output


def shown(runs: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["--runs", str(runs), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_clean_scores_are_shown_when_asked_for(cleaned: Path) -> None:
    assert "clean" not in shown(cleaned, "--format", "json")
    rows = json.loads(shown(cleaned, "--tasks", "clean", "--format", "json"))
    for row in rows:
        assert row["headline"] == "avg_sts_clean"
        columns = (*STS_TASKS, "avg_sts")
        assert set(row["test"]) == {*(f"{task}_clean" for task in columns), *columns}
        assert row["test"]["sts13"] != row["test"]["sts13_clean"]
    changes = [row["test"]["avg_sts_clean"] - row["test"]["avg_sts"] for row in rows]
    for form in ("table", "latex", "markdown", "html"):
        text = shown(cleaned, "--tasks", "clean", "--format", form)
        assert "Against all rows" in text, form
    plain = shown(cleaned, "--tasks", "clean")
    line = next(line for line in plain.splitlines() if "Against" in line)
    for change in (min(changes), max(changes)):
        assert f"{100 * change:+.2f}" in line


def test_a_comparison_is_over_the_clean_pairs(cleaned: Path) -> None:
    with Leaderboard(open_store(url(cleaned))) as reader:
        clean = reader.compare("rankcse", "simcse", tasks="clean")
        whole = reader.compare("rankcse", "simcse")
    pairs = {task.task: task.pairs for task in clean.tasks}
    assert pairs["sts12_clean"] == 120
    assert pairs["sts13_clean"] == 60
    assert {task.pairs for task in whole.tasks} == {120}
    [sts12] = [task for task in whole.tasks if task.task == "sts12"]
    [kept] = [task for task in clean.tasks if task.task == "sts12_clean"]
    assert (kept.mean_a, kept.williams_p) == (sts12.mean_a, sts12.williams_p)
    assert clean.average is not None and whole.average is not None
    change = 100 * (clean.average.effect - whole.average.effect)
    assert any(f"{change:+.2f}" in note for note in clean.notes)
