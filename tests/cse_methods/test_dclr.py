"""DCLR's own: the complementary model, false negatives, noise, the pooling layer, the losses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from transformers import BertConfig, BertModel

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.loading import load_encoder, read_pooling_layer
from cse_methods.encoders.post_pooling import Dense
from cse_methods.losses.debiased import debiased_loss, false_negative_weights, noise_ascent
from cse_methods.papers.dclr import DCLR, DCLRConfig
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
    origin = {"backbone": str(backbone), "corpus": "builtin", "data": "builtin"}
    model = {"complementary_model": str(backbone)}
    config = DCLRConfig.model_validate(origin | model | settings)
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    return student, DCLR(config, student)


def loss(student: Student, objective: DCLR, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))["contrastive"]


def test_the_complementary_model_is_its_checkpoint(tiny_bert: Path, pooled_bert: Path) -> None:
    student, objective = started(tiny_bert, complementary_model=str(pooled_bert))
    stored = BertModel.from_pretrained(pooled_bert).state_dict()
    model = objective.complementary_model
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, stored[name]), name
    (layer,) = model.post_pooling
    assert isinstance(layer, Dense)
    assert torch.equal(layer.linear.weight, stored["pooler.dense.weight"])
    assert layer.activation == "tanh"
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not any("omplementary" in name for name in objective.state_dict())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    loss(student, objective).backward()
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_its_vectors_are_those_of_the_library(tiny_bert: Path, pooled_bert: Path) -> None:
    """Of the pooling layer, and with the attention mask: not moved by the batch's padding."""
    student, objective = started(tiny_bert, complementary_model=str(pooled_bert))
    first, second = objective._complementary_views(student, Batch(SENTENCES, np.arange(8)))
    assert torch.equal(first, second)
    model, tokenizer = BertModel.from_pretrained(pooled_bert), student.encoder.tokenizer
    for sentence, vector in zip(SENTENCES, first, strict=True):
        inputs = tokenizer([sentence], return_tensors="pt", truncation=True, max_length=32)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        assert_close(model(ids, attention_mask=mask).pooler_output[0].detach(), vector)


def test_two_views_with_complementary_dropout(pooled_bert: Path) -> None:
    student, objective = started(pooled_bert, complementary_dropout=True)
    first, second = objective._complementary_views(student, Batch(SENTENCES, np.arange(8)))
    assert not torch.equal(first, second)
    assert not first.requires_grad


def test_the_pooling_layer_is_the_backbone_s_and_is_trained(tiny_bert, pooled_bert) -> None:
    stored = BertModel.from_pretrained(pooled_bert).pooler.dense
    student, objective = started(pooled_bert)
    layer = objective.pooling_layer
    assert isinstance(layer, Dense)
    assert torch.equal(layer.linear.weight, stored.weight)
    loss(student, objective).backward()
    assert layer.linear.weight.grad is not None
    assert "pooling_layer.linear.weight" in objective.state_dict()
    assert read_pooling_layer(str(tiny_bert)) is None
    drawn = started(tiny_bert)[1].pooling_layer
    assert isinstance(drawn, Dense)  # for a checkpoint that has none
    assert not list(started(pooled_bert, pooling_layer=False)[1].parameters())


def test_false_negatives_and_noise_count(tiny_bert: Path) -> None:
    def found(**settings: Any) -> float:
        plain = {"dropout": 0.0, "form": "infonce", "temperature": 1.0}
        return loss(*started(tiny_bert, **plain, **settings)).item()

    plain = found(phi=1, noise_times=0)
    assert found(phi=-1, noise_times=0) == pytest.approx(0, abs=1e-6)  # no negative is left
    assert found(phi=1, noise_times=2.5) > plain
    assert found(phi=1, noise_times=1) == found(phi=1, noise_times=1)


def test_the_loss_stays_finite_where_a_probability_rounds_to_one() -> None:
    for own, other in [(20.0, -2.0), (-40.0, 40.0), (300.0, -300.0), (-300.0, 300.0)]:
        logits = torch.full((2, 3), other)
        logits.fill_diagonal_(own).requires_grad_()
        loss = debiased_loss(logits, torch.ones(2, 3), form="bce")
        loss.backward()
        assert loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


def test_a_false_negative_has_the_logit_zero_or_is_left_out() -> None:
    weights = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    logits = torch.randn(2, 3)
    zero, gone = logits.clone(), logits.clone()
    zero[0, 1], gone[0, 1] = 0.0, -torch.inf
    ones = torch.ones(2, 3)
    assert_close(debiased_loss(logits, weights, form="bce"), debiased_loss(zero, ones, form="bce"))
    found = debiased_loss(logits, weights, form="infonce")
    assert_close(found, F.cross_entropy(gone, torch.arange(2)))


def test_weights_of_sentences_that_are_alike() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = false_negative_weights(rows, rows, phi=0.9, noise=1)
    assert found.tolist() == [[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    assert false_negative_weights(rows, rows, phi=1.0).all()


def test_noise_without_gradient_stays() -> None:
    first = torch.eye(2, 4)
    # A temperature at which the noise's probability, and so its gradient, rounds to 0.
    noise = torch.eye(4)[2:]
    moved = noise_ascent(first, first, noise, temperature=1e-3, steps=2, step_size=0.5)
    assert torch.equal(moved, noise)


def test_noise_becomes_harder_by_steps_of_one_length() -> None:
    torch.manual_seed(0)
    first, noise = torch.randn(4, 8), torch.randn(3, 8)
    one = noise_ascent(first, first, noise, temperature=0.5, steps=1, step_size=0.1)
    assert_close((one - noise).norm(dim=1), torch.full((3,), 0.1))
    far = noise_ascent(first, first, noise, temperature=0.5, steps=9, step_size=0.5)
    similar = [F.cosine_similarity(first[:, None], n, dim=2).mean() for n in (noise, far)]
    assert similar[0] < similar[1]
    none = noise_ascent(first, first, noise[:0], temperature=1, steps=3, step_size=1)
    assert none.shape == (0, 8)
