"""ConSERT by hand, and its augmentations in an encoder."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cse_methods.augmentation.cutoff import draw_places
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


def test_a_rate_without_a_cutoff_is_refused() -> None:
    settings = PLACES | {"augmentation_1": "none", "cutoff_rate_1": 0.3}
    with pytest.raises(ValidationError, match=r"cutoff_rate_1=0.3 has no effect with augment"):
        ConSERTConfig.model_validate(settings)
    config = ConSERTConfig.model_validate(PLACES)
    assert (config.pooler, config.evaluated_pooler, config.head) == ("avg", "avg_top2", False)
    assert (config.dropout, "cutoff_rate_2" in config.hyperparameters()) == (0, False)
