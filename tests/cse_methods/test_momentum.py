import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cse_methods.training.frozen import FrozenModule
from cse_methods.training.momentum import enqueue


@given(batches=st.lists(st.integers(1, 6), min_size=1, max_size=6), size=st.integers(1, 10))
def test_a_queue_keeps_the_newest_rows(batches: list[int], size: int) -> None:
    rows = torch.arange(float(sum(batches))).unsqueeze(1)
    queue = rows[:0]
    for step, batch in enumerate(rows.split(batches)):
        queue = enqueue(queue, batch, size=size)
        seen = sum(batches[: step + 1])
        kept = seen if step == 0 else min(seen, size)
        assert queue[:, 0].tolist() == list(range(seen - kept, seen))


def test_a_frozen_module_moves_with_its_owner_and_keeps_its_mode() -> None:
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
