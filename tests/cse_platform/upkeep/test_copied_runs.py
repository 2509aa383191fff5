"""A copy of a runs folder goes on by itself: what the original has stays."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest


def models(lab: Any) -> set[str]:
    return {folder.name for folder in (lab.runs / "artifacts" / "models").iterdir()}


@pytest.fixture
def original(new_lab, no_mlflow, tmp_path) -> Any:
    """A runs folder with one sweep, whose three trials have kept their models."""
    lab = new_lab(tmp_path / "runs")
    lab.run(search={"trials": 3})
    return lab


def test_a_copy_with_the_paths_of_its_original_leaves_them_alone(original, new_lab, caplog) -> None:
    copy = new_lab(original.runs.with_name("copy"))
    shutil.copytree(original.runs, copy.runs)
    before = models(original)
    name_absolutely(copy.folder("small") / "journal.jsonl", original.runs)
    (copy.runs / "leaderboard.db").unlink()  # it is filled from the journal, of other lengths now
    copy.run(search={"trials": 4}, keep={"models": 1})
    assert models(original) == before and len(before) == 3
    assert str(original.runs / "artifacts" / "models") in caplog.text


def name_absolutely(journal: Path, runs: Path) -> None:
    """Let a journal name folders as earlier versions did."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        for name in {"model", "checkpoint"} & line.keys():
            if line[name] is not None:
                line[name] = str(runs / line[name])
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
