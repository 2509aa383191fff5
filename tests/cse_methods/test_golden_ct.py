"""CT's losses and pairs reproduce the stored values of its code and of sentence-transformers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.losses.lists import reduce
from cse_methods.losses.tension import build_pairs, contrastive_tension, in_batch_tension

Values = dict[str, Tensor]


def tension(inputs: Values, params: dict[str, Any]) -> Values:
    labels = inputs["labels"]
    losses = contrastive_tension(inputs["a"], inputs["b"], labels)
    return {
        "loss": reduce(losses, params["reduction"]),
        "positive": losses[labels == 1].sum(),
        "negative": losses[labels == 0].sum(),
    }


def tension_summed(inputs: Values, params: dict[str, Any]) -> Values:
    return {"loss": tension(inputs, params)["loss"]}


def in_batch(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    return {
        "loss": sum(
            in_batch_tension(inputs["a"], inputs["b"], log_scale=inputs["logit_scale"]),
            torch.zeros((), dtype=torch.float64),
        )
    }


def pairs(inputs: Values, params: dict[str, Any]) -> Values:
    positives, negatives = inputs["positives"].tolist(), inputs["negatives"].tolist()
    count = params["negatives"]
    free = build_pairs(positives, negatives, per_positive=count, anchored=False)
    used = negatives[: len(positives) * count]
    own = build_pairs(positives, used, per_positive=count, anchored=True)
    assert own.labels == free.labels
    found = {
        **{"first": free.first, "second": free.second, "labels": free.labels},
        **{"first_anchored": own.first, "second_anchored": own.second},
    }
    return {name: torch.tensor(numbers) for name, numbers in found.items()}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "ct_bce_a": tension,
    "ct_bce_sum_a": tension_summed,
    "ct_inbatch_a": in_batch,
    "ct_pairs_a": pairs,
}
ELSEWHERE = {"ct_schedule_a", "ct_rmsprop_a"}
"""Where the optimisers are tested."""


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name], without=frozenset({"logits"}))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("ct_*") == CASES.keys() | ELSEWHERE
