from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweep_texts import load, problems

from cse_methods import registry
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.checks import get_method_on_base
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.references import StageReference, find_stage_references
from cse_platform.sweep.spec import SweepSpec

SAME = "method: toy, backbone: mini, corpus: builtin, search: {trials: 2}"
FIRST = (
    "{sweep: first, "
    f"{SAME}, fixed: {{temperature: 1}}, space: {{views: [2, 4], epochs: {{low: 1, high: 3}}}}}}"
)


def stages(*others: str) -> str:
    return "\n".join(["stages:", *(f"  - {stage}" for stage in (FIRST, *others))])


def later(fixed: str, *, name: str = "later", **keys: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return f"{{sweep: {name}, {SAME}, fixed: {fixed}{more}}}"


def test_a_stage_is_read_with_every_value_that_it_can_get(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    takes = "{temperature: 2, views: {best_of: first}, epochs: {best_of: first}}"
    file.write_text(stages(later(takes)))
    _, draft = read_draft(file).stages
    assert find_stage_references(draft.spec.fixed) == {
        "views": StageReference("first", "views"),
        "epochs": StageReference("first", "epochs"),
    }
    assert [(one.fixed["views"], one.fixed["epochs"]) for one in draft.possible] == [
        (2, 1),
        (4, 1),
        (2, 3),
    ]
    config = draft.spec.config({})  # with an example of each
    assert (config.views, config.epochs, config.temperature) == (2, 1, 2)
    second = later("{temperature: {best_of: first}, views: {best_of: first}}", name="second")
    file.write_text(
        stages(second, later("{temperature: {best_of: second, hyperparameter: views}}"))
    )
    _, two, three = read_draft(file).stages
    assert [one.fixed["views"] for one in two.possible] == [2, 4]
    assert [one.fixed["temperature"] for one in three.possible] == [2, 4]
    assert load_sweep(file).stages[2].config({}).temperature == 2


@pytest.mark.parametrize(
    ("reference", "place", "text"),
    [
        ("{best_of: frist}", ".best_of", "no stage 'frist' in this file; did you mean 'first'?"),
        ("{best_of: other}", ".best_of", "no stage 'other' in this file; earlier stages: first"),
        ("{best_of: later}", ".best_of", "'later' is this stage; name an earlier one"),
        ("{best_of: last}", ".best_of", "stage 'last' comes later; move it before this one"),
        ("{best_of: first, hyperparameter: vews}", ".hyperparameter",
         "stage 'first' neither searches nor fixes 'vews'; did you mean 'views'?"),
        ("{best_of: first, hyperparameter: dropout}", ".hyperparameter",
         "stage 'first' neither searches nor fixes 'dropout'; it has epochs, temperature, views; "
         "choose one with 'hyperparameter'"),
        ("{best_of: [first]}", "", "expected {best_of: STAGE} or {best_of: STAGE, hyperparameter: "
         'NAME}, got {"best_of": ["first"]}'),
        ("{best_of: big, hyperparameter: epochs}", "",
         "expected at most 8, got 9.0; it can get views=9.0 from stage 'big'"),
        ("{best_of: first, hyperparameter: temperature, example: 3}", "",
         "expected {best_of: STAGE} or {best_of: STAGE, hyperparameter: NAME}, got "
         '{"best_of": "first", "hyperparameter": "temperature", "example": 3}'),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_line(tmp_path: Path, reference: str, place: str, text: str) -> None:
    big = later("{temperature: 1}", name="big", space="{epochs: {low: 2, high: 9}}")
    takes = later(f"{{temperature: 1, views: {reference}}}")
    file = stages(
        *([big] if "big" in reference else []), takes, later("{temperature: 1}", name="last")
    )
    line, stage = (4, 2) if "big" in reference else (3, 1)
    assert problems(tmp_path, file) == [f"line {line}, stages.{stage}.fixed.views{place}: {text}"]


def test_a_stage_named_for_a_teacher_is_told_how_one_is_taken(tmp_path: Path) -> None:
    file = stages(later("{temperature: 1, teachers: [{best_of: first}]}"))
    [told] = [text for text in problems(tmp_path, file) if ".best_of: " in text]
    assert "no such key; write {best: {method: …, backbone: …}} for a model" in told


def test_what_some_values_break_is_told_once_with_the_value(tmp_path: Path) -> None:
    """`tau3` has no effect beside listmle, which the first stage may find the better loss."""
    losses = later("{temperature: 1}", name="losses", space="{rank_loss: [listnet, listmle]}")
    takes = later("{temperature: 1, rank_loss: {best_of: losses}}", space="{tau3: [0.1, 0.2]}",
                  trails="3")  # fmt: skip
    rule, plain = problems(tmp_path, stages(losses, takes))
    assert plain.startswith("line 4, stages.2.trails: no such key") and "from stage" not in plain
    assert rule.startswith("line 4, stages.2.space.tau3: tau3=0.1 ")
    assert rule.endswith("rank_loss='listmle' from stage 'losses'")


def test_values_that_are_never_together_are_refused(tmp_path: Path) -> None:
    apart = later("{temperature: 1}", name="apart", space=(
        "{rank_loss: [listnet, listmle], tau3: {choices: [0.1], when: {rank_loss: listnet}}, "
        "views: {choices: [2], when: {rank_loss: listmle}}}"
    ))  # fmt: skip
    takes = later("{temperature: 1, tau3: {best_of: apart}, views: {best_of: apart}}")
    assert problems(tmp_path, stages(apart, takes)) == [
        f"line 4, stages.2.fixed.{name}: no configuration of stage 'apart' has every value that "
        "is taken from it"
        for name in ("tau3", "views")
    ]
    (told,) = problems(tmp_path, later("{temperature: {best_of: first}}"))
    assert told.startswith("line 1, fixed.temperature.best_of: no earlier stage 'first'")


ON_BASE = """\
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
search: {trials: 2}
"""


def test_a_base_and_its_settings_are_searched(tmp_path: Path) -> None:
    spec = load(tmp_path, ON_BASE)
    method = spec.find_method()
    assert method.config.bases == ("mixcse", "consert")
    assert spec.space["base_mix_weight"].is_real  # though it is written as whole numbers
    for point in spec.examples:
        config = spec.config(point)
        assert config.bases == (point["base"],)
        assert config.hyperparameters().items() >= point.items()


def test_what_no_base_has_is_refused_at_its_line(tmp_path: Path) -> None:
    for old, new, problem in (
        ("  base_mix_weight:", "  base_mixweight:", "line 9, space.base_mixweight: method "
         "'rankcse' has no setting 'base_mixweight'; did you mean 'base_mix_weight'?"),
        ("high: 1,", "high: 2,", "line 9, space.base_mix_weight.high: expected at most 1, got 2"),
        ("consert]", "conserts]", "line 8, space.base.1: no method 'conserts'. Did you mean "
         "'consert'?"),
        ("consert]", "hicl]", "line 8, space.base.1: hicl is no base here: it stands on a "
         "base of its own"),
        (", when: {base: mixcse}", "", "line 9, space.base_mix_weight: no such key"),
        ("mini, batch", "mini, base_mix: 1, batch", "line 6, fixed.base_mix: method 'rankcse' has "
         "no setting 'base_mix'; did you mean 'base_mix_weight'?"),
    ):  # fmt: skip
        assert old in ON_BASE
        assert problem in "; ".join(problems(tmp_path, ON_BASE.replace(old, new)))


def identity(**values: Any) -> dict[str, Any]:
    fixed = {"teachers": ["mini"]} | values
    given = {"sweep": "a", "method": "rankcse", "backbone": "mini", "corpus": "builtin"}
    given |= {"data": "builtin", "search": {"trials": 1}}
    spec = SweepSpec.model_validate(given | {"fixed": fixed})
    of_sweep = Identity(spec, spec.find_method(), DevData(spec))
    return dict(of_sweep.of_config(spec.config({})).ingredients)


def test_a_trial_s_key_knows_its_base_alone(tmp_path, monkeypatch) -> None:
    alone, mixed, other = identity(), identity(base="mixcse"), identity(base="consert")
    assert "bases" not in alone and "base" not in alone["configuration"]
    assert (mixed["bases"], other["bases"]) == ({"mixcse": 1}, {"consert": 1})
    assert mixed["configuration"]["base_mix_weight"] == 0.2
    assert len({one["code"] for one in (alone, mixed, other)}) == 3
    searched = load(tmp_path, ON_BASE)
    of_sweep = Identity(searched, searched.find_method(), DevData(searched))
    config = searched.config({"base": "mixcse", "base_mix_weight": 0.2, "base_temperature": 0.05})
    assert of_sweep.of_config(config).ingredients == identity(base="mixcse", batch_size=8)
    raised = replace(get_method("mixcse"), revision=2)
    monkeypatch.setitem(registry._METHODS, "mixcse", raised)
    assert identity(base="mixcse") == mixed | {"bases": {"mixcse": 2}}


def test_a_method_is_described_on_a_base_that_it_can_stand_on() -> None:
    assert get_method_on_base("hicl", "diffcse").config.bases == ("diffcse",)
    own = get_method("hicl")  # which has the settings of ESimCSE
    assert get_method_on_base("hicl", "esimcse") == own
    with pytest.raises(SweepRefusedError, match="'simcse' takes no base"):
        get_method_on_base("simcse", "mixcse")
    with pytest.raises(SweepRefusedError, match="'hicl' on 'pcl': pcl is no base here"):
        get_method_on_base("hicl", "pcl")
