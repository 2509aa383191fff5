from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import BUILTIN, NUMBERED, start_paper
from transformers import AutoModelForMaskedLM

from cse_methods.encoders.families import FAMILIES
from cse_methods.errors import BackboneError, TrainingError
from cse_methods.papers.infocse import InfoCSE, InfoCSEConfig, _hide_pieces
from cse_methods.training.student import Batch, Student

SENTENCES = NUMBERED[:6]
BATCH = Batch(SENTENCES, np.arange(6))
started = partial(start_paper, "infocse")


@pytest.fixture(params=["tiny_bert", pytest.param("tiny_roberta", marks=pytest.mark.slow)])
def backbone(request: pytest.FixtureRequest, masked_lm: Callable[[Path], Path]) -> Path:
    return masked_lm(request.getfixturevalue(request.param))


def test_the_frozen_part_is_constant_and_all_else_is_trained(backbone: Path) -> None:
    student, objective = started(backbone, mlm_weight=0.1, trunk_layers=1)
    trunk = objective.train().trunk.module
    assert len(trunk.model.encoder.layer) == 1
    assert len(student.encoder.model.encoder.layer) == 2
    stored = student.encoder.model.state_dict()
    for name, weight in trunk.model.state_dict().items():
        assert torch.equal(weight, stored[name]), name
    assert not any(one.requires_grad for one in trunk.parameters())
    assert not any("trunk" in name for name in objective.state_dict())
    assert not trunk.training
    objective(student, BATCH)["mlm"].backward()
    assert all(one.grad is None for one in objective.projection.parameters())
    for trained in (objective.layers, objective.guesser):
        assert all(one.grad is not None for one in trained.parameters())
    assert student.encoder.model.embeddings.word_embeddings.weight.grad is not None


def test_the_guesses_start_from_the_head_of_the_checkpoint(backbone: Path) -> None:
    _, objective = started(backbone, mlm_weight=0.1)
    model: Any = AutoModelForMaskedLM.from_pretrained(backbone)
    stored = (model.cls if hasattr(model, "cls") else model.lm_head).state_dict()
    ours = objective.guesser.state_dict()
    assert ours.keys() == stored.keys()
    assert all(torch.equal(weight, ours[name]) for name, weight in stored.items())


def test_the_labels_are_the_hidden_pieces(backbone: Path) -> None:
    student, _ = started(backbone, mlm_weight=0.0)
    tokenizer = student.encoder.tokenizer
    rows = student.encoder.rows(SENTENCES) * 80
    torch.manual_seed(0)
    hidden, labels = _hide_pieces(rows, tokenizer, 0.4)
    chosen = same = count = masks = 0
    for row, own, told in zip(rows, hidden, labels.tolist(), strict=True):
        assert len(own) == len(row)
        for piece, shown, label in zip(row, own, told, strict=False):
            assert label in (piece, -100)
            assert shown == piece or label == piece
            assert piece not in tokenizer.all_special_ids or label == -100
            count += piece not in tokenizer.all_special_ids
            chosen += label != -100
            masks += shown == tokenizer.mask_token_id
            same += label != -100 and shown == piece
        assert set(told[len(row) :]) <= {-100}
    assert chosen / count == pytest.approx(0.4, abs=0.03)
    assert masks / chosen == pytest.approx(0.8, abs=0.03)
    assert same / chosen == pytest.approx(0.1, abs=0.03)


def test_with_mlm_weight_0_it_is_simcse_with_another_head(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, mlm_weight=0.0)  # which has no head for guesses
    assert list(objective(student, BATCH)) == ["contrastive"]
    with pytest.raises(
        ValidationError, match=r"mlm_probability=0\.2 has no effect with mlm_weight"
    ):
        started(tiny_bert, mlm_weight=0.0, mlm_probability=0.2)


def test_backbones_that_cannot_guess_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(BackboneError, match="no head for masked word pieces"):
        started(tiny_bert)
    config = InfoCSEConfig.model_validate(BUILTIN | {"backbone": str(tiny_bert)})
    student = Student.from_config(config)
    student.encoder.family = FAMILIES["albert"]
    with pytest.raises(TrainingError, match="infocse trains encoders of BERT's make"):
        InfoCSE(config, student)
