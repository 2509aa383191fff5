"""A sweep against its corpus, its encoder, its machine and itself, before a trial finds out."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.precision import auto_precision
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep import preflight as fit
from cse_platform.sweep.blocks import Slot
from cse_platform.sweep.preflight import sample_configs
from cse_platform.sweep.problems import Inspection
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import refuse_unwritable, sweep_stores


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., SweepSpec]:
    """Makes a sweep over a corpus of 100 sentences, with changes."""
    corpus = tmp_path / "hundred.txt"
    corpus.write_text("".join(f"sentence {number}\n" for number in range(100)))

    def make(**changes: Any) -> SweepSpec:
        sweep = {
            "sweep": "tiny", "method": "simcse", "backbone": "mini", "corpus": str(corpus),
            "data": "builtin", "fixed": {"batch_size": 10},
            "search": {"sampler": "random", "trials": 3, "seed": 1},
        }  # fmt: skip
        return SweepSpec.model_validate(sweep | changes)

    return make


def sizes(spec: SweepSpec) -> fit.Sizes:
    found = Inspection()
    measured = fit.sizes_of(spec, sample_configs(spec, found), found)
    assert measured is not None, found
    return measured


def problems(spec: SweepSpec) -> str:
    found = Inspection()
    assert fit.sizes_of(spec, sample_configs(spec, found), found) is None or found.problems
    return "; ".join(problem.text for problem in found.problems)


def doubts(spec: SweepSpec, measured: fit.Sizes | None) -> list[str]:
    configs = sample_configs(spec, Inspection())
    return fit.describe_doubts(spec, get_method(spec.method), configs, measured)


def test_steps_are_whole_batches_of_the_epochs(spec: Callable[..., SweepSpec]) -> None:
    """100 sentences: 10 batches of 10, or 3 of 30; two and a half epochs of those are 8 steps."""
    found = sizes(spec())
    assert (found.fewest_steps, found.most_steps) == (10, 10)
    assert list(found.corpus.sentences) == [f"sentence {number}" for number in range(100)]
    searched = spec(fixed={"epochs": 2.5}, space={"batch_size": [10, 30]})
    assert (sizes(searched).fewest_steps, sizes(searched).most_steps) == (8, 25)
    assert sizes(spec(fixed={"max_steps": 7, "batch_size": 10})).most_steps == 7
    assert sizes(spec(method="untrained", fixed={})).most_steps == 0


def test_a_batch_above_the_corpus_is_refused(spec: Callable[..., SweepSpec]) -> None:
    for place, batch in (("fixed", 101), ("space", [50, 101])):
        refused = problems(spec(**{"fixed": {}, place: {"batch_size": batch}}))
        assert re.search("batch_size 101.*100 sentences", refused)


def test_groups_that_do_not_divide_the_width_are_refused(spec: Callable[..., SweepSpec]) -> None:
    for place, groups in (("fixed", 7), ("space", [64, 7])):
        refused = problems(spec(method="whitenedcse", **{"fixed": {}, place: {"groups": groups}}))
        assert "groups: 7 does not divide the 192 " in refused
    assert sizes(spec(method="whitenedcse", fixed={"groups": 64}))


def test_what_must_be_fetched_is_not_opened(spec: Callable[..., SweepSpec]) -> None:
    cut = [{"name": str(spec().corpus[0].name), "split_at": 32}]
    assert problems(spec(backbone="bert-large", corpus=cut)) == ""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"evaluate": {"top": 4, "tasks": ["sts"]}}, ["evaluate.top is 4", "3 configurations"]),
        ({"seeds": {"confirm": {"top": 9, "seeds": [0]}}}, ["seeds.confirm.top is 9"]),
        ({"seeds": {"value": "lower_bound"}}, ["seeds.value is lower_bound"]),
        ({"fixed": {"max_steps": 1, "eval_steps": 2}}, ["eval_steps is 2", "max_steps, 1"]),
        ({"fixed": {"max_steps": 6, "eval_steps": 6}}, []),
        ({"fixed": {"precision": "fp16"}}, ["fp16", "ten times", "precision: auto"]),
        ({"fixed": {"batch_size": 10, "precision": "fp16"}, "resources": {"gpu": 0.5}}, []),
        ({"pruner": {"kind": "median", "min_step": 9}}, []),
        ({"pruner": {"kind": "median", "min_step": 10}}, ["pruner.min_step is 10", "10 steps"]),
    ],
)
def test_what_does_nothing_is_doubted(
    spec: Callable[..., SweepSpec], changes: dict[str, Any], told: list[str]
) -> None:
    sweep = spec(**changes)
    lines = doubts(sweep, sizes(sweep))
    assert len(lines) == bool(told)
    assert all(part in lines[0] for part in told)


def test_a_sweep_says_what_auto_became(spec: Callable[..., SweepSpec]) -> None:
    for gpu in (False, True):
        swept = spec(fixed={"precision": "auto"}, resources={"gpu": int(gpu)})
        assert swept.fixed == {"precision": auto_precision(gpu=gpu)}
        assert swept.config({}).hyperparameters()["precision"] == swept.fixed["precision"]


def test_resources_against_this_machine() -> None:
    assert fit.explain_shortage(Slot(1)) is None
    short = fit.explain_shortage(Slot(1e6))
    assert short is not None and "1e+06 CPU" in short and "--set resources.cpu=" in short
    assert fit.at_once(Slot(1e6)) == 0
    assert fit.at_once(Slot(0.5)) == 2 * fit.at_once(Slot(1))


def test_folders_that_cannot_be_written(spec: Callable[..., SweepSpec], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "x"
    for changes, runs in (
        ({}, inside),
        ({"storage": str(inside)}, tmp_path / "runs"),
        ({"stores": {"search": f"sqlite:///{inside}.db"}}, tmp_path / "runs"),
    ):
        with pytest.raises(SweepRefusedError, match=str(tmp_path / "file")):
            refuse_unwritable(sweep_stores(spec(**changes), runs=runs, environment={}))
    refuse_unwritable(sweep_stores(spec(), runs=tmp_path / "runs", environment={}))
    assert not (tmp_path / "runs").exists()


def test_an_encoder_that_drops_nothing_out_is_doubted(
    spec: Callable[..., SweepSpec], tmp_path: Path
) -> None:
    folder = shutil.copytree(Path(resolve_backbone("mini").model), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config | none))
    for fixed, told in (({}, True), ({"dropout": 0.1}, False)):
        sweep = spec(backbone=str(folder), fixed={"batch_size": 10, **fixed})
        lines = doubts(sweep, None)
        assert any("set dropout: 0.1" in line for line in lines) is told
    assert doubts(spec(), None) == []
