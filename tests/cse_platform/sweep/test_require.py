"""`require`: what is read, what is refused with its way out, and which points satisfy it."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.problems import joined_problems
from cse_platform.sweep.space.require import Expression, Requirements
from cse_platform.sweep.space.space import Space

SPACE = Space.model_validate(
    {
        "loss": ["listnet", "listmle"],
        "tau2": [0.1, 0.2, 0.3],
        "tau3": {"choices": [0.1, 0.2, 0.3], "when": {"loss": "listnet"}},
        "rate": {"low": 1e-5, "high": 1e-2, "log": True},
    }
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a > b", {"a": 2, "b": 2.0}, False),
        ("a * b - 1 <= 2 / 4", {"a": 0.5, "b": 3}, True),
        ("a == 'x' or not b", {"a": "y", "b": False}, True),
        ("a >= b", {"a": 1}, True),
    ],
)
def test_an_expression_says_what_python_would(
    text: str, values: dict[str, Any], expected: bool
) -> None:
    """Where a name has no value the hyperparameter takes no part, and the expression holds."""
    assert Expression(text).holds(values) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["tau2 > tau3"], ""),
        (["tau2 >= 1"], "0: holds nowhere in the space: every combination of tau2 was tried"),
        (["rates > 1"], "0: 'rates' is neither in 'space' nor in 'fixed'; did you mean 'rate'?"),
        (["tau2 > 0.1", "loss >= 3"], "1: expected a number, and loss is text"),
    ],
)
def test_what_is_wrong_is_said(texts: list[str], message: str) -> None:
    assert joined_problems(Requirements(texts, SPACE, {"epochs": 2}).problems()) == message


FILE = """\
sweep: s
method: simcse
backbone: mini
corpus: builtin
fixed: {max_steps: 2}
space:
  learning_rate: [1e-5, 1e-4, 1e-3]
  batch_size: {low: 16, high: 64, step: 16}
require:
  - learning_rate * batch_size <= 0.01
  - batch_size >= 32
search: {sampler: grid}
"""


def test_a_grid_leaves_out_what_is_excluded(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(FILE)
    (spec,) = load_sweep(file).stages
    assert spec.budget == 6  # of 12: 16 is too small, and 1e-3 takes at most 10
    sizes = {point["batch_size"] for point in spec.grid_points()}
    assert sizes == {32, 48, 64}
    assert {point["learning_rate"] for point in islice(spec.grid_points(), 9)} == {1e-5, 1e-4}
    (other,) = load_sweep(file, overrides=["require=learning_rate < 1e-4"]).stages
    assert other.require == ("learning_rate < 1e-4",) and other.budget == 4
