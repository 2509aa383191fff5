"""A trial of a search, run again from the folder that `reproduce` writes: the same, bit for bit."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Ended = subprocess.CompletedProcess[str]


def test_a_trial_comes_out_the_same_again(
    undisturbed: Any, command: Callable[..., Ended], tmp_path: Path
) -> None:
    sweep, _ = undisturbed
    trials = sweep.history().trials
    confirmed = next(key for key, trial in trials.items() if trial.role == "confirm")
    folder = tmp_path / "again"
    written = command(
        "cse-leaderboard",
        "reproduce",
        confirmed[:8],
        "--runs",
        str(sweep.runs),
        "--to",
        str(folder),
    )
    assert written.returncode == 0, written.stderr
    again = type(sweep)(folder / "sweep.yaml", folder / "runs", f"reproduce-{confirmed[:8]}")
    ended = again.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(again.history().trials) == [confirmed]
    (trial,) = again.history().trials.values()
    assert (trial.best_value, trial.best_step) == (
        trials[confirmed].best_value,
        trials[confirmed].best_step,
    )
    curves = again.curves()
    assert len(curves) == 4
    assert curves.items() <= sweep.curves().items()
    shown = command("cse-leaderboard", "show", confirmed[:8], "--runs", str(again.runs))
    assert f"Trial {confirmed}" in shown.stdout
