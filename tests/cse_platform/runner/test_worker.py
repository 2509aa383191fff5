"""What a trial's worker does before a line of the method runs."""

import subprocess
import sys

SCRIPT = """
import sys
import cse_platform.runner.worker
heavy = {"torch", "transformers", "sklearn", "mlflow", "optuna", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""


TRAINED = """
import sys
import tempfile
from pathlib import Path
import cse_platform.runner.worker
from cse_methods.testing import train_once
short = {"backbone": "mini", "max_steps": 1, "dev": {"checkpoint": "sickr", "search": "sickr"}}
train_once("simcse", short, folder=Path(tempfile.mkdtemp()))
unused = {"mlflow", "optuna", "sqlalchemy", "alembic", "sklearn", "plotly", "datasets", "flask"}
assert not unused & set(sys.modules), unused & set(sys.modules)
"""
"""Ray itself imports pandas."""


def test_a_trial_imports_nothing_that_it_does_not_use() -> None:
    done = subprocess.run([sys.executable, "-c", TRAINED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_worker_imports_no_torch_before_the_method_does() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
