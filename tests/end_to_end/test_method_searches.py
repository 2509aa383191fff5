"""Every method is searched through Ray over what its own sweep file varies, by `--smoke`."""

import shutil
from pathlib import Path

import pytest
from processes import run_command

from cse_platform.leaderboard.api import open_leaderboard

SWEEPS = Path(__file__).parents[2] / "sweeps"
FEWEST = 4
"""Trials of each method: every value of the file's space, and what the sampler draws."""
LONGEST = 3600
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST)]


def test_every_method_is_searched_and_no_trial_fails(tmp_path: Path) -> None:
    from cse_methods.published.released import SCORED_BY
    from cse_methods.registry import available_methods

    trained = [name for name in available_methods() if name != SCORED_BY]
    for name in trained:
        shutil.copy(SWEEPS / f"{name}.yaml", tmp_path)
    every = tmp_path / "every.yaml"
    every.write_text("stages:\n" + "".join(f"  - {{file: {name}.yaml}}\n" for name in trained))
    words = (str(every), "--smoke", "--runs", str(tmp_path))
    ended = run_command("cse-sweep", *words, seconds=LONGEST)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr
    with open_leaderboard(f"sqlite:///{tmp_path / 'smoke' / 'every' / 'leaderboard.db'}") as board:
        sweeps = {sweep.method: sweep for sweep in board.sweeps()}
    assert sweeps.keys() == set(trained)
    for sweep in sweeps.values():
        assert sweep.counts["COMPLETE"] >= FEWEST, sweep.name
        assert sweep.counts["FAIL"] == 0, sweep.name
