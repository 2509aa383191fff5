"""MixCSE's loss reproduces the stored values of its released code and of two variants."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.losses.mixed_negatives import mixed_negatives_loss

Values = dict[str, Tensor]
VARIANTS: dict[str, dict[str, Any]] = {
    "mixcse_loss_a": {},
    "mixcse_oracle_anchor_only_a": {"mixed_sides": "positive"},
    "mixcse_oracle_removed_a": {"suppressed": "remove"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    def compute(inputs: Values, params: dict[str, Any]) -> Values:
        z = inputs["z"]
        loss = mixed_negatives_loss(
            z[:, 0],
            z[:, 1],
            mix_weight=params["lam"],
            temperature=params["temp"],
            hard_negative_weight=params["hard_negative_weight"],
            **VARIANTS[name],
        )
        return {"loss": loss}

    golden(name).is_reproduced_by(compute, without=frozenset({"logits"}))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("mixcse_*") == VARIANTS.keys()


def test_by_hand() -> None:
    """Two orthogonal sentences, mixed alone: all that is left are 0 and known angles."""
    anchors = torch.eye(2, dtype=torch.float64)
    loss = mixed_negatives_loss(anchors, anchors.clone(), mix_weight=0.0, temperature=1.0)
    # Own mixture is the other sentence (0); the other's mixture, the own sentence, is suppressed.
    expected = torch.tensor([1.0, 0, 0, 0, 0, 0], dtype=torch.float64).logsumexp(0) - 1
    assert float(loss) == pytest.approx(float(expected), rel=1e-12)
    removed = mixed_negatives_loss(
        anchors, anchors.clone(), mix_weight=0.0, temperature=1.0, suppressed="remove"
    )
    expected = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).logsumexp(0) - 1
    assert float(removed) == pytest.approx(float(expected), rel=1e-12)


def test_bounds() -> None:
    rows = torch.eye(2)
    with pytest.raises(ValueError, match=r"mix_weight must be in \[0, 1\], got 1\.5"):
        mixed_negatives_loss(rows, rows, mix_weight=1.5, temperature=0.05)
