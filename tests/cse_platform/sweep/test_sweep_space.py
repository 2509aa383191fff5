import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.registry import get_method
from cse_platform.sweep.conditions import parse_conditions
from cse_platform.sweep.space.dimensions import Choices, Range
from cse_platform.sweep.space.space import Space, find_value
from cse_platform.values import canonical_json

CONDITIONAL = {
    "tau3": {"choices": [0.1, 0.2, 0.3], "when": {"rank_loss": "listnet"}},
    "rank_loss": {"choices": ["listnet", "listmle"], "when": {"ranked": [True]}},
    "ranked": [True, False],
    "beta": [0, 1],
}


def space(**dimensions: Any) -> Space:
    return Space.model_validate(dimensions)


@given(value=st.one_of(st.floats(), st.integers(), st.booleans(), st.text(), st.none()))
def test_a_comparison_allows_numbers_on_its_side(value: Any) -> None:
    signs = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
    number = type(value) in (int, float) and math.isfinite(value)
    for sign, holds in signs.items():
        (condition,) = parse_conditions(f"n {sign} 0.5")
        assert condition.allows(value) is (number and holds(value, 0.5))


def test_a_mapping_and_a_text_are_one_condition_and_its_json_means_the_same() -> None:
    for mapping, text, allowed, others in (
        ({"a": [0.25, "none", "<m>"]}, 'a in [0.25, none, "<m>"]', [0.25, "<m>"], ["m", 1]),
        ({"a": [" >0.50", "<= 1e1"]}, "a > 0.5 and a <= 10", [0.6, 10], [0.5, 11, "none"]),
        ({"a": [["x", "y"]]}, 'a = ["x", "y"]', [["x", "y"]], ["x"]),
        ({"a": [0.2]}, "a in [0.1, 0.2] and a > 0.1", [0.2], [0.1, 0.3]),
    ):
        one, same = (
            Choices.model_validate({"choices": [1], "when": when}) for when in (mapping, text)
        )
        assert one == same == Choices.model_validate(one.model_dump(mode="json"))
        assert [all(c.allows(value) for c in one.when) for value in (*allowed, *others)] == [
            *(True for _ in allowed), *(False for _ in others)
        ]  # fmt: skip


COMPARED = {
    "rate": {"choices": [0.1, 0.2], "when": {"weight": "> 0.5"}},
    "deep": {"choices": [1, 2], "when": {"rate": "<= 0.1"}},
    "weight": {"low": 0.0, "high": 1.0, "step": 0.5},
}


def test_a_range_can_be_compared() -> None:
    found = space(**COMPARED)
    assert found.order == ("weight", "rate", "deep")
    grid = [{}, {}, {"rate": 0.1, "deep": 1}, {"rate": 0.1, "deep": 2}, {"rate": 0.2}]
    weights = [0.0, 0.5, 1.0, 1.0, 1.0]
    expected = [{"weight": w, **rest} for w, rest in zip(weights, grid, strict=True)]
    assert list(found.grid_points()) == expected
    assert found.is_excluded("rate", {"weight": 0.5}) and found.is_excluded("deep", {"weight": 0.5})
    assert not found.is_excluded("rate", {"weight": 1.0})
    assert Space.model_validate(found.model_dump(mode="json")) == found
    assert Range(low=1, high=3).is_whole and Range(low=1, high=3, step=2).is_whole
    assert not Range(low=1, high=3, step=0.5).is_whole and not Range(low=1.0, high=3).is_whole


def test_a_range_has_a_value_for_each_outcome_of_its_comparisons() -> None:
    whens = [{"w": ">= 0.2"}, {"w": "< 0.8"}]
    many = {f"d{n}": {"choices": [1], "when": when} for n, when in enumerate(whens)}
    found = space(w={"low": 0.0, "high": 1.0}, **many)
    outcomes = {
        tuple(found.is_active(name, {"w": value}) for name in many)
        for value in (*found["w"].ends, *found.turning_values("w"))
    }
    assert outcomes == {(False, True), (True, True), (True, False)}
    assert found.turning_values("w") == pytest.approx([0.1, 0.2, 0.5, 0.8, 0.9])
    assert space(w={"low": 0.0, "high": 1.0}).turning_values("w") == []


def test_a_dimension_is_inactive_with_its_parent() -> None:
    conditional = space(**CONDITIONAL)
    full = {"tau3": 0.1, "rank_loss": "listnet", "ranked": True, "beta": 0}
    assert conditional.select_active(full) == full
    without = conditional.select_active(full | {"rank_loss": "listmle"})
    assert without.keys() == {"ranked", "rank_loss", "beta"}
    assert conditional.select_active(full | {"ranked": False}) == {"ranked": False, "beta": 0}
    both = space(a=[1, 2], b=[1, 2, 3], c={"choices": [0], "when": {"a": 1, "b": [1, 2]}})
    active = {(a, b) for a in (1, 2) for b in (1, 2, 3) if both.is_active("c", {"a": a, "b": b})}
    assert active == {(1, 1), (1, 2)}


def test_grid_by_hand() -> None:
    # ranked: (listnet x 3 tau3 + listmle) x 2 beta = 8; not ranked: 2 beta.
    points = list(space(**CONDITIONAL).grid_points())
    assert len(points) == 10
    assert len({canonical_json(point) for point in points}) == 10
    assert points == list(space(**CONDITIONAL).grid_points())
    assert list(space().grid_points()) == [{}]
    ranges = space(a={"low": 1, "high": 2}, b={"low": 0.1, "high": 0.3, "step": 0.1})
    grid = [{"a": a, "b": b} for a in (1, 2) for b in (0.1, 0.2, 0.3)]
    assert list(ranges.grid_points()) == grid


@given(st.integers(-20, 20), st.integers(1, 9), st.integers(1, 30), st.booleans())
def test_every_grid_value_is_found_in_its_range(low, step, count, tenths) -> None:
    unit = 10 if tenths else 1
    numbers = {"low": low, "high": low + step * count, "step": step}
    found = Range.model_validate({k: v / unit if tenths else v for k, v in numbers.items()})
    values = list(found.grid_values())
    assert len(values) == count + 1
    assert [found.find(value) for value in values] == values
    assert (values[0], values[-1]) == (found.low, found.high)


TEACHERS = [["a"], "b", ["a", "b"], [{"model": "c", "pooler": "avg"}]]


@pytest.mark.parametrize("choice", TEACHERS)
def test_a_choice_is_found_by_what_a_configuration_holds_of_it(choice: Any) -> None:
    space = Space.model_validate({"teachers": TEACHERS})
    config = get_method("rankcse").config.model_validate(
        {"backbone": "mini", "corpus": "builtin", "teachers": choice}
    )
    held = config.hyperparameters()["teachers"]
    assert held != choice or isinstance(choice[0], dict)
    assert find_value(space, "rankcse", "teachers", held) == choice


def test_a_value_that_no_choice_becomes_is_not_found() -> None:
    space = Space.model_validate({"teachers": [["a"]], "beta": [1, 2]})
    for method, name, value in (
        ("rankcse", "teachers", [{"model": "b"}]),
        ("rankcse", "beta", 3),
        ("of another package", "teachers", [{"model": "a"}]),
    ):
        with pytest.raises(LookupError):
            find_value(space, method, name, value)


def test_true_is_not_one() -> None:
    assert len(Choices(choices=(1, "1", "true")).choices) == 3
    found = space(a=[1, 2], b={"choices": [1], "when": {"a": True}})
    assert found.why_unreachable("b") == "it is active only where a = true, and a is [1, 2]"
