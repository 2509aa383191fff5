"""SNCSE's losses reproduce the stored values of its released code."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import info_nce

Values = dict[str, Tensor]
NAMES = ["sncse_loss_a", "sncse_loss_lambda1_b"]


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    anchors, positives, negations = inputs["z"].unbind(dim=1)
    contrastive = info_nce(anchors, positives, temperature=params["temp"])
    margin = bidirectional_margin(
        anchors, positives, negations, low=params["alpha"], high=params["beta"]
    )
    return {"loss": contrastive + params["lam"] * margin, "infonce": contrastive, "bml": margin}


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(loss, without=frozenset({"delta"}))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("sncse_*") == set(NAMES)
