"""DCLR's own: the complementary model, its false negatives, noise, and the pooling layer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from transformers import BertConfig, BertModel

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.pooling_layer import read_pooling_layer
from cse_methods.encoders.post_pooling import Dense
from cse_methods.papers.dclr import DCLR, DCLRConfig
from cse_methods.training.student import Batch, Student

SENTENCES = list(builtin_corpus()[:8])


@pytest.fixture(scope="session")
def pooled_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random BERT that has a pooling layer, as BERT's own checkpoint has."""
    folder = tmp_path_factory.mktemp("pooled-bert")
    load_encoder(str(tiny_bert)).save(folder)
    for name in ("modules.json", "1_Pooling"):  # whose pooler would be the mean
        place = folder / name
        place.unlink() if place.is_file() else [*map(Path.unlink, place.iterdir()), place.rmdir()]
    (folder / "modules.json").write_text(
        '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},'
        '{"idx": 1, "name": "1", "path": "1_Pooling",'
        ' "type": "sentence_transformers.models.Pooling"}]'
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 32, "pooling_mode_cls_token": true}'
    )
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


def test_the_pooling_layer_is_the_backbone_s_and_is_trained(
    tiny_bert: Path, pooled_bert: Path
) -> None:
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
        return loss(
            *started(tiny_bert, dropout=0.0, form="infonce", temperature=1.0, **settings)
        ).item()

    plain = found(phi=1, noise_times=0)
    assert found(phi=-1, noise_times=0) == pytest.approx(0, abs=1e-6)  # no negative is left
    assert found(phi=1, noise_times=2.5) > plain
    assert found(phi=1, noise_times=1) == found(phi=1, noise_times=1)
