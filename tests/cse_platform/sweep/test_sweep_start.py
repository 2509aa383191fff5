"""Start points, references to a best encoder, and the configuration of a trial."""

from typing import Any

import pytest

from cse_methods.contract import Method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.best import BestReference
from cse_platform.sweep.check import representatives
from cse_platform.sweep.space.start_points import start_points, start_problems
from cse_platform.sweep.spec import SweepSpec, best_references, with_best

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


def test_published_points_hold_dimensions_only(toy: Method) -> None:
    spec = sweep("published", {"temperature": 0.1}, {"rank_loss": "listmle", "temperature": 0.1})
    assert start_problems(spec, toy) == []
    assert start_points(spec, toy) == [
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.2},
        {"temperature": 0.1, "rank_loss": "listmle"},
        {"temperature": 0.1},
    ]


def test_what_a_paper_leaves_open_starts_at_the_method_s_default(toy: Method) -> None:
    space = {"temperature": [0.05, 0.1], "views": [2, 4], "batch_size": [8, 16]}
    spec = sweep("published", space=space, fixed={"rank_loss": "listmle"})
    assert start_points(spec, toy) == [{"temperature": 0.1, "views": 2}]  # 64 is not in the space


@pytest.mark.parametrize(
    ("space", "fixed", "temperatures"),
    [
        ({"temperature": [0.05, 0.1]}, {"rank_loss": "listmle"}, [0.1]),
        ({"temperature": [0.05, 0.1]}, {}, [0.05]),  # listnet is the method's default
        ({"temperature": [0.1, 0.2], "rank_loss": ["listmle"]}, {}, [0.1]),
    ],
)
def test_published_columns_of_another_variant_are_left_out(
    toy: Method, space: Any, fixed: Any, temperatures: list[float]
) -> None:
    spec = sweep("published", space=space, fixed=fixed)
    assert start_problems(spec, toy) == []
    assert [point["temperature"] for point in start_points(spec, toy)] == temperatures


def told(spec: SweepSpec, method: Method) -> list[tuple[Any, str]]:
    return [(problem.path[2:], problem.text) for problem in start_problems(spec, method)]


def test_a_published_value_outside_its_dimension(toy: Method) -> None:
    spec = sweep("published", space=SPACE | {"temperature": [0.1, 0.2]})
    assert told(spec, toy) == [
        ((0,), "the published temperature=0.05 (table 1) is not in space.temperature, which is "
         "[0.1, 0.2]; add it there, or leave 'published' out")
    ]  # fmt: skip


def test_nothing_published_for_the_backbone(toy: Method) -> None:
    (problem,) = told(sweep("published", backbone="roberta-base"), toy)
    assert problem[1] == (
        "no published settings of 'toy' for backbone 'roberta-base'; there are some for mini, "
        "bert-base; leave 'published' out or give values"
    )


@pytest.mark.parametrize(
    ("point", "path", "text"),
    [
        ({"temprature": 1}, (0, "temprature"),
         "no such dimension in space; did you mean 'temperature'?"),
        ({"views": 2}, (0, "views"), "no such dimension in space; it is fixed"),
        ({"temperature": 0.3}, (0, "temperature"),
         "0.3 is not in space.temperature, which is [0.05, 0.1]"),
        ({"tau3": 0.31}, (0, "tau3"), "0.31 is not in space.tau3, which is 0.1 to 0.3"),
        ({"tau3": 0.2, "rank_loss": "listmle"}, (0, "tau3"),
         "inactive beside the point's other values, got 0.2"),
    ],
)  # fmt: skip
def test_a_given_point_must_lie_in_the_space(toy: Method, point: Any, path: Any, text: str) -> None:
    assert told(sweep(point, fixed={"views": 2}), toy) == [(path, text)]


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


def test_a_configuration_is_fixed_and_active_settings(toy: Method) -> None:
    spec = sweep(fixed={"views": 3, "teachers": ["x", BEST]})
    config = spec.config({"temperature": 0.1, "rank_loss": "listmle", "tau3": 0.1})
    dump = config.model_dump()
    assert (dump["views"], dump["temperature"], dump["tau3"]) == (3, 0.1, None)
    assert [teacher["model"] for teacher in dump["teachers"]] == ["x", "best:toy/mini"]


def test_a_configuration_that_the_method_refuses_is_told(toy: Method) -> None:
    spec = sweep(space={"temperature": [0.1]}, fixed={"tau3": 0.1, "rank_loss": "listmle"})
    with pytest.raises(SweepRefusedError, match=r"sweep 'a' cannot try .*tau3: tau3=0.1 has no"):
        spec.config({"temperature": 0.1})


def test_representatives_have_every_corner_once(toy: Method) -> None:
    # listnet, listmle; then beside each the other temperature, and tau3's other bound.
    assert list(representatives(sweep(), toy)) == [
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.1},
        {"temperature": 0.05, "rank_loss": "listmle"},
        {"temperature": 0.1, "rank_loss": "listnet", "tau3": 0.1},
        {"temperature": 0.05, "rank_loss": "listnet", "tau3": 0.3},
        {"temperature": 0.1, "rank_loss": "listmle"},
    ]


def test_representatives_satisfy_what_is_required(toy: Method) -> None:
    """The first values of all are excluded together here; each value is tried beside others."""
    spec = sweep(require=["temperature > 0.05 or rank_loss == 'listmle'", "tau3 <= 0.2"])
    tried = list(representatives(spec, toy))
    assert all(spec.requirements.broken_by(point) is None for point in tried)
    assert {point["temperature"] for point in tried} == {0.05, 0.1}
    assert {point["rank_loss"] for point in tried} == {"listnet", "listmle"}
    assert {point.get("tau3") for point in tried} == {None, 0.1}  # 0.3 is in no trial


def test_a_published_point_that_breaks_a_requirement_is_refused(toy: Method) -> None:
    spec = sweep("published", space={"temperature": [0.05, 0.1]}, require=["temperature > 0.05"])
    (problem,) = start_problems(spec, toy)
    assert problem.path == ("search", "start_from", 0)
    assert "breaks require 'temperature > 0.05'; leave 'published' out" in problem.text
