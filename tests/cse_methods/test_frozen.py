"""What an objective holds and never trains: equal to its checkpoint, and in none of its own."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import AutoModel

from cse_methods.contract import TrainingConfig
from cse_methods.data.corpora import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.testing import RecordedRun
from cse_methods.training.checkpoint import STATE_FILE
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import train
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol

CORPUS = Corpus("numbers", [f"the pilot counts {number}" for number in range(12)], "")


class Guided(Objective):
    """Learns a projection of the student's vectors onto those of a frozen encoder."""

    def __init__(self, student: Student, guide: str, *, dropout: bool) -> None:
        super().__init__()
        self.projection = nn.Linear(student.encoder.width, 32)
        self.guide: FrozenModule[Encoder] = FrozenModule(load_encoder(guide), dropout=dropout)

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        plain = student.encoder.template
        contents = student.pieces_of(batch, plain)
        (own,) = student.encode(contents, plain)
        (given,) = student.encode(contents, plain, head=False, encoder=self.guide.module)
        return {"distance": (self.projection(own) - given).square().mean()}


@pytest.mark.parametrize("dropout", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_trial_leaves_it_as_its_checkpoint_has_it(
    dropout: bool, tiny_bert: Path, tmp_path: Path
) -> None:
    dev = {"checkpoint": "sickr", "search": "sickr", "also": []}
    config = TrainingConfig.model_validate(
        {"backbone": str(tiny_bert), "corpus": "builtin", "data": "builtin", "dev": dev}
        | {"batch_size": 4, "max_steps": 2, "learning_rate": 0.1, "weight_decay": 0.1}
    )
    made: list[Guided] = []

    def objective(student: Student) -> Guided:
        made.append(Guided(student, str(tiny_bert), dropout=dropout))
        return made[0]

    train(config, RecordedRun(tmp_path), corpus=CORPUS, objective=objective)
    guide: Any = made[0].guide.module
    expected = AutoModel.from_pretrained(tiny_bert, add_pooling_layer=False).state_dict()
    assert_close(guide.model.state_dict(), expected, rtol=0, atol=0)
    assert all(p.grad is None and not p.requires_grad for p in guide.parameters())
    assert guide.training is dropout
    stored = torch.load(tmp_path / "2" / STATE_FILE, weights_only=True)
    assert set(stored["objective"]) == {"projection.weight", "projection.bias"}
    trained = sum(len(group["params"]) for group in stored["optimizer"]["param_groups"])
    assert trained == len(stored["student"]) + len(stored["objective"])


def test_it_moves_with_what_it_is_part_of() -> None:
    held = FrozenModule(nn.Linear(2, 3))
    whole = nn.Sequential(held, nn.ReLU())
    whole.double()
    assert held.module.weight.dtype == torch.float64
    assert whole(torch.ones(1, 2, dtype=torch.float64)).requires_grad is False
    assert whole.state_dict() == {} and list(whole.parameters()) == []
    assert copy.deepcopy(held).module is not held.module


def test_its_mode_is_its_own() -> None:
    for dropout in (False, True):
        held = FrozenModule(nn.Dropout(0.5), dropout=dropout)
        for training in (True, False):
            nn.Sequential(held).train(training)
            assert held.module.training is dropout
