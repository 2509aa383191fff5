"""Sweeps of a method on a base: the base's settings are searched, checked and keyed as its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cse_methods import registry
from cse_methods.registry import get_method
from cse_platform.errors import SweepFileError, SweepRefusedError
from cse_platform.sweep.checks import get_method_on_base, list_representatives
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.spec import SweepSpec

GOOD = """\
sweep: a
method: rankcse
backbone: mini
corpus: builtin
data: builtin
fixed: {teachers: mini, batch_size: 8}
space:
  base: [mixcse, consert]
  base_mix_weight: {low: 0, high: 1, when: {base: mixcse}}
  base_temperature: {low: 0.05, high: 0.2, log: true}
require: [base_temperature < 0.15]
search: {trials: 2}
"""


def load(folder: Path, text: str) -> SweepSpec:
    file = folder / "a.yaml"
    file.write_text(text)
    (spec,) = load_sweep(file).stages
    return spec


def test_a_base_and_its_settings_are_searched(tmp_path: Path) -> None:
    spec = load(tmp_path, GOOD)
    method = spec.find_method()
    assert method.config.bases == ("mixcse", "consert")
    assert spec.space["base_mix_weight"].is_real  # though it is written as whole numbers
    for point in list_representatives(spec, method):
        config = spec.config(point)
        assert config.bases == (point["base"],)
        assert config.hyperparameters().items() >= point.items()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  base_mix_weight:", "  base_mixweight:", "line 9, space.base_mixweight: method "
         "'rankcse' has no setting 'base_mixweight'; did you mean 'base_mix_weight'?"),
        ("high: 1,", "high: 2,", "line 9, space.base_mix_weight.high: expected at most 1, got 2"),
        ("consert]", "conserts]", "line 8, space.base.1: no method 'conserts'. Did you mean "
         "'consert'?"),
        ("consert]", "hicl]", "line 8, space.base.1: hicl is no base here: its objective does not "
         "hand over two views of each sentence"),
        (", when: {base: mixcse}", "", "line 9, space.base_mix_weight: no such key"),
        ("mini, batch", "mini, base_mix: 1, batch", "line 6, fixed.base_mix: method 'rankcse' has "
         "no setting 'base_mix'; did you mean 'base_mix_weight'?"),
    ],
)  # fmt: skip
def test_what_no_base_has_is_refused_at_its_line(
    old: str, new: str, problem: str, tmp_path: Path
) -> None:
    assert old in GOOD
    with pytest.raises(SweepFileError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert problem in str(caught.value)


def identity(**values: Any) -> dict[str, Any]:
    fixed = {"teachers": ["mini"]} | values
    given = {"sweep": "a", "method": "rankcse", "backbone": "mini", "corpus": "builtin"}
    given |= {"data": "builtin", "search": {"trials": 1}}
    spec = SweepSpec.model_validate(given | {"fixed": fixed})
    of_sweep = Identity(spec, spec.find_method(), DevData(spec))
    return dict(of_sweep.of(spec.config({})).ingredients)


def test_a_trial_s_key_knows_its_base_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, mixed, other = identity(), identity(base="mixcse"), identity(base="consert")
    assert "bases" not in alone and "base" not in alone["configuration"]
    assert (mixed["bases"], other["bases"]) == ({"mixcse": 1}, {"consert": 1})
    assert mixed["configuration"]["base_mix_weight"] == 0.2
    assert len({one["code"] for one in (alone, mixed, other)}) == 3
    searched = load(tmp_path, GOOD)
    of_sweep = Identity(searched, searched.find_method(), DevData(searched))
    config = searched.config({"base": "mixcse", "base_mix_weight": 0.2, "base_temperature": 0.05})
    assert of_sweep.of(config).ingredients == identity(base="mixcse", batch_size=8)
    raised = replace(get_method("mixcse"), revision=2)
    monkeypatch.setitem(registry._METHODS, "mixcse", raised)
    assert identity(base="mixcse") == mixed | {"bases": {"mixcse": 2}}


def test_a_method_is_described_on_a_base_that_it_can_stand_on() -> None:
    assert get_method_on_base("hicl", "diffcse").config.bases == ("diffcse",)
    own = get_method("hicl")  # which has the settings of ESimCSE
    assert get_method_on_base("hicl", "esimcse") == own
    with pytest.raises(SweepRefusedError, match="'simcse' stands on no other method"):
        get_method_on_base("simcse", "mixcse")
    with pytest.raises(SweepRefusedError, match="'hicl' on 'pcl': pcl is no base here"):
        get_method_on_base("hicl", "pcl")
