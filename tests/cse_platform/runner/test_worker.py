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
import cse_platform.cli.run  # which is of the driver
heavy = {"torch", "transformers", "scipy.stats", "mlflow"} & set(sys.modules)
assert not heavy, heavy
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


def test_worker_and_driver_start_without_torch_and_open_no_test_set() -> None:
    """Torch takes seconds to import, which a worker's method may not need and a driver does not."""
    run(BEFORE_THE_METHOD)


@pytest.mark.slow
def test_a_trial_imports_only_what_it_uses() -> None:
    run(A_TRIAL)


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
