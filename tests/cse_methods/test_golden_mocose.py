"""MoCoSE's loss, queue, momentum and heads reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cse_methods.augmentation.cutoff import zero_features, zero_tokens
from cse_methods.losses.info_nce import info_nce
from cse_methods.papers.mocose import Projection, prediction_head
from cse_methods.training.key_queue import KeyQueue, ema_momentum
from cse_methods.training.momentum import moving_average_

Values = dict[str, Tensor]


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    return {
        "loss": info_nce(
            inputs["query"], inputs["keys"], temperature=params["temp"], queue=inputs["queue"]
        )
    }


def queue_by_step(inputs: Values, params: dict[str, Any]) -> Values:
    size, start = params["queue_size"], params["initial_size"]
    # Random rows are numbered from -1 down, keys from 0 up.
    queue = KeyQueue(-torch.arange(1.0, size + 1).unsqueeze(1), size, start, start)
    used = {}
    sizes = inputs["batch_sizes"].tolist()
    for step, keys in enumerate(torch.arange(float(sum(sizes))).unsqueeze(1).split(sizes)):
        used[f"queue_used_at_step{step}"] = queue.negatives()[:, 0]
        queue.add(keys)
    return {**used, "queue_final": queue.rows[:, 0]}


def average_by_step(inputs: Values, params: dict[str, Any]) -> Values:
    follows, leads = nn.Linear(4, 3, bias=False).double(), nn.Linear(4, 3, bias=False).double()
    follows.weight.data = inputs["param_m0"].detach().clone()
    steps, momenta = [], []
    for step, value in enumerate(inputs["params"].detach(), start=1):
        leads.weight.data = value
        momentum = ema_momentum(step, decay=params["decay"], total_steps=params["total_steps"])
        moving_average_(follows, leads, momentum=momentum)
        momenta.append(momentum)
        steps.append(follows.weight.detach().clone())
    return {"param_m": torch.stack(steps), "momentum": torch.tensor(momenta, dtype=torch.float64)}


def heads(inputs: Values, params: dict[str, Any]) -> Values:
    pooler = nn.Linear(8, 8)
    projection, prediction = Projection(8, 0.0), prediction_head(8, 2, 0.0)
    branch = nn.ModuleList([pooler, projection, prediction])
    stored = ("Wp", "bp", "W1", "b1", "g1", "c1", "W2", "b2", "g2", "c2", "W3", "b3")
    given = dict(zip((name for name, _ in branch.named_parameters()), stored, strict=True))

    def run(h: Tensor) -> tuple[Tensor, Tensor]:
        key = projection(pooler(h))
        return key, prediction(key)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch = branch

        def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
            return run(h)

    values = {f"branch.{name}": inputs[key] for name, key in given.items()}
    key, query = torch.func.functional_call(Whole(), values, (inputs["h"],))
    return {"loss": (query * inputs["upstream"].detach()).sum(), "key": key, "query": query}


def cutoff(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    return {
        "token_cutoff": zero_tokens(inputs["embeddings"], inputs["tokens"]),
        "feature_cutoff": zero_features(inputs["embeddings"], inputs["features"]),
    }


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "mocose_loss_a": loss,
    "mocose_queue_a": queue_by_step,
    "mocose_ema_a": average_by_step,
    "mocose_heads_a": heads,
    "mocose_cutoff_a": cutoff,
}
LEFT_OUT = {"mocose_fgsm_a"}
"""A perturbation below what float32 can hold."""


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name], without=frozenset({"logits"}))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("mocose_*") == CASES.keys() | LEFT_OUT


def test_the_momentum_ends_at_one() -> None:
    assert ema_momentum(10, decay=0.5, total_steps=10) == 1
    assert ema_momentum(11, decay=0.5, total_steps=10) == 1
    assert ema_momentum(5, decay=0.5, total_steps=10) == pytest.approx(0.75)
    with pytest.raises(ValueError, match="decay in"):
        ema_momentum(1, decay=1.5, total_steps=10)
