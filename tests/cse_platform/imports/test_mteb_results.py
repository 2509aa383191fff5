import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from stored_trials import apply_events, url_of
from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_methods.metrics import spearman
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.tracking.events import TrialEvaluated
from cse_platform.tracking.packing import pack

KEY = "ab" * 32
SUBSETS = ("en-en", "es-es")
RNG = np.random.default_rng(0)
GOLD, COSINES = RNG.normal(size=40), RNG.normal(size=40).astype(np.float32)
BY_SUBSET = [spearman(COSINES[part], GOLD[part]) for part in (slice(25), slice(25, 40))]
SCORES = {
    "mteb:STS12": (0.5, ["default"]),
    "mteb:STS17/en-en/es-es": (float(np.mean(BY_SUBSET)), [*SUBSETS]),
    "mteb:MassiveIntentClassification/de/en": (0.25, ["de", "en"]),
}
"""The last has several subsets and no values by example."""


@pytest.fixture
def scored_trial(board) -> str:
    """The URL of a leaderboard with a trial that has these scores."""
    pytest.importorskip("mteb", reason="mteb is not installed: pip install 'cse-platform[mteb]'")
    scores, identities = [], dict[str, Any]()
    for task, (value, subsets) in SCORES.items():
        protocol = {"metric": "cosine_spearman", "splits": ["test"], "subsets": subsets}
        identities[task] = {"task": task, "data_sha256": task, "protocol": protocol}
        score = {"task": task, "split": "test", "metric": "main_score", "value": value}
        scores.append({**score, "identity": task})
    task = "mteb:STS17/en-en/es-es"
    examples = {
        "task": task, "split": "test", "identity": task, "data_sha256": task,
        "values": pack(COSINES), "gold": pack(GOLD),
        "subsets": {"test/en-en": 25, "test/es-es": 15},
    }  # fmt: skip
    told = {"scores": scores, "identities": identities, "examples": [examples], "source": "hub"}
    evaluated = trial_evaluated(KEY, {}).model_dump() | told
    life = trial_life(0, {0: 0.5, 9: 0.7}, trial=KEY)
    apply_events(board, [sweep_started(), *life, TrialEvaluated.model_validate(evaluated)])
    return url_of(board)


def test_results_are_loaded_by_mtebs_own_cache(scored_trial, tmp_path) -> None:
    import mteb

    folder = tmp_path / "cache"
    command = ("export", KEY[:6], folder, "--results", "my-lab/simcse", "--store", scored_trial)
    told = invoke(cse_leaderboard, *command).output
    assert "without mteb:MassiveIntentClassification/de/en: the mean" in told
    results = mteb.ResultCache(folder).load_results(include_remote=False)
    [model] = results.model_results
    assert (model.model_name, model.model_revision) == ("my-lab/simcse", KEY)
    found = {one.task_name: one.scores["test"] for one in model.task_results}
    sts12, sts17 = found["STS12"], sorted(found["STS17"], key=lambda one: one["hf_subset"])
    assert [one["main_score"] for one in sts12] == [0.5]
    assert [one["hf_subset"] for one in sts17] == [*SUBSETS]
    assert [one["main_score"] for one in sts17] == pytest.approx(BY_SUBSET, abs=1e-6)
    told = invoke(cse_leaderboard, *command, code=1).output
    assert "cache" in told and "empty" in told


def test_results_come_home_under_an_identity_of_their_own(scored_trial, board, tmp_path) -> None:
    folder, runs = tmp_path / "cache", tmp_path / "runs"
    of_store = ("--store", scored_trial)
    invoke(cse_leaderboard, "export", KEY, folder, "--results", "my-lab/simcse", *of_store)
    attach = ("--trial", KEY[:6], "--runs", runs, *of_store)
    for expected in ("2 new, 0 already here\n", "0 new, 2 already here\n"):
        assert expected in invoke(cse_leaderboard, "import", folder, *attach).output
    [revision] = (folder / "results" / "my-lab__simcse").iterdir()
    claimed = tmp_path / "other" / "r1"
    shutil.copytree(revision, claimed)
    told = invoke(cse_leaderboard, "import", claimed, *attach).output
    assert "2 new, 0 already here, marked as claimed" in told
    with Leaderboard(board) as reader:
        sources = {
            score.source
            for row in reader.rows(tasks="mteb")
            for column, score in row.scores.items()
            if column == "mteb:STS17/en-en/es-es"
        }
        assert sources == {"hub", "imported", "claimed"}
    text = invoke(cse_leaderboard, "--tasks", "mteb", *of_store).output
    assert "Claimed, from files of results of another revision" in " ".join(text.split())


def test_what_is_no_result_is_refused(scored_trial, tmp_path) -> None:
    attach = ("--trial", KEY[:6], "--runs", tmp_path / "runs", "--store", scored_trial)

    def refused(folder: Path) -> str:
        return " ".join(invoke(cse_leaderboard, "import", folder, *attach, code=1).output.split())

    folder = tmp_path / "revision"
    folder.mkdir()
    assert "expected the results of one revision of a model, got none" in refused(folder)
    result = {
        "dataset_revision": "r", "task_name": "STS12", "mteb_version": "2.1.0",
        "scores": {"test": [{"main_score": 50.0, "hf_subset": "default", "languages": ["eng"]}]},
        "evaluation_time": 1.0,
    }  # fmt: skip
    file = folder / "STS12.json"
    file.write_text(json.dumps(result))
    assert "expected scores from -1 to 1 on test, got 50.0" in refused(folder)
    file.write_text(json.dumps(result | {"task_name": "NoSuchTask"}))
    assert "STS12.json: not a result of a task of mteb: no such task" in refused(folder)
    for version in ({}, {"mteb_version": "2.1.0"}):  # without one, mteb takes it for an old file
        file.write_text(json.dumps({"scores": result["scores"], "dataset_revision": "r"} | version))
        assert "task of mteb: task_name: the key 'task_name' is missing" in refused(folder)
    file.write_text("[]")
    assert "STS12.json: not a result of a task of mteb" in refused(folder)
    assert "nosuch: there is no such folder" in refused(tmp_path / "nosuch")
    invoke(cse_leaderboard, "import", folder, "--sweep", "lab", *attach, code=2)


def test_a_trial_without_scores_of_mteb_is_told_what_adds_some(board, tmp_path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed: pip install 'cse-platform[mteb]'")
    apply_events(board, [sweep_started(), *trial_life(0, {0: 0.5, 9: 0.7}, trial=KEY)])
    words = ("export", KEY, tmp_path / "cache", "--results", "a/b", "--store", url_of(board))
    told = " ".join(invoke(cse_leaderboard, *words, code=1).output.split())
    assert f"of mteb; cse-evaluate {KEY[:8]} --tasks mteb:NAME adds some" in told
    assert not (tmp_path / "cache").exists()
