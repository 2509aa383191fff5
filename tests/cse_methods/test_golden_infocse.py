"""InfoCSE's head and losses reproduce the stored values of its code."""

from collections.abc import Callable
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.masked_pieces import masked_piece_loss
from cse_methods.losses.replaced_pieces import replace_first_embedding
from cse_methods.training.batchnorm_head import BatchNormHead

Values = dict[str, Tensor]


def full(inputs: Values, params: dict[str, Any]) -> Values:
    """Rows of both views one after another, as the code has them; here without further layers."""
    told, read = inputs["cls"].flatten(0, 1), inputs["skip"].detach().flatten(0, 1)
    given = {
        "first.weight": inputs["W1"],
        "first_norm.weight": inputs["gamma"],
        "first_norm.bias": inputs["beta"],
        "second.weight": inputs["W2"],
    }
    head = BatchNormHead(told.shape[1]).double()
    views = torch.func.functional_call(head, given, (told,)).unflatten(0, (-1, 2))
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    logits = replace_first_embedding(read, told) @ inputs["V"].T + inputs["c"]
    guesses = masked_piece_loss(logits, inputs["mlm_labels"].flatten(0, 1))
    loss = contrastive + params["mlm_weight"] * guesses
    return {"loss": loss, "contrast": contrastive, "mlm": guesses}


def test_value_and_gradients(golden: Callable[[str], Any]) -> None:
    golden("infocse_full_a").is_reproduced_by(full)


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("infocse_*") == {"infocse_full_a"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([1, -100], log(2)), ([1, 0], (log(2) + log(4)) / 2), ([-100, -100], 0.0)],
)
def test_guesses_by_hand(labels: list[int], expected: float) -> None:
    """The pieces that stood there have a probability of a half and of a quarter."""
    logits = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]).log()
    loss = masked_piece_loss(logits, torch.tensor(labels))
    assert loss.item() == pytest.approx(expected, rel=1e-6)
