"""L2P-CSR's masks and the loss under them reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.augmentation.learned_masks import fuse_masks, learn_masks, make_masks, move_scores
from cse_methods.losses.info_nce import info_nce

Values = dict[str, Tensor]


def views_of(inputs: Values, params: dict[str, Any], masks: Tensor) -> tuple[Tensor, Tensor]:
    """The toy encoder of the case, whose views of a sentence are adjacent rows."""
    hidden = inputs["E"] * masks[0]
    for number, weight in enumerate(inputs["U"], 1):
        hidden = (hidden @ weight.T + hidden.mean(dim=1, keepdim=True)).tanh()
        if number <= params["masked_layers"]:
            hidden = hidden * masks[number]
    z = (hidden[:, 0] @ inputs["W"].T + inputs["b"]).tanh()
    return z[0::2], z[1::2]


def perturbed_loss(inputs: Values, params: dict[str, Any]) -> Values:
    def loss_of(masks: Tensor) -> Tensor:
        return info_nce(*views_of(inputs, params, masks), temperature=params["temp"])

    threshold = params["threshold"]
    scores = learn_masks(
        loss_of,
        *(inputs[name] for name in ("noise", "feature_noise")),
        steps=params["steps"],
        step_size=params["step_size"],
        threshold=threshold,
    )
    masks = fuse_masks(tuple(make_masks(score, threshold=threshold) for score in scores))
    assert all(inputs[name].grad is None for name in "EUWb")  # the steps leave them clean
    return {
        "loss": loss_of(masks),
        "z": torch.stack(views_of(inputs, params, masks), dim=1),
        "masks": masks,
        "noise": scores[0],
        "feature_noise": scores[1],
    }


def update(inputs: Values, params: dict[str, Any]) -> Values:
    moved = move_scores(inputs["x"], inputs["gradient"], step_size=params["step_size"])
    return {"x": moved, "mask": make_masks(moved, threshold=params["threshold"])}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "l2pcsr_perturbed_loss_a": perturbed_loss,
    "l2pcsr_update_a": update,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_constants_take_no_gradient(golden: Callable[[str], Any]) -> None:
    case = golden("l2pcsr_perturbed_loss_a")
    perturbed_loss(case.inputs, case.params)["loss"].backward()
    assert case.inputs["noise"].grad is None
    assert case.inputs["feature_noise"].grad is None


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("l2pcsr_*") == CASES.keys()
