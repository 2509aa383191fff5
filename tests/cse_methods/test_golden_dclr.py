"""DCLR's loss, weights and noise reproduce the stored values of its code, and of an oracle."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.losses.debiased import (
    debiased_loss,
    false_negative_weights,
    noise_ascent,
    noise_logits,
)

Values = dict[str, Tensor]


def moved(inputs: Values, params: dict[str, Any], steps: int) -> Tensor:
    z, noise = inputs["z"], inputs["noise0"]
    return noise_ascent(
        z[:, 0],
        z[:, 1],
        noise,
        temperature=params["temp"],
        steps=steps,
        step_size=params["step_size"],
    )


def weights_of(inputs: Values, params: dict[str, Any], noise: int) -> Tensor:
    first, second = inputs["frozen"].unbind(dim=1)
    return false_negative_weights(first, second, phi=params["phi"], noise=noise)


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    first, second = inputs["z"].unbind(dim=1)
    noise = moved(inputs, params, params["steps"])
    logits = noise_logits(first, second, noise, temperature=params["temp"])
    weights = weights_of(inputs, params, len(noise))
    return {
        "loss": debiased_loss(logits, weights, form="bce"),
        "noise": noise,
        "logits": logits,
        "weights": weights,
    }


def ascent(inputs: Values, params: dict[str, Any]) -> Values:
    return {"noise": torch.stack([moved(inputs, params, 1 + n) for n in range(params["steps"])])}


def weighted_info_nce(inputs: Values, params: dict[str, Any]) -> Values:
    first, second = inputs["z"].unbind(dim=1)
    noise = inputs["noise"].detach()
    logits = noise_logits(first, second, noise, temperature=params["temp"])
    weights = weights_of(inputs, params, len(noise))
    return {"loss": debiased_loss(logits, weights, form="infonce"), "weights": weights}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "dclr_loss_a": loss,
    "dclr_noise_ascent_a": ascent,
    "dclr_oracle_infonce_a": weighted_info_nce,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_constants_take_no_gradient(golden: Callable[[str], Any]) -> None:
    case = golden("dclr_loss_a")
    loss(case.inputs, case.params)["loss"].backward()
    assert case.inputs["frozen"].grad is None
    assert case.inputs["noise0"].grad is None


def test_the_oracle_by_hand(golden: Callable[[str], Any]) -> None:
    case = golden("dclr_oracle_infonce_a")
    first, second = (torch.nn.functional.normalize(z, dim=1) for z in case.inputs["z"].unbind(1))
    noise = torch.nn.functional.normalize(case.inputs["noise"], dim=1)
    theirs = [torch.nn.functional.normalize(c, dim=1) for c in case.inputs["frozen"].unbind(1)]
    total = 0.0
    for i in range(len(first)):
        kept = [j for j in range(len(first)) if j == i or theirs[0][i] @ theirs[1][j] <= 0.6]
        terms = [first[i] @ second[j] / 0.05 for j in kept]
        terms += [first[i] @ row / 0.05 for row in noise]
        total += (torch.stack(terms).exp().sum().log() - first[i] @ second[i] / 0.05).item()
    assert total / len(first) == pytest.approx(float(case.outputs["loss"]), rel=1e-9)


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("dclr_*") == CASES.keys()
