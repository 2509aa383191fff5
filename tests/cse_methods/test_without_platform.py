"""The science stands alone: with the platform gone, a method still trains."""

import subprocess
import sys
from pathlib import Path

import pytest

import cse_methods

SCRIPT = """
import sys

class Absent:
    '''Finds every import of the platform first, and says that there is none.'''

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "cse_platform":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

methods, backbone = sys.argv[1:]
sys.path[:] = [methods, *(entry for entry in sys.path if not entry.endswith("/platform"))]
sys.meta_path.insert(0, Absent())

from cse_methods.registry import get_method

class Run:
    seed, resume_from, steps = 0, None, []

    def report(self, *, step, metrics, save=None):
        self.steps.append(step)

method = get_method("simcse")
config = method.config(
    backbone=backbone, corpus="builtin", data="builtin", batch_size=4, max_steps=2,
    dev={"checkpoint": "sickr", "search": "sickr", "also": []},
)
assert method.train(config, Run())["train/progress"] > 0
assert Run.steps == [0, 2], Run.steps
machinery = {"ray", "optuna", "mlflow", "sqlalchemy", "cse_platform"} & set(sys.modules)
assert not machinery, machinery
"""


@pytest.mark.slow
def test_a_method_trains(tiny_bert: Path) -> None:
    root = Path(cse_methods.__path__[0]).parent
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root), str(tiny_bert)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
