"""What a trial's worker does before a line of the method runs."""

import subprocess
import sys

SCRIPT = """
import sys
import cse_platform.runner.worker
heavy = {"torch", "transformers", "sklearn", "mlflow", "optuna", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_worker_imports_no_torch_before_the_method_does() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
