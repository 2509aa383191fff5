import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from stored_trials import stored_scores, stored_test_accesses
from sweeps import Sweep

from cse_methods.tasks import DATA_METRICS, STS_TASKS
from cse_platform.cli.evaluate import main as evaluate
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import DriverMessage, TestAccessed, TrialEvaluated, TrialStarted


def leaderboard(sweep: Sweep, *arguments: str) -> Any:
    done = invoke(cse_leaderboard, *arguments, "--runs", sweep.runs, "--json")
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_best_configurations_are_scored_and_each_opening_is_on_record_before(swept) -> None:
    trials = swept.history().trials
    worst = min((t for t in trials.values() if t.role == "search"), key=lambda t: t.best_value)
    assert {e.trial for e in swept.events(TrialEvaluated)} == trials.keys() - {worst.key}
    assert len(swept.events(TrialEvaluated)) == 4
    events = swept.events()
    opened = {e.trial: n for n, e in enumerate(events) if isinstance(e, TestAccessed)}
    last_start = max(n for n, e in enumerate(events) if isinstance(e, TrialStarted))
    for place, event in enumerate(events):
        if isinstance(event, TrialEvaluated):
            assert last_start < opened[event.trial] < place
            assert event.source == "builtin"
    with (
        open_store(f"sqlite:///{swept.runs / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        stored = stored_test_accesses(session)
    assert {one.trial for one in stored} == set(opened)
    assert {(one.command, tuple(one.tasks)) for one in stored} == {
        ("cse-sweep", ("sts", "geometry"))
    }


def test_sql_and_mlflow_hold_the_scores_and_two_seeds_are_compared_by_the_pairs_they_share(
    swept: Sweep,
) -> None:
    (row,) = leaderboard(swept)
    assert set(row["test"]) == {*STS_TASKS, "avg_sts"}
    assert row["test_opened"] is None
    mean = sum(row["test"][task] for task in STS_TASKS) / 7
    assert row["test"]["avg_sts"] == pytest.approx(mean)
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{swept.runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("cse")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.tests_opened != ''")
    assert len(runs) == 4
    best = row["configuration"]["hash"]
    ours = [run.data for run in runs if run.data.tags["configuration"] == best]
    assert len(ours) == 3
    found = [  # without the seed of the search, which chose it
        data.metrics["test/builtin/avg_sts_spearman"]
        for data in ours
        if int(data.params["seed"]) in row["seeds"]
    ]
    assert sum(found) / 2 == pytest.approx(row["test"]["avg_sts"])

    trials = swept.history().trials.values()
    a, b = (t for t in trials if t.configuration == best and t.seed in row["seeds"])
    compared = leaderboard(swept, "compare", a.key[:12], b.key[:12])
    values = row["test_values"]["avg_sts"]
    between = abs(values[str(a.seed)] - values[str(b.seed)])
    assert abs(compared["average"]["effect"]) == pytest.approx(between)
    assert compared["average"]["interval"]["over"] == "examples"
    assert all(task["examples"] and task["williams_p"] is not None for task in compared["tasks"])


@pytest.mark.slow
def test_other_settings_are_another_evaluation(swept: Sweep, run_here, tmp_path: Path) -> None:
    sweep, before = swept.copied(tmp_path), swept.events(TrialEvaluated)
    evaluate = {"top": 1, "tasks": ["stsb", "ranking"], "slicing_length": 8}
    sweep.change(evaluate=evaluate, resources={"at_most": 1})
    run_here(sweep)
    new = sweep.events(TrialEvaluated)[len(before) :]
    told = [e for e in sweep.events() if isinstance(e, TestAccessed | TrialEvaluated)]
    assert [type(e) for e in told[2 * len(before) :]] == [TestAccessed, TrialEvaluated] * 3
    (said,) = [e.text for e in sweep.events(DriverMessage) if "no value: " in e.text]
    assert (
        said.startswith("evaluate, trials ")
        and ": no value: kcc, ndcg, ndcg_exponential of sts12, " in said
    )
    assert "no sentence stands in more than three pairs" in said
    known, again = (
        {one.identity for event in events for one in event.scores if one.metric not in DATA_METRICS}
        for events in (before, new)
    )
    assert known and again and not known & again  # what a set shares with a corpus is the same


def test_a_trial_by_hand_is_recorded_and_scores_the_same(swept: Sweep, tmp_path: Path) -> None:
    sweep, row = swept.copied(tmp_path / "runs"), swept.events(TrialEvaluated)[0]
    options = ["--runs", str(sweep.runs), "--data", "builtin", "--json"]
    model = sweep.history().trials[row.trial].model
    shutil.copytree(model, tmp_path / "copied")
    moved = [str(tmp_path / "copied"), "--tasks", "geometry", *options]
    invoke(evaluate, *moved)
    done = invoke(evaluate, row.trial[:10], "--tasks", "stsb", *options)
    told = json.loads(done.stdout)["scores"]
    by_hand = {s["metric"]: s for s in told if s["split"] == "test"}
    by_sweep = {s.metric: s for s in row.scores if s.task == "stsb" and s.split == "test"}
    # Clean rows of a task need the earlier tasks, which one task by hand does not open.
    assert by_hand.keys() == by_sweep.keys() - {"clean"}
    for name in by_hand:
        score = by_sweep[name]
        assert by_hand[name]["identity"] == score.identity
        # Other sentences stand in a batch, and sums are rounded in another order; nearly equal
        # pairs may then change places, each by at most 12 * 119 / (120 * (120**2 - 1)).
        near = 2.5e-3 if name == "spearman" else 1e-6
        assert by_hand[name]["value"] == pytest.approx(score.value, abs=near)
    with (
        open_store(f"sqlite:///{sweep.runs / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        commands = [one.command for one in stored_test_accesses(session, row.trial)]
        pairs = Leaderboard(board).examples(row.trial, "stsb", by_sweep["spearman"].identity)
        assert len(pairs.values) == len(pairs.gold) == 120
        assert {s.metric for s in stored_scores(session, row.trial) if s.task == "stsb"} == set(
            by_sweep
        )
    assert commands == ["cse-sweep", "cse-evaluate"]
