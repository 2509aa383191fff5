"""What the processes of a sweep import: nothing that they do not use."""

import subprocess
import sys

import pytest

BEFORE_THE_METHOD = """
import sys
import cse_platform.runner.worker, cse_platform.tracking.packing, cse_platform.tracking.history
heavy = {"torch", "transformers", "sklearn", "mlflow", "optuna", "sqlalchemy"} & set(sys.modules)
opens_test_sets = [name for name in sys.modules if name.startswith("cse_methods.evaluation")]
assert not heavy and not opens_test_sets, (heavy, opens_test_sets)
"""
A_TRIAL = """
import sys, tempfile
from pathlib import Path
from cse_methods.testing import train_once
short = {"backbone": "mini", "max_steps": 1, "dev": {"checkpoint": "sickr", "search": "sickr"}}
train_once("simcse", short, folder=Path(tempfile.mkdtemp()))
unused = {"mlflow", "optuna", "sqlalchemy", "alembic", "sklearn", "plotly", "datasets", "flask"}
assert not unused & set(sys.modules), unused & set(sys.modules)
"""
"""Ray itself imports pandas."""
THE_DRIVER = """
import sys, cse_platform.cli.run
heavy = {"torch", "transformers", "scipy.stats", "mlflow"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_worker_imports_no_torch_and_opens_no_test_set_before_the_method_does() -> None:
    run(BEFORE_THE_METHOD)


@pytest.mark.slow
def test_a_trial_imports_only_what_it_uses() -> None:
    run(A_TRIAL)


def test_a_sweep_starts_without_torch_and_scipys_statistics() -> None:
    """Each takes a second to import, and the trials of a sweep run in other processes."""
    run(THE_DRIVER)


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
