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
        "size": {"low": 16, "high": 64, "step": 16},
        "whiten": [True, False],
        "width": [8, "auto", None],
    }
)


def required(*texts: str) -> Requirements:
    return Requirements(texts, SPACE, {"epochs": 2, "pooler": "cls"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a >= b", {"a": 2, "b": 2.0}, True),
        ("a > b", {"a": 2, "b": 2.0}, False),
        ("a * b - 1 <= 2 / 4", {"a": 0.5, "b": 3}, True),
        ("-a < +b", {"a": 1, "b": 0}, True),
        ("0 < a <= 1 != 2", {"a": 0}, False),
        ("a == 'x' or not b", {"a": "y", "b": False}, True),
        ("a != \"x\" and b", {"a": "x", "b": True}, False),
        ("a == true", {"a": True}, True),
        ("a == 1", {"a": True}, False),
        ("a == null", {"a": None}, True),
        ("(a == b) == false", {"a": [1], "b": [1]}, False),
        ("a >= b", {"a": 1}, True),
        ("1 / a > 0", {"a": 0}, False),
        ("a * 1e308 * 10 > 1", {"a": 1}, True),
    ],
)  # fmt: skip
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
        (
            ["rate * size > 1"],
            "0: holds nowhere in the space: both ends of rate, size were tried, and 20000 points "
            "between",
        ),
        (
            ["tau2 > 0.2", "tau2 < 0.2"],
            "each holds somewhere, but all together nowhere: every combination of tau2 was tried",
        ),
        (["rates > 1"], "0: 'rates' is neither in 'space' nor in 'fixed'; did you mean 'rate'?"),
        (
            ["seed > 1"],
            "0: 'seed' is neither in 'space' nor in 'fixed'; give it under one of the two",
        ),
        (
            ["epochs > 1"],
            "0: no hyperparameter of 'space' in 'epochs > 1', so it decides nothing",
        ),
        (["tau2 > 0.1", "loss >= 3"], "1: expected a number, and loss is text"),
        (["width > 3"], "0: expected a number, and width is a number or null or text"),
        (["tau2 + rate"], "0: expected a comparison such as a >= b, and tau2 + rate is a number"),
        (
            ["tau2 and whiten"],
            "0: expected a comparison such as a >= b, and tau2 is a number",
        ),
        (["not loss or whiten"], "0: expected a comparison such as a >= b, and loss is text"),
        (["-whiten > 0"], "0: expected a number, and whiten is true or false"),
        (["loss == tau2"], "0: loss is text, tau2 is a number; they are never equal"),
        (["loss == 'listnett'"], "0: 'listnett' is not a value of loss; did you mean 'listnet'?"),
        (["width == 'auto' or width == null or whiten"], ""),
        (["pooler == 'cls' and whiten"], ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(texts: list[str], message: str) -> None:
    assert joined_problems(required(*texts).problems()) == message


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
