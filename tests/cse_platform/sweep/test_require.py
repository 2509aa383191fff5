"""`require`: what is read, what is refused with its way out, and which points satisfy it."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_platform.errors import SweepFileError
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.problems import joined_problems
from cse_platform.sweep.space.allowed_points import AllowedPoints
from cse_platform.sweep.space.require import LONGEST, Expression, Requirements
from cse_platform.sweep.space.space import Space

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(
    "text",
    [
        "", "a >=", "a >= b)", "a = b", "import os", "a; b",
        "__import__('os')", "a.real > 1", "a[0] > 1", "[a] == [b]", "{a}", "a if b else 1",
        "(lambda: 1)()", "a ** 9 > 1", "a // 2 > 1", "a % 2 == 0", "~a > 1", "a in b", "a is b",
        "f'{a}' == 'x'", "b'x' == a", "1j > a", "(a := 1) > 0", "a >= ...", "await a", "yield",
        "(" * 300 + "a" + ")" * 300, "a > 0 and " * LONGEST + "a > 0", "a > '\\d' \x00",
    ],
)  # fmt: skip
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"made of names, numbers|at most 500 characters"):
        Expression(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Expression(text)
    except ValueError:
        return


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


def test_equal_ends_of_ranges_are_found() -> None:
    """What holds at a corner alone is no empty space."""
    assert required("rate * size >= 0.64").some_point({}) == {"rate": 0.01, "size": 64}
    assert required("rate <= 1e-5").problems() == []


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_nearest_point_satisfies_and_keeps_what_is_given(seed: int) -> None:
    requirements = required("tau2 > tau3", "rate * size <= 0.001", "whiten or tau2 > 0.1")
    target = {"loss": "listnet", "tau2": 0.1, "tau3": 0.3, "rate": 9e-3, "size": 64}
    near = AllowedPoints(requirements, {"size": 64}, seed=seed).draw_near(target)
    assert requirements.broken_by(near) is None
    assert near["size"] == 64 and set(near) >= {"loss", "tau2", "rate", "whiten", "width"}
    assert ("tau3" in near) == (near["loss"] == "listnet")


def test_what_chance_does_not_meet_is_drawn_evenly() -> None:
    """In a corner that is 1/5000 of the square, the mean lies at a third of its side."""
    square = Space.model_validate({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})
    corner = Requirements(["x + y >= 1.98"], square, {})
    points = [AllowedPoints(corner, {}, seed=seed).draw_anywhere() for seed in range(60)]
    assert all(corner.broken_by(point) is None for point in points)
    assert sum(point["x"] for point in points) / 60 == pytest.approx(1 - 0.02 / 3, abs=0.0025)
    near = AllowedPoints(corner, {}, seed=0).draw_near({"x": 0.0, "y": 1.0})
    assert near == pytest.approx({"x": 0.98, "y": 1.0}, abs=1e-3)


@pytest.mark.parametrize("name", ["rate", "size", "loss"])
def test_a_share_of_the_way_is_a_value_that_is_sampled(name: str) -> None:
    dimension = SPACE[name]
    values = [dimension.at(share / 100) for share in range(100)]
    assert [dimension.find(value) for value in values] == values
    assert dimension.share(values[0]) == 0
    assert dimension.find(dimension.at(1.0)) == dimension.at(1.0)
    assert len(set(values)) == {"rate": 100, "size": 4, "loss": 2}[name]


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch_size >= 32", "batch_sice >= 32",
         "line 11, require.1: 'batch_sice' is neither in 'space' nor in 'fixed'; "
         "did you mean 'batch_size'?"),
        ("batch_size >= 32", "batch_size ** 2 > 3", "line 11, require.1: cannot read"),
        ("batch_size >= 32", "batch_size > 64",
         "line 11, require.1: holds nowhere in the space: every combination of batch_size"),
        ("batch_size >= 32", "3", "line 11, require.1: expected text, got 3"),
        ("{sampler: grid}", "{sampler: grid, start_from: [{batch_size: 16}]}",
         "line 12, search.start_from.0: breaks require 'batch_size >= 32', "
         'got {"batch_size": 16}'),
        ("{sampler: grid}", "{sampler: grid, start_from: [{learning_rate: 1e-3}]}",
         "line 12, search.start_from.0: breaks 'require', whatever values the other "
         'hyperparameters have, got {"learning_rate": 0.001}'),
    ],
)  # fmt: skip
def test_a_problem_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(SweepFileError) as caught:
        load_sweep(file)
    assert message in str(caught.value)
