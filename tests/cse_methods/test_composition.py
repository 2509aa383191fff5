"""CompCSE's aggregations by hand-worked value, by property, and by what they refuse."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.losses.composition import Aggregation, aggregate, leading


def drawn(seed: int, *, count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, 3, 5, generator=draw, dtype=torch.float64))


def test_compositions_by_hand() -> None:
    u, v, w = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[5.0, 6, 7, 9]]), torch.zeros(1, 4)
    assert aggregate([u, v], aggregation="sum").tolist() == [[6, 8, 10, 13]]
    assert aggregate([u, v], aggregation="average").tolist() == [[3, 4, 5, 6.5]]
    assert aggregate([u, v], aggregation="concat-halves").tolist() == [[1, 2, 7, 9]]
    # Four coordinates in three slices: two, one and one.
    assert aggregate([u, w, v], aggregation="concat-halves").tolist() == [[1, 2, 0, 9]]
    picks = torch.zeros(4, 12)
    picks[0, 1] = picks[1, 4] = picks[2, 8] = picks[3, 11] = 1
    found = aggregate([u, v], aggregation="concat-absdiff-project", projection=picks)
    assert found.tolist() == [[2, 5, 4, 5]]
    found = aggregate([u, v], aggregation="concat-project", projection=picks[:, :8])
    assert found.tolist() == [[2, 5, 0, 0]]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), parts=st.integers(2, 4))
def test_parts_that_agree(seed: int, parts: int) -> None:
    part = drawn(seed, count=1)[0]
    for aggregation in ("average", "concat-halves"):
        torch.testing.assert_close(aggregate([part] * parts, aggregation=aggregation), part)


def test_leading_coordinates() -> None:
    rows = torch.arange(6.0).view(2, 3)
    assert leading(rows, 2).tolist() == [[0, 1], [3, 4]]
    assert leading(rows, None).equal(rows)
    for d0 in (0, 4):
        with pytest.raises(ValueError, match=f"from 1 to the embeddings' width 3, got {d0}"):
            leading(rows, d0)


def test_parts_that_cannot_be_aggregated() -> None:
    u, v = torch.zeros(2, 4), torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"got \(2, 4\), \(2, 5\)"):
        aggregate([u, v], aggregation="sum")
    with pytest.raises(ValueError, match="two or more parts to aggregate, got 1"):
        aggregate([u], aggregation="sum")
    with pytest.raises(ValueError, match="concat-absdiff-project compares two parts, got 3"):
        aggregate([u, u, u], aggregation="concat-absdiff-project")


@pytest.mark.parametrize(
    ("aggregation", "given_shape", "needed"),
    [
        ("concat-project", (4, 4), (4, 8)),
        ("concat-absdiff-project", (4, 8), (4, 12)),
        ("concat-project", None, (4, 8)),
        ("sum", (4, 8), None),
    ],
)
def test_projections_that_do_not_fit(
    aggregation: Aggregation, given_shape: tuple[int, int] | None, needed: tuple[int, int] | None
) -> None:
    matrix = None if given_shape is None else torch.zeros(given_shape)
    with pytest.raises(ValueError, match="takes a projection of shape") as refused:
        aggregate([torch.zeros(2, 4)] * 2, aggregation=aggregation, projection=matrix)
    assert str(refused.value).endswith(f"of shape {needed}, got {given_shape}")
