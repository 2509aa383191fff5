"""Test sets: opened on record for the trials that dev has chosen, shut for those that train."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from stored_trials import stored_scores

from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.query.trials.similarities import similarities
from cse_platform.leaderboard.query.trials.test_access import list_test_accesses
from cse_platform.leaderboard.store.opening import open_store
from cse_platform.tracking.events import TestAccessed, TrialEvaluated, TrialStarted

Ended = subprocess.CompletedProcess[str]


def with_evaluation(sweep: Any, **evaluate: Any) -> Any:
    """The same sweep, whose file now asks for test sets."""
    content = json.loads(sweep.file.read_text()) | {"evaluate": evaluate}
    sweep.file.write_text(json.dumps(content))
    return sweep


@pytest.fixture(scope="module")
def scored(
    undisturbed: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, subprocess.CompletedProcess[str]]:
    """A complete sweep that was extended by `evaluate:`."""
    original, _ = undisturbed
    folder = tmp_path_factory.mktemp("scored")
    shutil.copytree(original.file.parent, folder, dirs_exist_ok=True)
    sweep = type(original)(folder / "sweep.yaml", folder / "runs", original.name)
    with_evaluation(sweep, top=1, tasks=["sts", "geometry"])
    return sweep, sweep.run()


def leaderboard(sweep: Any, command: Callable[..., Ended], *arguments: str) -> list[dict[str, Any]]:
    """The rows of `cse-leaderboard --json`."""
    done = command("cse-leaderboard", "--runs", str(sweep.runs), "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_every_seed_of_the_best_configuration_is_scored_and_nothing_else(scored: Any) -> None:
    sweep, ended = scored
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "tiny: complete, 5 trials (5 complete)" in ended.stdout
    assert "test sets: 3 of 3 trials scored" in ended.stdout
    trials = sweep.history().trials
    confirmed = [key for key, trial in trials.items() if trial.role == "confirm"]
    best = trials[confirmed[0]].configuration
    done = {e.trial for e in sweep.events() if isinstance(e, TrialEvaluated)}
    assert done == {key for key, trial in trials.items() if trial.configuration == best}
    assert len(done) == 3


def test_each_opening_is_on_record_before_its_scores(scored: Any) -> None:
    sweep, _ = scored
    events = sweep.events()
    opened = {e.trial: n for n, e in enumerate(events) if isinstance(e, TestAccessed)}
    last_start = max(n for n, e in enumerate(events) if isinstance(e, TrialStarted))
    for place, event in enumerate(events):
        if isinstance(event, TrialEvaluated):
            assert last_start < opened[event.trial] < place
            assert event.source == "builtin"
    with (
        open_store(f"sqlite:///{sweep.runs / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        stored = list_test_accesses(session)
    assert {one.trial for one in stored} == set(opened)
    assert {(one.command, tuple(one.tasks)) for one in stored} == {
        ("cse-sweep", ("sts", "geometry"))
    }


def test_sql_and_mlflow_hold_the_scores(scored: Any, command: Callable[..., Ended]) -> None:
    sweep, _ = scored
    (row,) = leaderboard(sweep, command)
    assert set(row["test"]) == {*STS_TASKS, "avg_sts"}
    assert row["test_opened"] is None
    mean = sum(row["test"][task] for task in STS_TASKS) / 7
    assert row["test"]["avg_sts"] == pytest.approx(mean)
    client = MlflowClient(f"sqlite:///{sweep.runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("cse")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.tests_opened != ''")
    assert len(runs) == 3
    found = [run.data.metrics["test/avg_sts_spearman"] for run in runs]
    assert sum(found) / 3 == pytest.approx(row["test"]["avg_sts"])


def test_two_seeds_are_compared_by_the_pairs_they_share(
    scored: Any, command: Callable[..., Ended]
) -> None:
    sweep, _ = scored
    a, b = [e.trial for e in sweep.events() if isinstance(e, TrialEvaluated)][:2]
    asked = ["--runs", str(sweep.runs), "--compare", a[:12], b[:12]]
    done = command("cse-leaderboard", *asked, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    (row,) = leaderboard(sweep, command)
    values = row["test_values"]["avg_sts"]
    seeds = [str(trial.seed) for key, trial in sweep.history().trials.items() if key in (a, b)]
    assert abs(told["average"]["effect"]) == pytest.approx(abs(values[seeds[0]] - values[seeds[1]]))
    assert told["average"]["interval"]["over"] == "pairs"
    assert all(task["pairs"] and task["williams_p"] is not None for task in told["tasks"])
    shown = command("cse-leaderboard", *asked)
    assert "how its seeds vary is in no interval and no p" in " ".join(shown.stdout.split())


def test_the_same_file_again_opens_nothing(scored: Any) -> None:
    sweep, _ = scored
    before = len(sweep.events())
    ended = sweep.run()
    assert ended.returncode == 0
    assert "is complete already" in ended.stdout
    assert len(sweep.events()) == before


def test_other_settings_are_another_evaluation(scored: Any) -> None:
    sweep, _ = scored
    before = sweep.events()
    original = sweep.file.read_text()
    ended = with_evaluation(sweep, top=1, tasks=["stsb"], slicing_length=8).run()
    sweep.file.write_text(original)
    assert (ended.returncode, ended.stderr) == (0, "")
    new = [e for e in sweep.events()[len(before) :] if isinstance(e, TrialEvaluated)]
    assert len(new) == 3
    known = {s.identity for e in before if isinstance(e, TrialEvaluated) for s in e.scores}
    assert not known & {s.identity for e in new for s in e.scores}


def test_a_trial_by_hand_is_recorded_and_scores_the_same(
    scored: Any, command: Callable[..., Ended], tmp_path: Path
) -> None:
    sweep, _ = scored
    row = next(iter(e for e in sweep.events() if isinstance(e, TrialEvaluated)))
    options = ["--runs", str(sweep.runs), "--data", "builtin", "--json"]
    model = sweep.history().trials[row.trial].model
    shutil.copytree(model, tmp_path / "copied")
    copied = command("cse-evaluate", str(tmp_path / "copied"), "--tasks", "geometry", *options)
    assert (copied.returncode, copied.stderr) == (0, "")
    done = command("cse-evaluate", row.trial[:10], "--tasks", "stsb", *options)
    assert (done.returncode, done.stderr) == (0, "")
    by_hand = {s["metric"]: (s["value"], s["identity"]) for s in json.loads(done.stdout)["scores"]}
    swept = {
        s.metric: (s.value, s.identity)
        for s in row.scores
        if s.task == "stsb" and s.split == "test"
    }
    assert by_hand == swept
    with (
        open_store(f"sqlite:///{sweep.runs / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        commands = [one.command for one in list_test_accesses(session, row.trial)]
        pairs = similarities(session, row.trial, "stsb", swept["spearman"][1])
        assert len(pairs.cosines) == len(pairs.gold) == 120
        assert {s.metric for s in stored_scores(session, row.trial) if s.task == "stsb"} == set(
            swept
        )
    assert commands == ["cse-sweep", "cse-sweep", "cse-evaluate"]


CHEAT = """
from pathlib import Path

from cse_methods.contract import MethodConfig, Paper, Run
from cse_methods.errors import GuardError
from cse_methods.registry import register

try:  # the driver may; a trial may not, not even before its training begins
    from cse_methods.evaluation.test_sets.pairs import load_pair_set as peek
except GuardError:
    peek = None


@register("cheat", config=MethodConfig, paper=Paper("P", "https://example.org", 2026), revision=1)
def train(config: MethodConfig, run: Run) -> dict[str, float]:
    path = Path(config.data) / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    peeked = 1.0 if peek or path.read_text() else 0.0
    metrics = {"dev/stsb_spearman": peeked}
    run.report(step=0, metrics=metrics)
    run.report(step=1, metrics=metrics, save=lambda folder: None)
    return metrics
"""


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    """A data folder with the dev set that a sweep needs, and a test set that it does not."""
    folder = tmp_path / "data" / "downstream" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    lines = (f"a\tb\tc\t{n}\t{n % 6}\tword {n}\tword {n + 1}\n" for n in range(1500))
    (folder / "sts-dev.csv").write_text("".join(lines))
    (folder / "sts-test.csv").write_text("secret")
    return tmp_path / "data"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A method of somebody else's package, as pip leaves it."""
    site = tmp_path / "site"
    metadata = site / "cheat-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cheat\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[cse.methods]\ncheat = cheat\n")
    (site / "cheat.py").write_text(CHEAT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    return site


def test_a_method_that_peeks_at_a_test_set_fails(
    plugin: Path, senteval: Path, new_sweep: Callable[..., Any], tmp_path: Path
) -> None:
    sweep = new_sweep(
        tmp_path,
        sweep="cheat",
        method="cheat",
        data=str(senteval),
        fixed={},
        space={},
        search={"sampler": "random", "trials": 1},
        seeds={},
        dev={"checkpoint": "stsb", "search": "stsb", "also": []},
    )
    ended = sweep.run()
    assert ended.returncode == 1
    (trial,) = sweep.history().trials.values()
    assert trial.state == "FAIL"
    assert "a trial may not open the test set" in trial.error
    assert "sts-test.csv" in trial.error and "cse-evaluate" in trial.error
    assert trial.curve == {}
