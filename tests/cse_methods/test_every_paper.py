from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from failing import failing
from method_variants import cases_of, settled, write_lab

from cse_methods.registry import available_methods
from cse_methods.testing import (
    CHECKS,
    TrainedOnce,
    differs_with_another_seed,
    keeps_the_best_step,
    loss_parts_sum_to_the_loss,
    progress_ends_at_one,
    reads_its_settings,
    repeats_with_one_seed,
    reports_dev_points,
    resumes_as_if_never_stopped,
    train_once,
)

Train = Callable[..., TrainedOnce]
METHODS = available_methods()
TWO_STEPS = {"max_steps": 2, "eval_steps": 1, "warmup_ratio": 0.0}
OF_ONE_TRAINING = (
    reports_dev_points,
    loss_parts_sum_to_the_loss,
    progress_ends_at_one,
    reads_its_settings,
)
"""Checks that train no further."""
WITH_MORE_STATE = {"mocose": 1, "pcl": 1, "whitenedcse": 3}
"""By method a variant, beside its first, whose checkpoints hold more than the encoder."""


@pytest.fixture(scope="module")
def train(tmp_path_factory, tiny_bert, masked_lm) -> Iterator[Train]:
    """Trains a variant of a method, by its number, on BERT or RoBERTa."""

    def train(
        method: str, number: int = 0, *, encoder: Path = tiny_bert, **settings: Any
    ) -> TrainedOnce:
        folder = tmp_path_factory.mktemp("trained")
        lab, places = write_lab(folder, encoder, masked_lm(encoder))
        places |= {"TINY": str(tiny_bert)}
        _, variant = cases_of(method)[number]
        steps = settings if method != "untrained" else {}
        return train_once(method, lab | steps | settled(variant, places), folder=folder / "run")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield train


def assert_passes(trained: TrainedOnce, checks: Iterable[Callable[[TrainedOnce], None]]) -> None:
    failed = failing(lambda check: check(trained), checks)
    assert failed == {}, f"{trained.method.name} with {trained.config.hyperparameters()}"


@pytest.mark.parametrize("method", METHODS)
def test_the_first_variant_of_each_method_passes_the_checks(method: str, train: Train) -> None:
    # What is resumed repeats the curve already, and the loop, not the method, sets the seed.
    elsewhere = (repeats_with_one_seed, differs_with_another_seed)
    checks = [check for check in CHECKS if check not in elsewhere]
    assert_passes(train(method, **TWO_STEPS), checks)


@pytest.mark.parametrize("method", ["promptbert"])
def test_the_first_variant_passes_the_checks_with_roberta_too(method, train, tiny_roberta) -> None:
    assert_passes(train(method, encoder=tiny_roberta, **TWO_STEPS), CHECKS)


@pytest.mark.parametrize("method", ["compcse", "rankcse", "whitenedcse"])
def test_every_other_variant_trains_and_reads_its_settings(method: str, train: Train) -> None:
    """Of a few methods; the slow test below tries those of all."""
    for number in range(1, len(cases_of(method))):
        trained = train(method, number, **TWO_STEPS | {"eval_steps": 2})
        assert_passes(trained, OF_ONE_TRAINING)


@pytest.mark.parametrize("method", WITH_MORE_STATE)
def test_a_variant_with_more_state_resumes_as_if_never_stopped(method: str, train: Train) -> None:
    trained = train(method, WITH_MORE_STATE[method], **TWO_STEPS)
    assert_passes(trained, [resumes_as_if_never_stopped])


def test_with_modifiers_a_trial_resumes_and_every_dev_point_has_a_score_by_width(train) -> None:
    trained = train("esimcse", 1, **TWO_STEPS)
    checks = [*OF_ONE_TRAINING, keeps_the_best_step, resumes_as_if_never_stopped]
    assert_passes(trained, checks)
    for point in trained.run.curve.values():
        scores = {n.rpartition("/")[2]: value for n, value in point.items() if "_width_" in n}
        assert len(scores) == 2
        (whole,) = (v for n, v in scores.items() if n.endswith("_spearman_width_32"))
        assert whole in [value for n, value in point.items() if n.endswith("_spearman")]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("method", METHODS)
def test_every_variant_passes_every_check_with_both_families(
    method: str, family: str, train: Train, request: pytest.FixtureRequest
) -> None:
    """For SimCSE with the built-in dev sets too, which are larger."""
    encoder: Path = request.getfixturevalue(family)
    for number in range(len(cases_of(method))):
        assert_passes(train(method, number, encoder=encoder), CHECKS)
    if method == "simcse":
        assert_passes(train(method, encoder=encoder, dev={}), CHECKS)
