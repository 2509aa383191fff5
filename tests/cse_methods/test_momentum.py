"""The queue of negatives and the encoder that follows."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cse_methods.training.momentum import enqueue, moving_average_


@given(batches=st.lists(st.integers(1, 6), min_size=1, max_size=6), size=st.integers(1, 10))
def test_the_newest_rows_stay(batches: list[int], size: int) -> None:
    rows = torch.arange(float(sum(batches))).unsqueeze(1)
    queue = rows[:0]
    for step, batch in enumerate(rows.split(batches)):
        queue = enqueue(queue, batch, size=size)
        seen = sum(batches[: step + 1])
        kept = seen if step == 0 else min(seen, size)
        assert queue[:, 0].tolist() == list(range(seen - kept, seen))


def constant(value: float) -> nn.Linear:
    module = nn.Linear(2, 2)
    for parameter in module.parameters():
        nn.init.constant_(parameter, value)
    return module


def test_every_parameter_follows() -> None:
    for momentum, expected in ((1, 4.0), (0, 8.0), (0.75, 5.0)):
        follows, leads = constant(4), constant(8)
        moving_average_(follows, leads, momentum=momentum)
        assert all((parameter == expected).all() for parameter in follows.parameters())
        assert all((parameter == 8).all() for parameter in leads.parameters())
    rows = torch.ones(2, 3, requires_grad=True)
    assert not enqueue(torch.empty(0, 3), rows, size=4).requires_grad  # the queue is constant
