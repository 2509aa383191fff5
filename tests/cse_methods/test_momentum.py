"""The queue of negatives and the encoder that follows."""

import pytest
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


def test_what_is_refused() -> None:
    queue, follows = torch.ones(4, 3), constant(4)
    with pytest.raises(ValueError, match=r"got \(4, 3\) and \(2, 5\)"):
        enqueue(queue, torch.ones(2, 5), size=4)
    with pytest.raises(ValueError, match="queue's size must be 1 or more, got 0"):
        enqueue(queue, queue, size=0)
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\], got 1.5"):
        moving_average_(follows, constant(8), momentum=1.5)
    with pytest.raises(ValueError, match="got 6 and 4"):
        moving_average_(follows, nn.Linear(2, 2, bias=False), momentum=0.5)
    assert (follows.weight == 4).all()
