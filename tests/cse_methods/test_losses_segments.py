"""HiCL's losses over segments by hand-worked value, by property, and by what they refuse."""

import math
from functools import partial
from itertools import product
from typing import get_args

import pytest
import torch
from torch import Tensor

from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.losses.segments import (
    Negatives,
    SameSequence,
    entailment,
    local_contrast,
    pool_segments,
)

VARIANTS = {
    "-".join(names): partial(
        local_contrast,
        temperature=0.2,
        same_sequence=names[0],
        negatives=names[1],
        negatives_from=names[2],
    )
    for names in product(get_args(SameSequence), get_args(Negatives), get_args(NegativesFrom))
}


def numbered(counts: list[int]) -> Tensor:
    """The sequence of each segment, where sequence i has `counts[i]` segments."""
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))


def segments(seed: int, size: int, *, count: int = 2) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, 5, generator=draw, dtype=torch.float64))


def test_pooling_by_hand() -> None:
    rows, sequence = torch.tensor([[1.0, 0], [4, 0], [5, 6]]), torch.tensor([0, 0, 1])
    weighted = pool_segments(rows, sequence, torch.tensor([32, 16, 7]))
    torch.testing.assert_close(weighted, torch.tensor([[2.0, 0], [5, 6]]))
    torch.testing.assert_close(
        pool_segments(rows, sequence, None), torch.tensor([[2.5, 0], [5, 6]])
    )


def test_pooled_alike_in_any_order() -> None:
    sequence = numbered([3, 1, 2])
    rows = segments(0, len(sequence), count=1)[0]
    weights, order = torch.tensor([32, 32, 7, 20, 32, 11]), torch.tensor([3, 0, 5, 2, 4, 1])
    pooled = pool_segments(rows, sequence, weights)
    torch.testing.assert_close(pool_segments(rows[order], sequence[order], weights[order]), pooled)
    torch.testing.assert_close(pool_segments(rows, sequence, 7 * weights), pooled)


# Two sequences: segments 0 and 1, and segment 2. Cosines of 0 and 1 are 0, of 2 with them 0.6
# and 0.8; second views equal the first. At temperature 1 all terms can be written down.
THREE, OWNERS = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8]]), torch.tensor([0, 0, 1])


def test_one_segment_a_sequence_is_info_nce() -> None:
    first, second = segments(0, 6)
    for name, loss in VARIANTS.items():
        origin = loss.keywords["negatives_from"]
        expected = info_nce(first, second, temperature=0.2, negatives_from=origin)
        found = loss(first, second, torch.arange(6)).item()
        assert found == pytest.approx(expected.item()), name


def test_a_single_sequence_has_nothing_to_learn_from() -> None:
    for same in ("neither", "positive"):
        first, second = (view.requires_grad_() for view in segments(0, 4))
        sequence = torch.zeros(4, dtype=torch.long)
        loss = local_contrast(first, second, sequence, temperature=0.05, same_sequence=same)
        pooled = pool_segments(first, sequence, None)
        loss = loss + entailment(first, pooled, sequence, temperature=0.05)
        loss.backward()
        assert loss.item() == pytest.approx(0, abs=1e-12)
        for view in (first, second):
            assert view.grad is not None
            assert view.grad.abs().max() < 1e-12  # and not NaN


def test_segments_that_do_not_match() -> None:
    rows, three = torch.ones(4, 2), torch.zeros(3, dtype=torch.long)
    four = torch.zeros(4, dtype=torch.long)
    with pytest.raises(ValueError, match=r"of each \(S,\), got \(4, 2\) and \(3,\)"):
        local_contrast(rows, rows, three, temperature=1)
    with pytest.raises(ValueError, match=r"of each \(S,\), got \(4, 2\) and \(3,\)"):
        entailment(rows, rows, three, temperature=1)
    with pytest.raises(ValueError, match=r"S >= 1, .* got \(0, 2\) and \(0,\)"):
        pool_segments(rows[:0], four[:0], None)
    with pytest.raises(ValueError, match=r"got \(4, 2\), \(3, 2\)"):
        local_contrast(rows, rows[:3], four, temperature=1)
    with pytest.raises(ValueError, match=r"got \(3,\) weights for \(4,\) segments"):
        pool_segments(rows, four, torch.ones(3))
    with pytest.raises(ValueError, match="a segment of sequence 2, but only 2 sequences"):
        entailment(rows, rows[:2], four + 2, temperature=1)


def test_a_sequence_without_weight() -> None:
    rows = torch.ones(3, 2)
    with pytest.raises(ValueError, match="sequence 1 has no segment with a weight above 0"):
        pool_segments(rows, torch.tensor([0, 0, 2]), None)
    with pytest.raises(ValueError, match="sequence 2 has no segment with a weight above 0"):
        pool_segments(rows, torch.arange(3), torch.tensor([3, 1, 0]))


def test_temperatures_that_cannot_divide() -> None:
    table: list[float] = [0.0, -0.05, math.nan]
    for temperature in table:
        with pytest.raises(ValueError, match=f"temperature must be above 0, got {temperature}"):
            local_contrast(THREE, THREE, OWNERS, temperature=temperature)
        with pytest.raises(ValueError, match=f"temperature must be above 0, got {temperature}"):
            entailment(THREE, THREE[:2], OWNERS, temperature=temperature)
