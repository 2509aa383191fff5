"""Every loss of the method `st`: plain, at several widths, and beside another loss, resumed."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from failing import failing
from labelled_rows import settings_for, write_rows
from method_variants import write_lab

from cse_methods.sentence_transformers_trainer.losses import LOSSES, LossName
from cse_methods.sentence_transformers_trainer.settings import StConfig
from cse_methods.testing import (
    RecordedRun,
    TrainedOnce,
    keeps_the_best_step,
    loss_parts_sum_to_the_loss,
    reads_its_settings,
    reports_dev_points,
    resumes_as_if_never_stopped,
    train_once,
)

Case = tuple[LossName, bool, bool]
"""A loss, whether at several widths, and whether beside another corpus with a loss of its own."""
REFUSED: set[Case] = {
    (loss, True, mixed)
    for loss in ("global_orthogonal", "softmax", "contrastive_tension",
                 "contrastive_tension_in_batch")
    for mixed in (False, True)
}  # fmt: skip
"""What the library cannot compute at several widths."""
CASES: list[Case] = [
    case for case in product(LOSSES, (False, True), (False, True)) if case not in REFUSED
]
QUICK: list[tuple[Case, dict[str, Any]]] = [
    (("softmax", False, False), {"batch_size": 16}),  # has a trained layer of its own
    (("contrastive_tension", False, True), {"batch_size": 8}),  # has a second encoder
    (("multiple_negatives", True, False), {"matryoshka_dims_per_step": 1}),  # drawn at random
]
"""With settings."""
TrainCase = Callable[..., TrainedOnce]


@pytest.fixture(scope="module")
def train(tmp_path_factory, tiny_bert, masked_lm) -> Iterator[TrainCase]:
    def train(loss: LossName, wide: bool, mixed: bool, **settings: Any) -> TrainedOnce:
        folder = tmp_path_factory.mktemp("st")
        lab, _ = write_lab(folder, tiny_bert, tiny_bert)
        own = settings_for(folder, loss, tiny_bert)
        if mixed:
            other = write_rows(folder, "cosent") | {"loss": "cosent", "weight": 1}
            own["corpus"] = [own["corpus"] | {"weight": 3}, other]
        steps = {"max_steps": 5, "eval_steps": 1, "matryoshka": [32, 8] if wide else None}
        return train_once("st", lab | own | steps | settings, folder=folder / "run")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield train


def resumes_from_every_checkpoint(trained: TrainedOnce) -> None:
    """Of two steps an epoch with one corpus, and five with two: epoch ends are among them."""
    for step in trained.steps[1:-1]:
        resumed = trained.again(f"from-{step}", resume_from=trained.run.folder / str(step))
        expected = {s: metrics for s, metrics in trained.run.curve.items() if s > step}
        if resumed.curve != expected:
            raise AssertionError(f"from step {step}: {resumed.curve}, expected {expected}")


CHECKED = (
    reports_dev_points,
    loss_parts_sum_to_the_loss,
    reads_its_settings,
    keeps_the_best_step,
    resumes_as_if_never_stopped,
)


@pytest.mark.parametrize(
    ("case", "settings"), QUICK, ids=["epoch's end", "within an epoch", "drawn widths"]
)
def test_a_loss_with_state_of_its_own_resumes_bit_for_bit(
    case: Case, settings: dict[str, Any], train: TrainCase
) -> None:
    """From step 1, which is the end of an epoch, or one of five steps of it."""
    trained = train(*case, max_steps=2, **settings)
    assert failing(lambda check: check(trained), CHECKED) == {}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_resumes_bit_for_bit(loss: LossName, train: TrainCase) -> None:
    for case in CASES:
        if case[0] == loss:
            trained = train(*case)
            checks = (*CHECKED, resumes_from_every_checkpoint)
            assert failing(lambda check: check(trained), checks) == {}, case  # noqa: B023


@pytest.mark.slow
def test_what_the_library_cannot_compute_is_found_by_a_step(tmp_path: Path, tiny_bert) -> None:
    plain = {"backbone": str(tiny_bert), "data": "builtin"}
    configs = {
        (loss, wide): StConfig.model_validate(
            plain | settings_for(tmp_path, loss, tiny_bert)
            | {"matryoshka": [768, 64] if wide else None}
        )
        for loss, wide in product(LOSSES, (False, True))
    }  # fmt: skip
    answers = StConfig.try_steps(list(configs.values()))
    refused = {case for case, answer in zip(configs, answers, strict=True) if answer}
    assert refused == {(loss, wide) for loss, wide, _ in REFUSED}


def test_an_interrupted_checkpoint_has_the_state_of_the_loss(train: TrainCase) -> None:
    """The classifier of SoftmaxLoss, which the library leaves out of its own checkpoints."""
    trained = train("softmax", False, False, max_steps=1)
    assert isinstance(trained.run, RecordedRun)
    stored = torch.load(trained.run.folder / "1" / "training.pt", weights_only=True)
    heads = [name for name in stored["trained"] if "classifier" in name]
    assert [stored["trained"][name].shape for name in heads] == [(2, 96), (2,)]
    frozen = train("gist", False, False, max_steps=1)
    stored = torch.load(frozen.run.folder / "1" / "training.pt", weights_only=True)
    assert not [name for name in stored["trained"] if ".guide." in name and "weight" in name]
