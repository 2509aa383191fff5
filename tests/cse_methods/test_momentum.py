"""The queue of negatives and the encoder that follows."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.training.momentum import enqueue


@given(batches=st.lists(st.integers(1, 6), min_size=1, max_size=6), size=st.integers(1, 10))
def test_the_newest_rows_stay(batches: list[int], size: int) -> None:
    rows = torch.arange(float(sum(batches))).unsqueeze(1)
    queue = rows[:0]
    for step, batch in enumerate(rows.split(batches)):
        queue = enqueue(queue, batch, size=size)
        seen = sum(batches[: step + 1])
        kept = seen if step == 0 else min(seen, size)
        assert queue[:, 0].tolist() == list(range(seen - kept, seen))
