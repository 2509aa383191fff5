"""PCL's losses and augmentations reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.augmentation.pieces import (
    changed_pieces,
    delete_pieces,
    insert_copies,
    reverse_pieces,
    shuffle_pieces,
)
from cse_methods.losses.peer_contrast import peer_contrast

Values = dict[str, Tensor]


def terms(views: Tensor, peer: Tensor, params: dict[str, Any]) -> Values:
    other = peer if params["peer_cooperation"] else None
    found = peer_contrast(views, other, temperature=params["temp"])
    assert params["positive_contrast"]
    assert not params["fixed_peer"]
    return {"loss": torch.stack([*found.values()]).sum(), **found}


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    return terms(inputs["z"], inputs["peer"], params)


def shared_head(inputs: Values, params: dict[str, Any]) -> Values:
    heads = [(inputs[n] @ inputs["W"].T + inputs["b"]).tanh() for n in ("z", "peer")]
    return {"loss": terms(heads[0], heads[1], params)["loss"]}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "pcl_loss_a": loss,
    "pcl_switches_a": loss,
    "pcl_shared_head_a": shared_head,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_augmentations(golden: Callable[[str], Any]) -> None:
    case = golden("pcl_augmentations_a")
    inputs, outputs = case.inputs, case.outputs
    for row, length in enumerate(inputs["lengths"].tolist()):
        first, *content, last = inputs["input_ids"][row, :length].tolist()
        drawn = {
            name: [n for n in inputs[name][row].tolist() if n >= 0]
            for name in (
                *("shuffle_permutation", "delete_choice"),
                *("repeat_choice", "repeat_position"),
            )
        }
        changed = changed_pieces(len(content), case.params["rate"])
        copies = max(0, min(changed, case.params["max_length"] - length))
        assert len(drawn["delete_choice"]) == changed
        assert len(drawn["repeat_choice"]) == copies
        order = drawn["shuffle_permutation"][: len(content)]
        found = {
            "sf": shuffle_pieces(content, order),
            "rv": reverse_pieces(content),
            "de": delete_pieces(content, drawn["delete_choice"]),
            "rp": insert_copies(content, drawn["repeat_choice"], drawn["repeat_position"]),
        }
        for kind, pieces in found.items():
            expected = outputs[f"{kind}_ids"][row, : outputs[f"{kind}_lengths"][row]].tolist()
            assert [first, *pieces, last] == expected, kind


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("pcl_*") == CASES.keys() | {"pcl_augmentations_a"}
