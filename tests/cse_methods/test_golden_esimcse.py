"""ESimCSE's loss, queue, momentum and repetition reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cse_methods.encoders.word_pieces import most_repeats, repeat_pieces
from cse_methods.losses.info_nce import info_nce
from cse_methods.training.momentum import enqueue, moving_average_

Values = dict[str, Tensor]


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    z, queue = inputs["z"], inputs.get("queue")
    return {"loss": info_nce(z[:, 0], z[:, 1], temperature=params["temp"], queue=queue)}


def queue_by_step(inputs: Values, params: dict[str, Any]) -> Values:
    queue, used = torch.empty(0, 1), {}
    # The rows of all batches are numbered through.
    for step, rows in enumerate(
        torch.arange(16.0).unsqueeze(1).split(tuple(inputs["batch_sizes"]))
    ):
        used[f"queue_used_at_step{step}"] = queue[:, 0]
        queue = enqueue(queue, rows, size=params["neg_size"])
    return {**used, "queue_final": queue[:, 0]}


def momentum_by_step(inputs: Values, params: dict[str, Any]) -> Values:
    follows, leads = nn.Linear(4, 3, bias=False).double(), nn.Linear(4, 3, bias=False).double()
    follows.weight.data = inputs["param_m0"].detach().clone()
    steps = []
    for value in inputs["params"].detach():
        leads.weight.data = value
        moving_average_(follows, leads, momentum=params["momentum"])
        steps.append(follows.weight.detach().clone())
    return {"param_m": torch.stack(steps)}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "esimcse_noqueue_loss_a": loss,
    "esimcse_queue_loss_a": loss,
    "esimcse_queue_loss_b": loss,
    "esimcse_queue_update_a": queue_by_step,
    "esimcse_momentum_update_a": momentum_by_step,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_repetition(golden: Callable[[str], Any]) -> None:
    case = golden("esimcse_bpe_repetition_a")
    inputs, outputs, rate = case.inputs, case.outputs, case.params["dup_rate"]
    for row, length in enumerate(inputs["lengths"].tolist()):
        first, *content, last = inputs["ids"][row, :length].tolist()
        # Stored positions count [CLS]; zeros fill the row up, and -1 ends it.
        positions = [p - 1 for p in inputs["dup_positions"][row].tolist() if p > 0]
        expected = outputs["ids"][row, : outputs["lengths"][row]].tolist()
        assert [first, *repeat_pieces(content, positions), last] == expected
        assert len(positions) == outputs["num_added"][row]
        most = most_repeats(length, rate=rate, bounds="released")
        assert most == outputs["max_possible_add"][row]


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("esimcse_*") == CASES.keys() | {"esimcse_bpe_repetition_a"}
