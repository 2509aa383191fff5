"""The commands merge, import-mlflow and import-log, as a person calls them."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cse_platform.cli.imports import import_log, import_mlflow, merge_command


@pytest.fixture
def there(filled, sweep_started, trial_life, tmp_path) -> Path:
    """A folder that a sweep wrote to."""
    board = filled([sweep_started(), *trial_life(0, {1: 0.5})])
    with board.session() as session:
        file = Path(session.get_bind().engine.url.database)
    board.close()
    folder = tmp_path / "their runs"
    folder.mkdir()
    file.rename(folder / "leaderboard.db")
    return folder


def call(command: click.Command, *words: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.mark.slow
def test_merge_tells_what_came(there, tmp_path) -> None:
    code, told = call(merge_command, there, "--runs", tmp_path / "runs")
    assert (code, told.splitlines()) == (
        0,
        [
            "Sweeps: 1 new",
            "Trials: 1 new, 0 completed, 0 heard of later, 0 here already",
            "Dev points: 1",
            "Scores: 1",
        ],
    )
    for other in (there, there / "leaderboard.db", f"sqlite:///{there / 'leaderboard.db'}"):
        code, told = call(merge_command, other, "--runs", tmp_path / "runs")
        assert code == 0
        assert "0 new, 0 completed, 0 heard of later, 1 here already" in told


@pytest.mark.slow
def test_merge_under_another_name(there, tmp_path) -> None:
    runs = ("--runs", tmp_path / "runs")
    assert call(merge_command, there, "--rename", "first=second", *runs)[0] == 0
    code, told = call(merge_command, there, "--rename", "frist=second", *runs)
    assert (code, told[:29]) == (1, "Error: --rename frist: no swe")
    assert call(merge_command, there, "--rename", "first", *runs)[0] == 2


@pytest.mark.slow
def test_import_mlflow_tells_what_came(lab, tmp_path) -> None:
    lab.run({125: 78.0})
    lab.run({125: 78.0}, {"seed": "1"}, status="RUNNING")
    name = lab.client.get_experiment(lab.experiment).name
    mapping = tmp_path / "m.yaml"
    mapping.write_text(lab.mapping.replace("[train]", f"['{name}']"))
    words = (lab.uri, "--mapping", mapping, "--runs", tmp_path / "runs")
    code, told = call(import_mlflow, *words)
    assert (code, told) == (
        0,
        "Runs: 2, 1 of them not ended and left out\nTrials: 1 new, 0 here already\n",
    )
    mapping.write_text("sweep: x")
    unmade = tmp_path / "none"
    code, told = call(import_mlflow, *words[:-1], unmade)
    assert (code, unmade.exists()) == (1, False)
    assert "m.yaml is not a mapping of runs:\n  line 1: the key " in told
    assert "  line 1: the key 'experiments' is missing\n" in told


def test_import_log_tells_what_came(tmp_path) -> None:
    log = tmp_path / "train.log"
    log.write_text("{'eval_stsb_spearman': 0.78, 'epoch': 0.5}\n")
    named = ("--sweep", "s", "--method", "new", "--backbone", "b", "--runs", tmp_path / "runs")
    code, told = call(import_log, log, *named, "--steps-per-epoch", 100, "--set", "lr=3e-5")
    assert (code, told) == (
        0,
        "Trials: 1 new, 0 here already\nDev points: 1, 0 repeated ones left out\n",
    )
    unmade = tmp_path / "none"
    code, told = call(import_log, log, *named[:-1], unmade)
    assert (code, "--steps-per-epoch N" in told, unmade.exists()) == (1, True, False)
