"""What may change between two starts of one sweep, and what is refused, word for word."""

from typing import Any

import pytest

from cse_methods.contract import Method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.identity import has_nothing_to_add, refuse_changes
from cse_platform.sweep.spec import SweepSpec

START: dict[str, Any] = {
    "sweep": "a", "method": "toy", "backbone": "mini", "corpus": "builtin",
    "fixed": {"views": 2},
    "space": {"temperature": [0.05, 0.1], "tau3": {"low": 0.1, "high": 0.3}},
    "search": {"trials": 3, "seed": 1},
}  # fmt: skip


@pytest.fixture
def stored(toy: Method) -> dict[str, Any]:
    """The sweep as the journal keeps it."""
    return SweepSpec.model_validate(START).model_dump(mode="json", exclude={"stores"})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"search": {"trials": 9, "seed": 1, "start_from": [{"temperature": 0.1}]}},
        {"seeds": {"confirm": {"top": 2, "seeds": [0]}}},
        {"resources": {"cpu": 2}},
        {"stores": {"leaderboard": "sqlite:///elsewhere.db"}},
        {"evaluate": {"top": 1, "tasks": ["sts"]}},
        {"pruner": {"kind": "median"}},
        {"storage": "/elsewhere"},
        {"experiment": "other"},
        {"corpus": {"name": "builtin"}},
        {"space": dict(reversed(START["space"].items()))},
    ],
)
def test_what_extends_a_sweep_may_change(stored: dict[str, Any], changes: dict[str, Any]) -> None:
    refuse_changes(stored, SweepSpec.model_validate(START | changes).model_dump(mode="json"))


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"method": "simcse"}, "method = 'toy', and now it is 'simcse'"),
        ({"corpus": {"name": "builtin", "drop_empty": True}},
         "corpus.0.drop_empty = false, and now it is true"),
        ({"dev": {"search": "sickr"}}, "dev.search = 'stsb', and now it is 'sickr'"),
        ({"fixed": {"views": 3}}, "fixed.views = 2, and now it is 3"),
        ({"space": START["space"] | {"temperature": [0.05]}},
         "space.temperature.choices = [0.05, 0.1], and now it is [0.05]"),
        ({"space": START["space"] | {"tau3": {"low": 0.1, "high": 0.4}}},
         "space.tau3.high = 0.3, and now it is 0.4"),
        ({"space": START["space"] | {"epochs": [1]}},
         'space.epochs = null, and now it is {"when": {}, "choices": [1]}'),
        ({"require": ["temperature > 0.05"]},
         'require = null, and now it is ["temperature > 0.05"]'),
        ({"search": {"trials": 3, "seed": 2}}, "search.seed = 1, and now it is 2"),
        ({"search": {"trials": 3, "seed": 1, "sampler": "random"}},
         "search.sampler = 'tpe', and now it is 'random'"),
        ({"seeds": {"search": 7}}, "seeds.search = 42, and now it is 7"),
    ],
)  # fmt: skip
def test_what_makes_another_sweep_is_refused(
    stored: dict[str, Any], changes: dict[str, Any], difference: str
) -> None:
    with pytest.raises(SweepRefusedError, match="NEWNAME") as caught:
        refuse_changes(stored, SweepSpec.model_validate(START | changes).model_dump(mode="json"))
    assert str(caught.value) == (
        f"sweep 'a' was started with {difference}; run it as another sweep: --set sweep=NEWNAME"
    )


def test_a_data_file_may_move(stored: dict[str, Any]) -> None:
    kept = {"name": "my.txt", "drop_empty": False, "split_at": None}  # by earlier versions
    before = stored | {"corpus": [kept]}
    moved = SweepSpec.model_validate(START | {"corpus": "/lab/my.txt"}).model_dump(mode="json")
    refuse_changes(before, moved)
    other = SweepSpec.model_validate(START | {"corpus": "/lab/other.txt"}).model_dump(mode="json")
    with pytest.raises(SweepRefusedError, match=r"corpus\.0\.name = 'my\.txt'.+other\.txt"):
        refuse_changes(before, other)


def test_a_new_sweep_has_nothing_to_change(toy: Method) -> None:
    spec = SweepSpec.model_validate(START)
    refuse_changes(None, spec.model_dump(mode="json"))
    assert not has_nothing_to_add(None, spec.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("changes", "nothing_more"),
    [
        ({}, True),
        ({"resources": {"cpu": 2}}, True),
        ({"search": {"trials": 4, "seed": 1}}, False),
        ({"seeds": {"confirm": {"top": 1, "seeds": [0]}}}, False),
        ({"evaluate": {"top": 1, "tasks": ["sts"]}}, False),
    ],
)
def test_a_complete_sweep_is_extended_by_trials_seeds_and_test_sets(
    stored: dict[str, Any], changes: dict[str, Any], nothing_more: bool
) -> None:
    asked = SweepSpec.model_validate(START | changes).model_dump(mode="json")
    assert has_nothing_to_add(stored, asked) is nothing_more
