from dataclasses import replace
from typing import Any, get_args

import pytest

from cse_methods.contract import Method
from cse_platform.errors import SweepRefusedError
from cse_platform.search.samplers.build import AUTO_GP_TRIALS, choose_sampler
from cse_platform.sweep.blocks import Search
from cse_platform.sweep.identity import find_changes
from cse_platform.sweep.references import BestReference
from cse_platform.sweep.samplers import Auto, Gp, Sampler, Tpe
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec, best_references, with_best
from cse_platform.sweep.start_points import (
    leader_notes,
    published_notes,
    start_points,
    start_problems,
)

PLANE = Space.model_validate({"x": {"low": 0.0, "high": 1.0}, "kind": ["a", "b"]})
CONDITIONAL = Space.model_validate(
    {"kind": ["a", "b"], "x": {"choices": [1], "when": {"kind": "a"}}}
)


def search(**values: Any) -> Search:
    return Search.model_validate({"trials": 3, **values})


@pytest.mark.parametrize("options", get_args(get_args(Sampler)[0]))
def test_a_sampler_with_its_defaults_is_its_name(options: Any) -> None:
    """So that a stored sweep equals one whose file spells the defaults out."""
    kind = options().kind
    assert options().model_dump() == kind
    named, mapped = search(sampler=kind), search(sampler={"kind": kind})
    assert named == mapped and named.model_dump(mode="json")["sampler"] == kind
    assert Search.model_validate(named.model_dump(mode="json")) == named


def test_options_are_stored_and_part_of_the_identity() -> None:
    asked = search(sampler={"kind": "tpe", "startup_trials": 20})
    stored = asked.model_dump(mode="json")
    assert Search.model_validate(stored) == asked
    assert stored["sampler"]["startup_trials"] == 20
    plain = search().model_dump(mode="json")
    assert plain["sampler"] == "tpe"
    assert [path for path, *_ in find_changes({"search": plain}, {"search": stored})] == [
        "search.sampler"
    ]
    spelt = search(sampler={"kind": "tpe", "startup_trials": 10}).model_dump(mode="json")
    assert list(find_changes({"search": plain}, {"search": spelt})) == []


def test_auto_takes_what_suits() -> None:
    for space, trial, expected in (
        (PLANE, 0, Gp()),
        (PLANE, AUTO_GP_TRIALS - 1, Gp()),
        (PLANE, AUTO_GP_TRIALS, Tpe()),
        (CONDITIONAL, 0, Tpe()),
    ):
        assert choose_sampler(Auto(), space, trial=trial) == expected
        assert choose_sampler(Gp(), space, trial=trial) == Gp()


SPACE: dict[str, Any] = {
    "temperature": [0.05, 0.1],
    "rank_loss": ["listnet", "listmle"],
    "tau3": {"low": 0.1, "high": 0.3, "when": {"rank_loss": "listnet"}},
}
BEST = {"best": {"method": "toy", "backbone": "mini"}}


def sweep(*start_from: Any, space: Any = SPACE, fixed: Any = None, **others: Any) -> SweepSpec:
    given = {
        "sweep": "a", "method": "toy", "backbone": "mini", "corpus": "builtin", "space": space,
        "fixed": fixed or {}, "search": {"trials": 3, "start_from": start_from},
    }  # fmt: skip
    return SweepSpec.model_validate(given | others)


def test_published_points_hold_dimensions_only_and_else_the_default(toy: Method) -> None:
    spec = sweep("published", {"temperature": 0.1}, {"rank_loss": "listmle", "temperature": 0.1})
    assert start_problems(spec, toy) == []
    assert start_points(spec, toy) == [
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.2},
        {"temperature": 0.1, "rank_loss": "listmle"},
        {"temperature": 0.1},
    ]
    space = {"temperature": [0.05, 0.1], "views": [2, 4], "batch_size": [8, 16]}
    spec = sweep("published", space=space, fixed={"rank_loss": "listmle"})
    assert start_points(spec, toy) == [{"temperature": 0.1, "views": 2}]  # 64 is not in the space


def test_published_columns_of_another_variant_are_left_out(toy: Method) -> None:
    for space, fixed, temperature in (
        ({"temperature": [0.05, 0.1]}, {"rank_loss": "listmle"}, 0.1),
        ({"temperature": [0.05, 0.1]}, {}, 0.05),  # listnet is the method's default
        ({"temperature": [0.1, 0.2], "rank_loss": ["listmle"]}, {}, 0.1),
    ):
        spec = sweep("published", space=space, fixed=fixed)
        assert start_problems(spec, toy) == []
        assert [point["temperature"] for point in start_points(spec, toy)] == [temperature]


def test_a_published_value_outside_its_dimension_is_converted_or_left_out(toy: Method) -> None:
    fixed = {"batch_size": 128}
    spec = sweep("published", space=SPACE | {"temperature": [0.1, 0.2]}, fixed=fixed)
    assert start_problems(spec, toy) == []
    assert start_points(spec, toy)[0] == {"temperature": 0.1, "rank_loss": "listnet", "tau3": 0.2}
    assert published_notes(spec, toy) == [
        "published (table 1): temperature=0.05 is not in space.temperature, which is [0.1, 0.2]; "
        "0.1 is tried instead"
    ]
    assert published_notes(sweep("published", fixed=fixed), toy) == []
    assert published_notes(sweep(), toy) == []
    fixed = {"tau3": 0.1, "rank_loss": "listmle"}
    spec = sweep("leaderboard", space={"temperature": [0.1, 0.2]}, fixed=fixed)
    assert start_points(spec, toy, LEADERS) == []
    assert "is left out: {" in leader_notes(spec, LEADERS)[-1]
    spec = sweep("leaderboard")
    assert start_points(spec, toy) == []
    assert start_points(spec, toy, LEADERS) == [{"temperature": 0.05, "tau3": 0.2}]
    first, near, far = leader_notes(spec, LEADERS)
    assert first == "start_from: number 1"
    assert near.startswith("number 1: temperature=0.07 ") and "; 0.05 is " in near
    assert far.startswith("number 1: rank_loss='listfold' ") and "; the sampler " in far
    assert leader_notes(spec, None) == []
    [none] = leader_notes(spec, {})
    assert none.startswith("start_from: ") and none.endswith(" of toy")


def test_a_published_point_that_is_less_than_a_whole_setup_is_told(toy: Method) -> None:
    """By the column's note, and by settings that the sweep fixes otherwise or leaves out."""
    (column,) = [c for c in toy.published if c.variant == {"rank_loss": "listmle"}]
    whole = replace(column, settings={**column.settings, "epochs": 4, "max_grad_norm": None})
    noted = replace(whole, note="Half of it.")
    fixed = {"epochs": 2, "rank_loss": "listmle"}
    spec = sweep("published", space={"temperature": [0.1, 0.2]}, fixed=fixed)
    other = "published (table 1): the sweep has epochs=2.0, not 4, max_grad_norm=1.0, not null"
    assert published_notes(spec, replace(toy, published=(whole,))) == [other]
    assert published_notes(spec, replace(toy, published=(noted,))) == [
        "published (table 1): Half of it.", other
    ]  # fmt: skip


LEADERS = {"number 1": {"temperature": 0.07, "rank_loss": "listfold", "tau3": 0.2, "views": 2}}


NEAREST: list[tuple[Any, Any, Any]] = [
    ([1e-5, 3e-5, 1e-4], 2e-5, 3e-5),  # by their ratio
    ([-1, 0, 5], 2, 0),
    ([None, 0.1, 0.2], 0.17, 0.2),
    (["x", "y"], "x", "x"),
    ({"low": 0.1, "high": 0.4, "step": 0.1}, 0.26, 0.3),
    ({"low": 8, "high": 64}, 20.6, 21),
    ({"low": 8, "high": 64, "step": 8}, 21, 24),
    ({"low": 1e-5, "high": 1e-3, "log": True}, 2, 1e-3),
]
NO_NEAREST: list[tuple[Any, Any]] = [
    *((["x", "y"], 3), ([True, False], 1), ([1, 2], "x"), ({"low": 1, "high": 3}, True))
]


def test_the_nearest_value_of_a_dimension() -> None:
    for dimension, value, nearest in NEAREST:
        found = Space.model_validate({"a": dimension})["a"].nearest(value)
        assert (found, type(found)) == (nearest, type(nearest))
    for dimension, value in NO_NEAREST:
        with pytest.raises(LookupError):
            Space.model_validate({"a": dimension})["a"].nearest(value)


def test_a_point_that_the_method_refuses_has_no_configuration() -> None:
    spec = sweep(space={"temperature": [0.1]}, fixed={"tau3": 0.1, "rank_loss": "listmle"})
    with pytest.raises(SweepRefusedError, match=r"sweep 'a' cannot try .*tau3: tau3=0.1 has no"):
        spec.config({"temperature": 0.1})


def test_references_are_found_and_replaced_everywhere() -> None:
    space = SPACE | {"teachers": [["x"], [BEST]]}
    spec = sweep({"teachers": [BEST]}, space=space, fixed={"views": 2})
    reference = BestReference("toy", "mini")
    assert best_references(spec) == [reference]
    found = with_best(spec, {reference: "runs/best"})
    assert best_references(found) == []
    assert found.space["teachers"].choices == (["x"], ["runs/best"])  # type: ignore[union-attr]
    assert found.search.start_from == ({"teachers": ["runs/best"]},)
    assert with_best(spec, {}) == spec


def test_representatives_have_every_corner_once(toy: Method) -> None:
    # listnet, listmle; then beside each the other temperature, and tau3's other bound.
    assert sweep().examples == [
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.1},
        {"temperature": 0.05, "rank_loss": "listmle"},
        {"temperature": 0.1, "rank_loss": "listnet", "tau3": 0.1},
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.3},
        {"temperature": 0.1, "rank_loss": "listmle"},
    ]
