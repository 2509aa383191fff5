"""A lab's own method with a bug that is mended: no number of the old code comes back."""

import os
import subprocess
from pathlib import Path

import pytest
from processes import SECONDS, environment, script

pytestmark = pytest.mark.slow

METHOD = """
from cse_methods import MethodConfig, Paper, register
from mine.loss import score


def keep(folder):
    (folder / "best").mkdir()


@register("mine", config=MethodConfig, paper=Paper("Mine", "https://example.org", 2024), revision=1)
def train(config, run):
    metrics = {}
    for step in (0, 1):
        metrics = {"dev/stsb_spearman": score(run.seed, step), "train/progress": float(step)}
        run.report(step=step, metrics=metrics, save=keep if step else None)
    return metrics
"""
WITH_A_TYPO = "def score(seed, step):\n    return 0.5 + 0.1 * stepp\n"
MENDED = "def score(seed, step):\n    return 0.5 + 0.1 * step\n"
REFORMATTED = "def score(seed, step):\n    # a comment\n    return (0.5 + 0.1 * step)\n"
CHANGED = "def score(seed, step):\n    return 0.5 + 0.2 * step\n"
SWEEP = """
sweep: first
method: mine
backbone: mini
corpus: builtin
data: builtin
search: {sampler: random, trials: 1}
seeds: {search: 0}
"""


def test_first_hour_of_an_own_method(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    installed = tmp_path / "mine-1.0.dist-info"
    for folder in (package, installed):
        folder.mkdir()
    (package / "__init__.py").write_text(METHOD)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[cse.methods]\nmine = mine\n")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def sweep(loss: str, *arguments: str) -> tuple[int, str, str]:
        (package / "loss.py").write_text(loss)
        done = subprocess.run(
            [script("cse-sweep"), "sweep.yaml", *arguments],
            cwd=tmp_path,
            env=environment() | {"PYTHONPATH": paths, "CSE_DASHBOARD": ""},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return done.returncode, done.stdout, done.stderr

    code, _, said = sweep(WITH_A_TYPO)
    assert code == 1 and "stepp" in said
    code, told, said = sweep(MENDED)
    assert (code, said) == (0, ""), told
    assert "60.00" in told
    code, told, said = sweep(REFORMATTED)
    assert (code, said) == (0, "") and "complete already" in told
    code, _, said = sweep(CHANGED)
    assert code == 1 and "mine.loss" in said and "--set sweep=NEWNAME" in said
    code, told, said = sweep(CHANGED, "--set", "sweep=second")
    assert (code, said) == (0, "") and "70.00" in told and "reused" not in told
    code, told, said = sweep(MENDED, "--set", "sweep=third")
    assert (code, said) == (0, "") and "reused from first (same code)" in told and "60.00" in told
