"""What an objective holds and never trains: it moves along, and is in no checkpoint."""

import copy

import torch
from torch import nn

from cse_methods.training.frozen import FrozenModule


def test_it_moves_with_what_it_is_part_of_in_a_mode_of_its_own() -> None:
    held = FrozenModule(nn.Linear(2, 3))
    whole = nn.Sequential(held, nn.ReLU())
    whole.double()
    assert held.module.weight.dtype == torch.float64
    assert whole(torch.ones(1, 2, dtype=torch.float64)).requires_grad is False
    assert not held.module.weight.requires_grad
    assert whole.state_dict() == {} and list(whole.parameters()) == []
    assert copy.deepcopy(held).module is not held.module
    for dropout in (False, True):
        held = FrozenModule(nn.Dropout(0.5), dropout=dropout)
        for training in (True, False):
            nn.Sequential(held).train(training)
            assert held.module.training is dropout
