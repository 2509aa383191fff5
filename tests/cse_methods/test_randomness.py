import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import ON_SICK

from cse_methods.config import TrainingConfig
from cse_methods.contract import Paper, Run
from cse_methods.data.corpora import load_corpus
from cse_methods.losses.info_nce import info_nce
from cse_methods.registry import register
from cse_methods.testing import (
    TrainedOnce,
    repeats_with_one_seed,
    resumes_as_if_never_stopped,
    train_once,
)
from cse_methods.training.loop import train
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, StudentProtocol, dropout_views

DRAWS: dict[str, Callable[[], float]] = {
    "all three": lambda: random.random() + np.random.rand() + torch.rand(()).item(),
    "the system": random.SystemRandom().random,
    "a generator of its own": np.random.default_rng().random,
    "a generator that no checkpoint has": np.random.default_rng(1).random,
}


class Drawing(TrainingConfig):
    draws: str


class Dropping(Objective):
    """Weighs the loss by what it draws."""

    def __init__(self, draws: str) -> None:
        super().__init__()
        self.draw = DRAWS[draws]

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, torch.Tensor]:
        first, second = dropout_views(student, batch.sentences, count=2)
        return {"contrastive": self.draw() * info_nce(first, second, temperature=0.05)}


@register(
    "drawing", config=Drawing, paper=Paper("Drawing", "https://example.org", 2020), revision=1
)
def train_drawing(config: Drawing, run: Run) -> dict[str, float]:
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    return train(config, run, corpus=corpus, objective=lambda student: Dropping(config.draws))


def trained(folder: Path, backbone: Path, draws: str) -> TrainedOnce:
    settings: dict[str, Any] = {"backbone": str(backbone), "draws": draws, "dev": ON_SICK}
    settings["corpus"] = {"name": "builtin", "first": 60}
    return train_once("drawing", settings, folder=folder)


def test_a_seed_fixes_the_curve_and_a_resumed_trial_is_equal_bit_for_bit(
    tiny_bert: Path, tmp_path: Path
) -> None:
    before = random.getstate()
    once = trained(tmp_path, tiny_bert, "all three")
    repeats_with_one_seed(once)
    resumes_as_if_never_stopped(once)
    assert random.getstate() == before  # the caller's own


@pytest.mark.parametrize(
    "draws", [*DRAWS][-1:] + [pytest.param(name, marks=pytest.mark.slow) for name in [*DRAWS][1:3]]
)
def test_the_checks_find_randomness_that_no_seed_reaches(
    draws: str, tiny_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="the curve of the same seed"):
        repeats_with_one_seed(trained(tmp_path, tiny_bert, draws))
