from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import NUMBERED, start_paper
from transformers import BertModel

from cse_methods.errors import TrainingError
from cse_methods.training.student import Batch

BATCH = Batch(NUMBERED[:6], np.arange(6))
started = partial(start_paper, "pcl")


def test_the_peer_starts_from_the_checkpoint_and_is_trained(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert)
    stored, peer = BertModel.from_pretrained(tiny_bert).state_dict(), objective.peer
    assert peer is not None
    for name, weight in peer.model.state_dict().items():
        assert torch.equal(weight, stored[name]), name
    assert peer.training
    assert peer.model is not student.encoder.model
    torch.stack([*objective(student, BATCH).values()]).sum().backward()
    used = [name for name, one in peer.named_parameters() if one.grad is not None]
    assert "model.embeddings.word_embeddings.weight" in used
    assert any(name.startswith("tail") for name in used)  # its pooling layer
    assert any(name.startswith("trained_peer.model") for name in objective.state_dict())


def test_a_fixed_peer_is_frozen_and_in_no_checkpoint(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, peer="fixed", fixed_peer=str(tiny_bert))
    assert objective.peer is not None
    assert not list(objective.parameters())
    assert not objective.state_dict()
    terms = objective(student, BATCH)
    assert terms.keys() == {"infonce", "positive_contrast", "within", "cross"}
    terms["within"].backward()
    assert all(one.grad is None for one in objective.peer.parameters())
    assert next(student.encoder.parameters()).grad is not None


def test_terms_are_weighted_and_can_be_switched_off(tiny_bert: Path) -> None:
    def terms(**settings: float) -> dict[str, float]:
        student, objective = started(tiny_bert, **settings)
        torch.manual_seed(0)
        return {name: term.item() for name, term in objective(student, BATCH).items()}

    plain = terms()
    weighted = terms(cross_weight=2, within_weight=3, peer_weight=4, positive_contrast_weight=0)
    factors = {"cross": 2, "within": 3, "peer_infonce": 4, "infonce": 1}
    for name, value in plain.items():
        assert weighted[name] == pytest.approx(factors.get(name, 0) * value)
    table: list[tuple[dict[str, Any], set[str]]] = [
        ({"peer": "none", "positive_contrast": False}, {"infonce"}),
        ({"peer": "none"}, {"infonce", "positive_contrast"}),
        ({"positive_contrast": False}, {"infonce", "peer_infonce", "within", "cross"}),
    ]
    for settings, names in table:
        student, objective = started(tiny_bert, **settings)
        assert objective(student, BATCH).keys() == names


def test_settings_without_effect_and_unfit_peers_are_refused(
    tiny_bert: Path, tiny_roberta: Path
) -> None:
    with pytest.raises(ValidationError, match="needs the encoder's name"):
        started(tiny_bert, peer="fixed")
    with pytest.raises(ValidationError, match="no effect with peer"):
        started(tiny_bert, peer="none", cross_weight=0.5)
    with pytest.raises(ValidationError, match="augmentations"):
        started(tiny_bert, augmentations=["sf"] * 17)
    with pytest.raises(TrainingError, match="with its vocabulary and its width, 32"):
        started(tiny_bert, peer="fixed", fixed_peer=str(tiny_roberta))
