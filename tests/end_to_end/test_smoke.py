"""A sweep file rehearsed by the real command: where it writes, what it tells, what it refuses."""

import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from processes import SECONDS, environment, script
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FILE = ROOT / "sweeps" / "papers" / "compcse-table6.yaml"
NOWHERE = "postgresql+psycopg://lab:secret@127.0.0.1:1/cse"
"""A store where nothing answers: whoever opens it fails."""


def run(
    name: str, *arguments: str, folder: Path, said: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [script(name), *arguments],
        cwd=folder,
        env=environment() | dict(said),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(store) as opened:
        return opened.execute(query).fetchall()


def test_a_shipped_file_is_rehearsed_in_a_folder_of_its_own(tmp_path: Path) -> None:
    lab = {
        "CSE_STORE": NOWHERE,
        "CSE_SEARCH_STORE": f"{NOWHERE}_search",
        "CSE_MLFLOW_URI": "http://127.0.0.1:1",
    }
    ended = run("cse-sweep", str(FILE), "--smoke", folder=tmp_path, said=lab)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "mini stands in for bert-base, bert-large" in ended.stdout
    assert "d0: 768 becomes 192" in ended.stdout
    assert "ok      compcse-table6-bert-base: 1 trial; dev (stsb, sickr)" in ended.stdout
    assert "secret" not in ended.stdout + ended.stderr

    folder = tmp_path / "runs" / "smoke" / "compcse-table6"
    assert [*tmp_path.iterdir(), *(tmp_path / "runs").iterdir()] == [
        tmp_path / "runs",
        tmp_path / "runs" / "smoke",
    ]
    sweeps = rows(folder / "leaderboard.db", "SELECT name, backbone FROM sweeps ORDER BY name")
    assert sweeps == [("compcse-table6-bert-base", "mini"), ("compcse-table6-bert-large", "mini")]
    assert rows(folder / "leaderboard.db", "SELECT DISTINCT tag FROM sweep_tags") == [("smoke",)]

    merged = run("cse-leaderboard", "merge", str(folder), folder=tmp_path)
    assert merged.returncode == 1
    assert "that leaderboard holds rehearsals" in merged.stderr
    beside = run(
        "cse-sweep", str(ROOT / "sweeps" / "quickstart.yaml"), "--runs", str(folder),
        folder=tmp_path,
    )  # fmt: skip
    assert beside.returncode == 1
    assert "holds rehearsals" in beside.stderr


BROKEN = {
    "stages": [
        {
            "sweep": "teacher", "method": "simcse", "backbone": "bert-base", "corpus": "wiki1m",
            "fixed": {"temperature": 0.05}, "search": {"sampler": "grid"},
            # After a step at such a rate the loss is no number.
            "space": {"learning_rate": [3.0e-5, 1.0e+38]},
            "evaluate": {"top": 1, "tasks": ["long", "geometry", "stsb"]},
        },
        {
            "sweep": "student", "method": "rankcse", "backbone": "bert-base", "corpus": "wiki1m",
            "fixed": {"teachers": [{"best": {"method": "esimcse", "backbone": "bert-base"}}]},
            "dev": {"checkpoint": "sickr", "search": "sickr", "also": []},
            "search": {"sampler": "random", "trials": 1}, "evaluate": {"top": 1, "tasks": ["mr"]},
        },
    ]
}  # fmt: skip


@pytest.mark.slow
def test_what_fails_is_told_with_its_cause_and_the_rest_runs(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    with file.open("w") as stream:
        YAML().dump(BROKEN, stream)
    left = tmp_path / "runs" / "smoke" / "mine" / "sweeps" / "teacher" / "journal.jsonl"
    left.parent.mkdir(parents=True)
    left.write_text("of the last rehearsal, which is removed")
    ended = run("cse-sweep", "mine.yaml", "--smoke", folder=tmp_path)
    assert ended.returncode == 1, ended.stdout
    summary = ended.stdout[ended.stdout.index("\n\n") :]
    assert "FAILED  teacher: 2 trials; dev (stsb, sickr); sts (1 column)" in summary
    assert "        trial 1: " in summary
    assert "ok      student: " in summary
    assert "1 of 2 stages failed in the rehearsal" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--dry-run"], 2, "--smoke and --dry-run exclude each other"),
        (["--set", "stages.0.fixed.d1=3"], 1, "has no setting 'd1'"),
        (["--set", "stages.0.backbone=bert-bas"], 1, "bert-bas"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(
    arguments: list[str], code: int, told: str, tmp_path: Path
) -> None:
    ended = run("cse-sweep", str(FILE), "--smoke", *arguments, folder=tmp_path)
    assert ended.returncode == code
    assert told in ended.stderr
    assert "Ray started" not in ended.stdout
