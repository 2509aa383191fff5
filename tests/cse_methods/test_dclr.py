from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import start_paper
from transformers import BertConfig, BertModel

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.loading import load_encoder, read_pooling_layer
from cse_methods.encoders.post_pooling import Dense
from cse_methods.losses.debiased import debiased_loss
from cse_methods.papers.dclr import DCLR
from cse_methods.training.student import Batch, Student

SENTENCES = list(builtin_corpus()[:8])


@pytest.fixture(scope="session")
def pooled_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random BERT that has a pooling layer, as BERT's own checkpoint has."""
    folder = tmp_path_factory.mktemp("pooled-bert")
    load_encoder(str(tiny_bert), pooler="cls").save(folder)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        BertModel(BertConfig.from_pretrained(tiny_bert)).save_pretrained(folder)
    return folder


def started(backbone: Path, **settings: Any) -> tuple[Student, DCLR]:
    return start_paper("dclr", backbone, **{"complementary_model": str(backbone)} | settings)


def loss(student: Student, objective: DCLR, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))["contrastive"]


def test_the_complementary_model_has_the_vectors_of_its_checkpoint(
    tiny_bert: Path, pooled_bert: Path
) -> None:
    student, objective = started(tiny_bert, complementary_model=str(pooled_bert))
    stored = BertModel.from_pretrained(pooled_bert).state_dict()
    model = objective.complementary.module
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, stored[name]), name
    (layer,) = model.post_pooling
    assert isinstance(layer, Dense)
    assert torch.equal(layer.linear.weight, stored["pooler.dense.weight"])
    assert isinstance(layer.activation, torch.nn.Tanh)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not any("omplementary" in name for name in objective.state_dict())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    loss(student, objective).backward()
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_the_pooling_layer_starts_from_the_backbone_s_and_is_trained(
    tiny_bert, pooled_bert, tmp_path
) -> None:
    stored = BertModel.from_pretrained(pooled_bert).pooler.dense
    student, objective = started(pooled_bert)
    layer = objective.pooling_layer
    assert isinstance(layer, Dense)
    assert torch.equal(layer.linear.weight, stored.weight)
    loss(student, objective).backward()
    assert layer.linear.weight.grad is not None
    assert "pooling_layer.linear.weight" in objective.state_dict()
    load_encoder(str(tiny_bert)).save(tmp_path)
    assert read_pooling_layer(str(tmp_path)) is None
    drawn = started(tmp_path)[1].pooling_layer
    assert isinstance(drawn, Dense)  # for a checkpoint that has none
    assert not list(started(pooled_bert, pooling_layer=False)[1].parameters())


def test_false_negatives_and_noise_change_the_loss(tiny_bert: Path) -> None:
    def found(**settings: Any) -> float:
        plain = {"dropout": 0.0, "form": "infonce", "temperature": 1.0}
        return loss(*started(tiny_bert, **plain, **settings)).item()

    plain = found(phi=1, noise_times=0)
    assert found(phi=-1, noise_times=0) == pytest.approx(0, abs=1e-6)  # no negative is left
    assert found(phi=1, noise_times=2.5) > plain
    assert found(phi=1, noise_times=1) == found(phi=1, noise_times=1)


def test_the_loss_stays_finite_if_a_probability_rounds_to_one() -> None:
    for own, other in [(20.0, -2.0), (-40.0, 40.0), (300.0, -300.0), (-300.0, 300.0)]:
        logits = torch.full((2, 3), other)
        logits.fill_diagonal_(own).requires_grad_()
        loss = debiased_loss(logits, torch.ones(2, 3), form="bce")
        loss.backward()
        assert loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
