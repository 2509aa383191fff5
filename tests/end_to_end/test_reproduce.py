"""A trial of a search, run again from the folder that `reproduce` writes: the same, bit for bit."""

from pathlib import Path

import pytest
from processes import run_command
from sweeps import Sweep

pytestmark = pytest.mark.slow


def test_a_trial_comes_out_the_same_again(swept: Sweep, cluster: str, tmp_path: Path) -> None:
    trials = swept.history().trials
    confirmed = next(key for key, trial in trials.items() if trial.role == "confirm")
    folder, runs = tmp_path / "again", ("--runs", str(swept.runs))
    written = run_command("cse-leaderboard", "reproduce", confirmed[:8], *runs, "--to", str(folder))
    assert written.returncode == 0, written.stderr
    again = Sweep(folder / "sweep.yaml", folder / "runs", f"reproduce-{confirmed[:8]}")
    ended = again.run("--address", cluster)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(again.history().trials) == [confirmed]
    (trial,) = again.history().trials.values()
    assert (trial.best_value, trial.best_step) == (
        trials[confirmed].best_value,
        trials[confirmed].best_step,
    )
    curves = again.curves()
    assert len(curves) == 4
    assert curves.items() <= swept.curves().items()
    shown = run_command("cse-leaderboard", "show", confirmed[:8], "--runs", str(again.runs))
    assert f"Trial {confirmed}" in shown.stdout
