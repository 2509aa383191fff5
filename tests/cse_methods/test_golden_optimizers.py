"""Optimisers and the learning rate against reference cases; groups of parameters."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cse_methods.errors import TrainingError
from cse_methods.training.optimizers import (
    SMOOTHING,
    ParameterGroup,
    UncorrectedAdamW,
    grouped_parameters,
)
from cse_methods.training.schedule import piecewise_constant


def descend(optimizer: Callable[..., Any], given: Any, *, clip: float | None = None) -> Tensor:
    """The parameter after each of the steps.

    Gradients are clipped as TensorFlow does; PyTorch's clipping divides by the norm plus 1e-6.
    """
    parameter = given["param0"].detach().clone().requires_grad_()
    stepping = optimizer([parameter])
    after = []
    for gradient in given["gradients"].detach():
        norm = float(gradient.norm())
        parameter.grad = gradient * (1.0 if clip is None else clip / max(norm, clip))
        stepping.step()
        after.append(parameter.detach().clone())
    return torch.stack(after)


def adamw(given: Any, params: Any) -> dict[str, Tensor]:
    """ConSERT's, with decay after the step."""
    assert not params["correct_bias"]
    make = partial(
        UncorrectedAdamW,
        lr=params["lr"],
        betas=(params["beta1"], params["beta2"]),
        eps=params["eps"],
        weight_decay=params["decay"],
    )
    return {"param": descend(make, given)}


def bert_adamw(given: Any, params: Any) -> dict[str, Tensor]:
    """BERT-flow's, with decay before it."""
    make = partial(
        UncorrectedAdamW,
        lr=params["lr"],
        betas=(params["beta1"], params["beta2"]),
        eps=params["eps"],
        weight_decay=params["decay"],
        decays="before",
    )
    return {"param": descend(make, given, clip=params["clip"])}


def rmsprop(given: Any, params: Any) -> dict[str, Tensor]:
    assert params["rho"] == SMOOTHING
    make = partial(torch.optim.RMSprop, lr=params["lr"], alpha=SMOOTHING, eps=params["eps"])
    return {"param": descend(make, given)}


def schedule(given: Any, params: Any) -> dict[str, Tensor]:
    boundaries, values = given["boundaries"].tolist(), given["values"].tolist()
    rates = [piecewise_constant(step, boundaries, values) for step in given["step"].tolist()]
    return {"learning_rate": torch.tensor(rates, dtype=torch.float64)}


KINDS = {
    "consert_adamw": adamw,
    "bertflow_adam": bert_adamw,
    "ct_rmsprop": rmsprop,
    "ct_schedule": schedule,
}


@pytest.mark.parametrize("kind", KINDS)
def test_reference_cases(
    kind: str, golden: Callable[[str], Any], golden_names: Callable[..., set[str]]
) -> None:
    names = golden_names(f"{kind}_*")
    assert names
    for name in names:
        golden(name).is_reproduced_by(KINDS[kind])


def test_parameters_of_one_kind_are_one_group() -> None:
    block = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    frozen, own = nn.Linear(2, 2).requires_grad_(False), nn.Linear(4, 4)
    modules = (block, frozen, own)
    (whole,) = grouped_parameters(modules, [], weight_decay=0.0)
    assert whole["params"] == [*block.parameters(), *own.parameters()]
    decaying, resting, fast = grouped_parameters(
        modules, [ParameterGroup([own], 5.0, 0.0)], weight_decay=0.1
    )
    assert decaying["params"] == [block[0].weight, block[2].weight]
    assert resting["params"] == [block[0].bias, *block[1].parameters(), block[2].bias]
    assert fast["params"] == list(own.parameters())
    found = [(g["learning_rate_factor"], g["weight_decay"]) for g in (decaying, resting, fast)]
    assert found == [(1.0, 0.1), (1.0, 0.0), (5.0, 0.0)]


def test_a_parameter_is_in_one_group_of_what_is_trained() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    both = [ParameterGroup([first]), ParameterGroup([first, second])]
    with pytest.raises(TrainingError, match=r"of Linear, Linear has .* in another group too"):
        grouped_parameters([first, second], both, weight_decay=0.0)
    with pytest.raises(TrainingError, match=r"Linear has a parameter .* no trained module"):
        grouped_parameters([first], [ParameterGroup([second])], weight_decay=0.0)


def test_a_parameter_without_a_gradient_stays() -> None:
    still = torch.ones(2, requires_grad=True)
    UncorrectedAdamW([still], lr=0.1, weight_decay=1.0).step()
    np.testing.assert_array_equal(still.detach(), [1, 1])
