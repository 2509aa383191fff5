"""Tasks of mteb through a sweep and through `cse-evaluate`, with a hub and without it."""

import json
from pathlib import Path
from typing import Any

import pytest
from loopback_hub import LoopbackHub
from processes import run_command
from sweeps import TINY, write_sweep
from task_hub import *  # noqa: F403
from task_hub import KINDS

from cse_platform.tracking.events import TestAccessed, TrialEvaluated
from cse_platform.tracking.journal import read_journal

pytestmark = pytest.mark.slow

TASKS = [f"mteb:{name}" for name in KINDS]
BRIEF = {
    "fixed": {"max_steps": 2, "eval_steps": 2, "batch_size": 8},
    "search": {"sampler": "random", "trials": 1, "seed": 3},
    "seeds": {"search": 42},
}


def test_a_sweep_and_a_command_score_tasks_of_mteb_alike(
    task_hub: LoopbackHub, tmp_path: Path
) -> None:
    own = {"HF_ENDPOINT": task_hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    own |= {"CSE_CACHE": str(tmp_path / "cse")}
    folder = tmp_path / "sweep"
    folder.mkdir()
    dev = {"also": ["mteb:Banking77Classification"]}
    sweep = write_sweep(folder, TINY, **BRIEF, dev=dev, evaluate={"top": 1, "tasks": TASKS})
    runs = f"--runs={sweep.runs}"

    def command(*words: str, **more: str) -> Any:
        return run_command(*words, runs, **(own | more))

    wrong = command("cse-sweep", str(sweep.file), "--dry-run", "--set=evaluate.tasks=[mteb:STS99]")
    assert "no such task in mteb" in wrong.stderr and wrong.returncode == 1
    done = command("cse-sweep", str(sweep.file))
    assert done.returncode == 0, done.stdout + done.stderr
    curves = sweep.curves().values()
    assert all(0 < point["dev/mteb:Banking77Classification_main_score"] <= 1 for point in curves)
    events = sweep.events()
    [opened] = [n for n, event in enumerate(events) if isinstance(event, TestAccessed)]
    [scored] = [n for n, event in enumerate(events) if isinstance(event, TrialEvaluated)]
    assert opened < scored and set(events[opened].tasks) == set(TASKS)
    tested = [s for s in events[scored].scores if s.split == "test"]
    by_sweep = {s.task: (s.value, s.identity) for s in tested if s.metric == "main_score"}
    assert by_sweep.keys() == {s.task for s in tested if s.metric == "in_corpus"} == set(TASKS)

    closed = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "empty")}
    words = ("cse-evaluate", "tiny#0", "--tasks", ",".join(TASKS))
    done = command(*words, "--json", **closed)
    assert done.returncode == 0, done.stderr
    shown = {
        s["task"]: (pytest.approx(s["value"], abs=1e-5), s["identity"])
        for s in json.loads(done.stdout)["scores"]
        if s["metric"] == "main_score"
    }
    assert by_sweep == shown

    # Whatever ends an evaluation after the record was made, the access is on record.
    [rows] = (tmp_path / "cse").glob("test-tasks/*/default/test/top_ranked.jsonl")
    rows.write_text(rows.read_text().replace("d1", "d2", 1))
    broken = command(*words, **closed)
    assert broken.returncode == 1 and "its rows were changed; delete it" in broken.stderr
    [journal] = sweep.runs.glob("evaluations/*.jsonl")
    accesses = [event for _, event in read_journal(journal) if isinstance(event, TestAccessed)]
    assert [set(event.tasks) for event in accesses] == [set(TASKS)] * 2
