import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import invoke
from ruamel.yaml import YAML

from cse_platform.cli.sweep import main as cse_sweep

NOWHERE = "postgresql+psycopg://lab:secret@127.0.0.1:1/cse"
"""A store where nothing answers: whoever opens it fails."""
LAB = {
    "CSE_STORE": NOWHERE,
    "CSE_SEARCH_STORE": f"{NOWHERE}_search",
    "CSE_MLFLOW_URI": "http://127.0.0.1:1",
}
SICKR = {"checkpoint": "sickr", "search": "sickr", "also": []}
BASE = {"backbone": "bert-base", "corpus": "wiki1m", "dev": SICKR}
MINE = {
    "stages": [
        {
            **BASE, "backbone": "bert-large", "sweep": "first", "method": "simcse",
            "fixed": {"learning_rate": 3.0e-5}, "search": {"sampler": "random", "trials": 1},
        },
        {
            **BASE, "sweep": "second", "method": "compcse",
            "fixed": {"d0": 768}, "search": {"sampler": "random", "trials": 1},
        },
    ]
}  # fmt: skip


@pytest.fixture
def rehearse(run_in_process, tmp_path, monkeypatch) -> Callable[..., Result]:
    """Writes `mine.yaml` and runs `cse-sweep` on it, where a lab's stores do not answer."""
    monkeypatch.chdir(tmp_path)
    for name, value in LAB.items():
        monkeypatch.setenv(name, value)

    def run(content: dict[str, Any], *arguments: str, code: int = 0) -> Result:
        with (tmp_path / "mine.yaml").open("w") as stream:
            YAML().dump(content, stream)
        return invoke(cse_sweep, "mine.yaml", "--smoke", *arguments, code=code)

    return run


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(store) as opened:
        return opened.execute(query).fetchall()


@pytest.mark.slow
def test_a_file_is_rehearsed_in_a_folder_of_its_own(rehearse, tmp_path) -> None:
    ended = rehearse(MINE)
    assert "backbone: 'bert-large' becomes 'mini' (1 stage)" in ended.stdout
    assert "fixed.d0: 768 becomes 192" in ended.stdout
    assert "ok      second: 2 trials; dev (sickr)" in ended.stdout
    assert "secret" not in ended.output

    folder = tmp_path / "runs" / "smoke" / "mine"
    assert sorted([*tmp_path.iterdir(), *(tmp_path / "runs").iterdir()]) == [
        tmp_path / "mine.yaml",
        tmp_path / "runs",
        tmp_path / "runs" / "smoke",
    ]
    sweeps = rows(folder / "leaderboard.db", "SELECT name, backbone FROM sweeps ORDER BY name")
    assert sweeps == [("first", "mini"), ("second", "mini")]
    assert rows(folder / "leaderboard.db", "SELECT DISTINCT tag FROM sweep_tags") == [("smoke",)]


@pytest.mark.slow
def test_a_failing_stage_is_told_and_the_rest_runs(rehearse: Callable[..., Result]) -> None:
    ended = rehearse(MINE, "--set", "stages.0.fixed.learning_rate=1.0e+38", code=1)
    summary = ended.stdout[ended.stdout.index("\n\n") :]
    assert "FAILED  first: " in summary and "        trial 0: " in summary
    assert "ok      second: " in summary
    assert "1 of 2 stages failed in the rehearsal" in ended.stderr


def test_a_wrong_file_is_refused_before_anything_runs(rehearse, tmp_path) -> None:
    for arguments, code, told in (
        (["--dry-run"], 2, "--smoke and --dry-run exclude each other"),
        (["--set", "stages.1.fixed.d1=3"], 1, "has no setting 'd1'"),
        (["--set", "stages.0.backbone=bert-bas"], 1, "bert-bas"),
    ):
        ended = rehearse(MINE, *arguments, code=code)
        assert told in ended.stderr
        assert "becomes" not in ended.stdout
    assert not (tmp_path / "runs" / "smoke" / "mine").exists()
