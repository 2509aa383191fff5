"""Where a trial failed: the last line of the method's own code in a worker's traceback."""

import traceback
from dataclasses import replace
from typing import Any

import pytest

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.runner.failures import with_own_line

REMOTE = """ray::ImplicitFunc.train() (pid=7, ip=10.0.0.1)
  File "/opt/ray/tune/trainable.py", line 330, in train
    result = self.step()
  File "/home/ann/labcse/labcse/method.py", line 12, in train
    return loop.train(config, run)
  File "/opt/site-packages/cse_methods/training/loop.py", line 9, in train
    parts = objective(student, batch)
  File "/home/ann/labcse/labcse/parts/loss.py", line 41, in forward
    z = first @ second
  File "/opt/site-packages/torch/matmul.py", line 5, in matmul
    raise RuntimeError("shapes")
RuntimeError: shapes
"""


def of_module(module: str) -> Method:
    def train(config: Any, run: Any) -> dict[str, float]:
        return {}

    train.__module__ = module
    return replace(get_method("simcse"), train=train)


@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("labcse.method", "labcse/parts/loss.py:41: z = first @ second"),
        ("cse_methods.papers.simcse", "cse_methods/training/loop.py:9: parts = objective(student"),
        ("method", "method.py:12: return loop.train(config, run)"),
    ],
    ids=["a package", "ours", "a single file"],
)
def test_the_last_line_of_the_method_itself(module: str, place: str) -> None:
    said = with_own_line(RuntimeError("shapes"), REMOTE, of_module(module))
    assert said.startswith(f"RuntimeError: shapes, at {place}")


def test_no_place_where_none_is_known_or_needed() -> None:
    assert with_own_line(ValueError("x"), REMOTE, of_module("other")) == "ValueError: x"
    assert with_own_line(ValueError("x"), "killed", of_module("labcse.method")) == "ValueError: x"
    ours = CseError("try a lower learning rate")
    assert with_own_line(ours, REMOTE, of_module("labcse.method")) == "try a lower learning rate"


def test_a_real_traceback_is_read() -> None:
    try:
        get_method("simcse").train(None, None)  # type: ignore[arg-type]
    except AttributeError as error:
        said = with_own_line(error, traceback.format_exc(), get_method("simcse"))
    assert "at cse_methods/papers/simcse.py:" in said
