import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from failing import failing
from pydantic import ValidationError
from some_sentences import FOUR as SENTENCES
from started_papers import configured, start_paper
from torch import Tensor
from torch.testing import assert_close

from cse_methods.code_hash import code_hashes
from cse_methods.config import MethodConfig, TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.describe import describe_method
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_net import list_net
from cse_methods.losses.ranking_consistency import ranking_consistency
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.losses.spread_out import spread_out
from cse_methods.papers.hicl import HiCLConfig
from cse_methods.registry import available_methods, get_method
from cse_methods.training.base_method import ObjectiveOnBase
from cse_methods.training.modifiers import modify_loss, take_prefix
from cse_methods.training.student import Batch, Student
from cse_methods.training.teachers import weigh_similarities

CORPUS = Corpus("few", SENTENCES, "few")
BATCH = Batch(SENTENCES, np.arange(4))
BASES: dict[str, dict[str, Any]] = {
    "simcse": {},
    "esimcse": {"queue_size": 6},
    "sncse": {"negations": "NEGATIONS"},
    "mixcse": {},
    "focalinfonce": {},
    "macl": {},
    "arccse": {"triplet_min_length": 4},
    "diffcse": {"generator": "GENERATOR"},
    "promptbert": {},
    "pcl": {"augmentations": ["rp", "sf"]},
    "consert": {},
    "dclr": {"complementary_model": "TINY"},
    "distillcse": {"teachers": "TINY"},
    "cotbert": {},
}


def some_bases(*quick: str) -> list[Any]:
    """All bases, of which those named are tried in every run."""
    return [pytest.param(b, marks=[] if b in quick else pytest.mark.slow) for b in BASES]


@pytest.fixture
def places(tmp_path, tiny_bert, masked_lm, monkeypatch) -> dict[str, str]:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    negations = tmp_path / "negations.tsv"
    negations.write_text("".join(f"{s}\tNot {s}\n" for s in SENTENCES), "utf-8")
    generator = masked_lm(tiny_bert)
    return {"TINY": str(tiny_bert), "NEGATIONS": str(negations), "GENERATOR": str(generator)}


def on_base(method: str, base: str, places: Mapping[str, str], **settings: Any) -> MethodConfig:
    own = {f"base_{name}": places.get(str(value), value) for name, value in BASES[base].items()}
    return configured(method, backbone=places["TINY"], base=base, **own, **settings)


def alone(base: str, places: Mapping[str, str], **settings: Any) -> MethodConfig:
    own = {name: places.get(str(value), value) for name, value in BASES[base].items()}
    return configured(base, backbone=places["TINY"], **own, **settings)


def two_steps(method: str, config: MethodConfig) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The loss parts of two steps, and the gradients of student and base by name."""
    torch.manual_seed(0)
    student = Student.from_config(config).train()  # type: ignore[arg-type]  # all of these train
    build = get_method(method).build
    assert build is not None
    objective = modify_loss(build(config, CORPUS, student), config, width=32)  # type: ignore[arg-type]  # it trains
    base = objective.base if isinstance(objective, ObjectiveOnBase) else objective
    parts = [objective(student, BATCH) for _ in range(2)]
    torch.stack([part for step in parts for part in step.values()]).sum().backward()
    trained = [*student.named_parameters(), *base.named_parameters()]
    gradients = {name: p.grad for name, p in trained if p.grad is not None}
    return parts[0] | {f"{name} again": part for name, part in parts[1].items()}, gradients


@pytest.mark.parametrize("base", some_bases("diffcse", "pcl"))
def test_with_ranking_weight_0_loss_and_gradients_are_the_base_s(base, places) -> None:
    config = on_base("rankcse", base, places, teachers=[places["TINY"]], beta=0, gamma=0)
    expected, gradients = two_steps(base, alone(base, places))
    found, of_both = two_steps("rankcse", config)
    own = {"consistency", "rank", "consistency again", "rank again"}
    assert found.keys() == expected.keys() | own
    assert all(torch.equal(found[name], part) for name, part in expected.items())
    assert all(found[name] == 0 for name in own)
    assert len(gradients) > 30
    assert of_both.keys() == gradients.keys()
    assert all(torch.equal(of_both[name], own) for name, own in gradients.items())


def test_rankcse_ranks_the_views_of_its_base(places: dict[str, str]) -> None:
    """Over MixCSE, whose views are SimCSE's, it is that of RankCSE by itself."""
    settings = {"backbone": places["TINY"], "teachers": [places["TINY"]], "tau2": 0.1}
    expected, _ = two_steps("rankcse", configured("rankcse", **settings))
    mixed, _ = two_steps("mixcse", alone("mixcse", places, temperature=0.2))
    settings |= {"base_temperature": 0.2, "contrastive_weight": 0.5}
    found, _ = two_steps("rankcse", configured("rankcse", base="mixcse", **settings))
    assert torch.equal(found.pop("contrastive"), 0.5 * mixed["contrastive"])
    assert expected.pop("contrastive") > 0
    del found["contrastive again"], expected["contrastive again"]
    assert found.keys() == expected.keys()
    assert all(torch.equal(part, expected[name]) for name, part in found.items())


def test_rankcse_ranks_both_views_like_its_teacher(places: dict[str, str]) -> None:
    """Each part has its own temperature and weight."""
    taus = {"tau1": 0.2, "tau2": 0.1, "tau3": 0.5}
    settings = {"backbone": places["TINY"], "teachers": [places["TINY"]], "beta": 2, "gamma": 3}
    config: Any = configured("rankcse", **settings, **taus)
    student = Student.from_config(config).train()
    build = get_method("rankcse").build
    assert build is not None
    objective: Any = build(config, CORPUS, student)
    drawn = torch.get_rng_state()
    parts = objective(student, BATCH)
    torch.set_rng_state(drawn)
    cosines = cosine_matrix(*objective.base.encode(student, objective.base.views(student, BATCH)))
    teacher = weigh_similarities(objective.teachers, objective.weights, BATCH.rows)
    plain = {"exclude_positive": True, "reduction": config.reduction}
    rank = list_net(cosines, teacher, student_temperature=0.1, teacher_temperature=0.5, **plain)
    consistency = ranking_consistency(cosines, temperature=0.2, reduction=config.reduction)
    assert_close(parts["rank"], 3 * rank)
    assert_close(parts["consistency"], 2 * consistency)


@pytest.mark.parametrize("base", some_bases("esimcse", "promptbert"))
def test_without_whitening_the_loss_is_the_base_s(base: str, places: dict[str, str]) -> None:
    config = on_base("whitenedcse", base, places, whitening="none", head=alone(base, places).head)  # type: ignore[attr-defined]  # it trains
    expected, gradients = two_steps(base, alone(base, places))
    found, of_both = two_steps("whitenedcse", config)
    assert found.keys() == expected.keys()
    assert_close(found, expected, rtol=1e-6, atol=0)
    assert_close(of_both, gradients, rtol=1e-4, atol=1e-6)


def test_simcsepp_adds_a_contrast_of_coordinates_and_replaces_that_of_sentences(
    places: dict[str, str],
) -> None:
    expected, _ = two_steps("sncse", alone("sncse", places))
    found, _ = two_steps("simcsepp", on_base("simcsepp", "sncse", places))
    assert all(torch.equal(found[name], part) for name, part in expected.items())
    assert {"dimension", "dimension again"} == found.keys() - expected.keys()
    plain, gradients = two_steps("simcsepp", configured("simcsepp", backbone=places["TINY"]))
    config = on_base("simcsepp", "simcse", places, negatives="off_dropout")
    found, of_base = two_steps("simcsepp", config)
    assert found == plain
    assert all(torch.equal(of_base[name], own) for name, own in gradients.items())
    simcse, _ = two_steps("simcse", alone("simcse", places))
    assert found["contrastive"] != simcse["contrastive"]
    config = on_base("simcsepp", "consert", places, negatives="other_view")  # and beside `forth`
    assert {"forth", "contrastive", "dimension"} < two_steps("simcsepp", config)[0].keys()
    with pytest.raises(ValidationError, match="negatives: base needs a method as base"):
        configured("simcsepp", negatives="base")


def test_negatives_without_dropout_are_encoded_in_training_mode_otherwise(places) -> None:
    student, objective = start_paper("simcsepp", places["TINY"], dropout=0.5)
    views = objective.views(student, BATCH)
    first, second, still = objective.encode(student, views)
    assert student.encoder.model.training
    assert still.requires_grad
    student.eval()
    (expected,) = student.encode(views.contents, views.templates[0])
    assert_close(still, expected)
    assert not torch.allclose(first, second)


def test_macl_tells_what_its_loss_does_not_and_ends_at_a_temperature_of_zero() -> None:
    _, objective = start_paper("macl", "mini", temperature=0.1, alpha=2, a0=0.5)
    cosines = torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
    parts = objective.losses(torch.eye(2), cosines.T)
    assert objective.metrics() == pytest.approx(
        {"tau": 0.12, "cross_entropy": (math.log1p(math.exp(2)) + math.log1p(math.exp(-14))) / 2}
    )
    odds = [-0.2 / 0.12, 1.4 / 0.12]
    expected = [math.log1p(math.exp(-x)) * (1 + math.exp(x)) for x in odds]
    assert parts["contrastive"].item() == pytest.approx(sum(expected) / 2)
    with pytest.raises(TrainingError, match=r"macl: the temperature 0\.1 "):
        objective.losses(torch.eye(2), -torch.eye(2))


MODIFIED: dict[str, Any] = {
    "spread_mean_weight": 2.0,
    "spread_second_weight": 3.0,
    "matryoshka_dims": [8, 4],
    "matryoshka_weights": [1.0, 0.5],
}


def test_modifiers_by_the_terms_of_normalised_prefixes(places: dict[str, str]) -> None:
    config = alone("simcse", places, temperature=0.5, **MODIFIED)
    found, _ = two_steps("simcse", config)
    torch.manual_seed(0)
    student = Student.from_config(config).train()  # type: ignore[arg-type]  # it trains
    views = student.encode(
        student.pieces(SENTENCES, student.encoder.template), *[student.encoder.template] * 2
    )
    whole = spread_out(*views)
    expected = {"contrastive": 0.0, "spread_mean": 0.0, "spread_second": 0.0}
    for width, weight in ((8, 1.0), (4, 0.5)):
        first, second = (take_prefix(view, width) for view in views)
        assert_close(first, torch.nn.functional.normalize(views[0][:, :width]))
        mean, excess = spread_out(first, second)
        expected["contrastive"] += weight * info_nce(first, second, temperature=0.5).item()
        expected["spread_mean"] += weight * 2 * mean.item()
        expected["spread_second"] += weight * 3 * excess.item()
    assert {name: found[name].item() for name in expected} == pytest.approx(expected, rel=1e-5)
    spread = {name: value for name, value in MODIFIED.items() if "spread" in name}
    found, _ = two_steps("simcse", alone("simcse", places, **spread))
    terms = [found[f"spread_{name}"].item() for name in ("mean", "second")]
    assert terms == pytest.approx([2 * whole[0].item(), 3 * whole[1].item()], rel=1e-5)


@pytest.mark.parametrize("base", ["esimcse", "sncse", "pcl"])
def test_a_whole_prefix_has_the_plain_loss_wherever_it_stands(base: str, places) -> None:
    """What the loss encodes itself is encoded once, and a queue moves once a step."""
    expected, _ = two_steps(base, alone(base, places))
    config = alone(base, places, matryoshka_dims=[8, 32], matryoshka_weights=[0, 1])
    found, _ = two_steps(base, config)
    assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_modifiers_reach_every_part_on_the_views_of_a_base_and_else_the_base_s(places) -> None:
    plain, _ = two_steps("rankcse", on_base("rankcse", "simcse", places, teachers=[places["TINY"]]))
    config = on_base("rankcse", "simcse", places, teachers=[places["TINY"]], **MODIFIED)
    found, _ = two_steps("rankcse", config)
    assert found["rank"] != plain["rank"]
    assert {"spread_mean", "spread_second"} < found.keys()
    sliced = {"slicing_length": 6, "max_length": 32}
    plain, _ = two_steps("hicl", on_base("hicl", "simcse", places, **sliced))
    found, _ = two_steps("hicl", on_base("hicl", "simcse", places, **sliced, **MODIFIED))
    assert found["local"] == plain["local"]
    assert found["global"] != plain["global"]
    assert {"spread_mean", "spread_second"} < found.keys()


def test_modifiers_that_are_off_leave_keys_as_they_are_and_impossible_ones_are_refused() -> None:
    off = {"spread_mean_weight": 0, "spread_second_weight": 0.0, "matryoshka_dims": None}
    methods = [
        m for m in map(get_method, available_methods()) if issubclass(m.config, TwoViewConfig)
    ]
    assert len(methods) > 12
    for method in methods:
        needed = {"teachers": "mini", "generator": "mini", "complementary_model": "mini"}
        own: dict[str, Any] = {
            name: needed[name] for name in needed.keys() & method.config.model_fields
        }
        if method.name in ("multicsr", "pna"):
            own["corpus"] = {"name": "triples.tsv", "columns": [1, 2, 3]}
        assert not MODIFIED.keys() & configured(method.name, **own).hyperparameters().keys()
        values = configured(method.name, **own, **off).hyperparameters()
        assert values == configured(method.name, **own).hyperparameters()
    values = configured("simcse", **MODIFIED).hyperparameters()
    assert {name: values[name] for name in MODIFIED} == MODIFIED
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("simcse", {"matryoshka_weights": [1]}, "1 weights for 0 matryoshka_dims"),
        ("simcse", {"matryoshka_dims": [8, 4], "matryoshka_weights": [1]}, "1 weights for 2"),
        ("simcse", {"matryoshka_dims": []}, "at least 1"),
        ("diffcse", {"generator": "mini", "matryoshka_dims": [8]}, "read whole vectors"),
        ("simcsepp", {"base": "infocse", "matryoshka_dims": [8]}, "the base infocse says"),
        ("isbert", {"matryoshka_dims": [8]}, "not permitted"),
    ]
    for name, settings, message in refused:
        with pytest.raises(ValidationError, match=message):
            configured(name, **settings)
    with pytest.raises(TrainingError, match="matryoshka_dims has 33, above the 32 coordinates"):
        configured("whitenedcse", groups=8, matryoshka_dims=[33]).check_width(32)


def test_a_part_of_the_base_whose_name_is_taken_gets_a_prefix() -> None:
    one, two, three = torch.tensor([1.0, 2.0, 3.0])
    parts = ObjectiveOnBase.add_parts({"rank": one, "margin": two}, {"rank": three})
    assert parts == {"base_rank": one, "margin": two, "rank": three}
    # HiCL's `temperature` and that of the base have one name.
    config = configured("hicl", base="mixcse", temperature=0.1, base_temperature=0.2)
    assert (config.temperature, config.of_base.temperature) == (0.1, 0.2)  # type: ignore[attr-defined]  # of these two
    with pytest.raises(ValidationError, match="are made by `model_validate`"):
        HiCLConfig(backbone="mini", corpus="builtin", base="mixcse")  # type: ignore[arg-type]  # one corpus


def test_a_configuration_has_the_settings_of_method_and_base() -> None:
    config = configured("rankcse", teachers="mini", base="promptbert", base_denoise=False)
    assert config.pooler == "mask"  # as PromptBERT has it
    assert config.test_prompt() == configured("promptbert").test_prompt()
    values = config.hyperparameters()
    assert {name: values[name] for name in values if name.startswith("base")} == {
        "base": "promptbert",
        "base_denoise": False,
        "base_temperature": 0.05,
        "base_prompts": list(get_method("promptbert").config.model_fields["prompts"].default),
    }
    assert configured("rankcse", **values) == config
    told = describe_method(get_method("rankcse").specialise_for({"base": ("promptbert",)}))
    rows = {row.name: row for group in told.groups for row in group.rows}
    assert rows["base_denoise"].kind == "true or false"
    assert "base_denoise: true" in rows["base_freeze_template"].only_with


def test_encoders_files_and_code_are_those_of_method_and_base() -> None:
    settings = {"teachers": "bert-base", "base_generator": "distilbert-base"}
    config = configured("rankcse", base="diffcse", **settings)
    assert config.encoders() == ("mini", "bert-base", "distilbert-base")
    config = configured("rankcse", teachers="mini", base="sncse", base_negations="some.tsv")
    assert config.files() == ("some.tsv",)
    rankcse = get_method("rankcse")
    assert "cse_methods.papers.pcl" not in code_hashes(rankcse)
    both = code_hashes(
        replace(rankcse, config=type(configured("rankcse", teachers="m", base="pcl")))
    )
    assert {"cse_methods.papers.pcl", "cse_methods.papers.rankcse"} < both.keys()


PROMPTED = {"base": "promptbert"}
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "misspelt": ("rankcse", {"base": "promtbert"}, "base", "Did you mean 'promptbert'"),
    "untrained": ("rankcse", {"base": "untrained"}, "base", "does not hand over two views"),
    "one view": ("hicl", {"base": "isbert"}, "base", "does not hand over two views"),
    "on columns": ("rankcse", {"base": "pna"}, "base", "does not hand over two views"),
    "itself": ("rankcse", {"base": "rankcse"}, "base", "no method stands on itself"),
    "on another": ("hicl", {"base": "rankcse"}, "base", "it stands on a base of its own"),
    "encodes": ("hicl", {"base": "pcl"}, "base", "cuts sentences into parts"),
    "unknown": ("rankcse", {"base": "mixcse", "base_mixed": 1}, "base_mixed", "not permitted"),
    "out of bounds": ("rankcse", {"base": "mixcse", "base_mix_weight": 2}, "base_mix_weight", "1"),
    "no base": ("rankcse", {"base_mix_weight": 0.2}, "base_mix_weight", "not permitted"),
    "its rule": ("whitenedcse", {"base": "pcl", "base_peer": "fixed"}, "", "base pcl says: peer: "),
    "its pooler": ("rankcse", {**PROMPTED, "pooler": "cls"}, "", "read at its mask"),
    "columns": ("rankcse", {"base": "simcse", "base_supervision": "pairs"}, "", "2 columns"),
    "without effect": (
        "rankcse",
        {**PROMPTED, "base_denoise": False, "base_freeze_template": True},
        "",
        "base_freeze_template=True has no effect with base_denoise: False",
    ),
    "another loss": ("whitenedcse", {"base": "pcl", "positives": 4}, "", "effect with base: pcl"),
}


def test_impossible_bases_and_settings_of_a_base_are_refused() -> None:
    def check(name: str) -> None:
        method, settings, place, reason = REFUSED[name]
        teachers = {"teachers": "mini"} if method == "rankcse" else {}
        with pytest.raises(ValidationError) as caught:
            configured(method, **teachers, **settings)
        (problem,) = caught.value.errors()
        assert ".".join(map(str, problem["loc"])) == place
        assert reason in problem["msg"]

    assert failing(check, REFUSED) == {}
