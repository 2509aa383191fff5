"""CT's losses and pairs reproduce the stored values of its code, of a port, and of an oracle."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.losses.contrastive_tension import (
    contrastive_tension,
    in_batch_tension,
    tension_pairs,
)
from cse_methods.training.schedule import piecewise_constant

Values = dict[str, Tensor]


def summed(inputs: Values, params: dict[str, Any]) -> Values:
    a, b, labels = inputs["a"], inputs["b"], inputs["labels"]
    return {"loss": contrastive_tension(a, b, labels, reduction=params["reduction"])}


def pairs_and_terms(inputs: Values, params: dict[str, Any]) -> Values:
    a, b, labels = inputs["a"], inputs["b"], inputs["labels"]
    terms = {
        name: contrastive_tension(a[chosen], b[chosen], labels[chosen], reduction="sum")
        for name, chosen in (("positive", labels == 1), ("negative", labels == 0))
    }
    return summed(inputs, params) | {"logits": (a * b).sum(dim=1)} | terms


def in_batch(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    return {"loss": in_batch_tension(inputs["a"], inputs["b"], inputs["logit_scale"])}


def pairs(inputs: Values, params: dict[str, Any]) -> Values:
    drawn = [inputs[name].tolist() for name in ("positives", "negatives")]
    found = {}
    for ending, anchored in (("", False), ("_anchored", True)):
        first, second, labels = tension_pairs(*drawn, count=params["negatives"], anchored=anchored)
        found |= {f"first{ending}": first, f"second{ending}": second, "labels": labels}
    return {name: torch.tensor(values) for name, values in found.items()}


def schedule(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    boundaries, values = inputs["boundaries"].tolist(), inputs["values"].tolist()
    rates = [piecewise_constant(step, boundaries, values) for step in inputs["step"].tolist()]
    return {"learning_rate": torch.tensor(rates, dtype=torch.float64)}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "ct_bce_a": pairs_and_terms,
    "ct_bce_sum_a": summed,
    "ct_inbatch_a": in_batch,
    "ct_pairs_a": pairs,
    "ct_schedule_a": schedule,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_the_oracle_by_hand(golden: Callable[[str], Any]) -> None:
    case = golden("ct_bce_a")
    a, b = case.inputs["a"].tolist(), case.inputs["b"].tolist()
    logits = [sum(x * y for x, y in zip(*rows, strict=True)) for rows in zip(a, b, strict=True)]
    labels = case.inputs["labels"].tolist()
    terms = [math.log1p(math.exp(-x if y else x)) for x, y in zip(logits, labels, strict=True)]
    assert sum(terms) / len(terms) == pytest.approx(float(case.outputs["loss"]), rel=1e-9)


def test_pairs_by_hand() -> None:
    assert tension_pairs([7], [1, 2, 3, 4], count=2) == ([7, 1, 2], [7, 3, 4], [1, 0, 0])
    assert tension_pairs([7], [1, 2], count=2, anchored=True) == ([7] * 3, [7, 1, 2], [1, 0, 0])
    with pytest.raises(ValueError, match="expected 4 negatives for each of 1 positives, got 3"):
        tension_pairs([7], [1, 2, 3], count=2)


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    """But for the optimiser's."""
    assert golden_names("ct_*") - {"ct_rmsprop_a"} == CASES.keys()
