"""How a sweep file names a sampler, and which one `auto` is."""

from typing import Any, get_args

import pytest

from cse_platform.sweep.blocks import Search
from cse_platform.sweep.identity import find_changes
from cse_platform.sweep.samplers import AUTO_GP_TRIALS, Auto, Gp, Sampler, Tpe, choose_sampler
from cse_platform.sweep.space.space import Space

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


@pytest.mark.parametrize(
    ("space", "trial", "objectives", "expected"),
    [
        (PLANE, 0, 1, Gp()),
        (PLANE, AUTO_GP_TRIALS - 1, 1, Gp()),
        (PLANE, AUTO_GP_TRIALS, 1, Tpe()),
        (CONDITIONAL, 0, 1, Tpe()),
        (PLANE, 0, 2, Tpe()),
    ],
)
def test_auto_takes_what_suits(space: Space, trial: int, objectives: int, expected: Any) -> None:
    assert choose_sampler(Auto(), space, trial=trial, objectives=objectives) == expected
    assert choose_sampler(Gp(), space, trial=trial, objectives=objectives) == Gp()
