"""ConSERT by hand, and its augmentations in an encoder."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cse_methods.augmentation.cutoff import draw_places, zero_elements, zero_features, zero_tokens
from cse_methods.losses.nt_xent import nt_xent
from cse_methods.papers.consert import ConSERTConfig

PLACES: dict[str, Any] = {"backbone": "mini", "corpus": "builtin", "data": "builtin"}


@given(
    rows=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    rate=st.sampled_from([0, 0.15, 0.29, 0.3, 0.5, 1]),
)
def test_a_share_of_what_is_there_is_drawn(rows: list[int], rate: float) -> None:
    """Each place at most once, rounded down as Python does."""
    available = torch.arange(9) < torch.tensor(rows).unsqueeze(1)
    for count, drawn in zip(rows, draw_places(available, rate=rate).tolist(), strict=True):
        places = [place for place in drawn if place >= 0]
        assert len(places) == int(count * rate)
        assert len(set(places)) == len(places)
        assert all(place < count for place in places)


def test_what_is_cut_by_hand() -> None:
    ones = torch.ones(2, 2, 3)
    places = torch.tensor([[1, -1], [-1, -1]])
    assert zero_tokens(ones, places).tolist() == [[[1] * 3, [0] * 3], [[1] * 3, [1] * 3]]
    assert zero_features(ones, places)[0].tolist() == [[1, 0, 1], [1, 0, 1]]
    assert zero_elements(ones, torch.tensor([[5], [0]])).tolist() == [
        [[1, 1, 1], [1, 1, 0]],
        [[0, 1, 1], [1, 1, 1]],
    ]
    assert ones.all()


def test_the_loss_by_hand() -> None:
    """Orthogonal sentences with equal views: the positive has 1, two others and one's own 0."""
    forth, back = nt_xent(torch.eye(2), torch.eye(2), temperature=0.5)
    expected = math.log(1 + 2 * math.exp(-2))
    assert [forth.item(), back.item()] == pytest.approx([expected, expected])


def test_the_views_have_candidates_of_their_own() -> None:
    """The second view's sentences are alike, the first's are not."""
    first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    forth, back = nt_xent(first, second, temperature=1)
    assert forth.item() == pytest.approx((math.log(2 + math.exp(-1)) + math.log(3)) / 2, abs=1e-6)
    assert back.item() == pytest.approx(
        (math.log(2 + math.exp(-1)) + math.log(1 + 2 * math.e)) / 2, abs=1e-6
    )


def test_a_rate_without_a_cutoff_is_refused() -> None:
    settings = PLACES | {"augmentation_1": "none", "cutoff_rate_1": 0.3}
    with pytest.raises(ValidationError, match=r"cutoff_rate_1=0.3 has no effect with augment"):
        ConSERTConfig.model_validate(settings)
    config = ConSERTConfig.model_validate(PLACES)
    assert (config.pooler, config.evaluated_pooler, config.head) == ("avg", "avg_top2", False)
    assert (config.dropout, "cutoff_rate_2" in config.hyperparameters()) == (0, False)
