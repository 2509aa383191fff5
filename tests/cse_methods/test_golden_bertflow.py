"""BERT-flow's flow, its start and its pooler reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cse_methods.encoders.flow import Flow
from cse_methods.encoders.pooling import pool
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.losses.likelihood import bits_per_dimension, log_likelihood

Values = dict[str, Tensor]
Layout = list[tuple[str, list[int]]]


class FlowWithVolume(nn.Module):
    """What a flow gives for a batch, with the log of its volume."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow(rows), self.flow.log_determinant()


def our_name(stored: str) -> str:
    """Of a parameter `l<level>s<step>_<part>_<what>`."""
    place, part, what = stored.split("_")
    level, step = place.removeprefix("l").split("s")
    kind = {"b": "shift", "logs": "log_scale", "W": ""}[what]
    if part == "an":
        return f"levels.{level}.{step}.norm.{kind}"
    layer = int(part.removeprefix("c")) - 1
    within = f"norms.{layer}.{kind}" if kind else f"weights.{layer}"
    return f"levels.{level}.{step}.coupling.{within}"


def unflatten(values: Tensor, layout: Layout) -> Values:
    sizes = [int(torch.tensor(shape).prod()) for _, shape in layout]
    parts = torch.split_with_sizes(values, sizes)
    return {
        our_name(name): part.view(shape) for (name, shape), part in zip(layout, parts, strict=True)
    }


def empty_flow(width: int, params: dict[str, Any]) -> Flow:
    return Flow(width, params["levels"], params["depth"], params["width"]).double()


def flow(inputs: Values, params: dict[str, Any]) -> Values:
    width = inputs["x"].shape[1]
    weights = unflatten(inputs["weights"], params["layout"])
    whole = FlowWithVolume(empty_flow(width, params))
    named = {f"flow.{name}": value for name, value in weights.items()}
    assert named.keys() == dict(whole.named_parameters()).keys()
    mapped, volume = torch.func.functional_call(whole, named, (inputs["x"],))
    likelihood = log_likelihood(mapped, volume)
    bits = bits_per_dimension(likelihood, width=width)
    return {
        **{"loss": bits.mean(), "z": mapped, "log_likelihood": likelihood},
        **{"log_det": volume, "nll": bits},
    }


def inverse(inputs: Values, params: dict[str, Any]) -> Values:
    loaded = empty_flow(inputs["z"].shape[1], params)
    loaded.load_state_dict(unflatten(inputs["weights"].detach(), params["layout"]))
    found = loaded.inverse(inputs["z"])
    torch.testing.assert_close(loaded(found), inputs["z"], rtol=1e-9, atol=1e-12)
    return {"x": found}


def start(inputs: Values, params: dict[str, Any]) -> Values:
    fresh = empty_flow(inputs["x"].shape[1], params)
    weights = unflatten(inputs["weights"].detach(), params["layout_weights"])
    fresh.load_state_dict(weights, strict=False)
    mapped = fresh.start(inputs["x"].detach())
    state = fresh.state_dict()
    started = [state[our_name(name)].flatten() for name, _ in params["layout_started"]]
    return {"z": mapped, "started": torch.cat(started)}


def poolers(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    states, mask = list(inputs["hidden_states"]), inputs["attention_mask"]
    return {
        "released": pool(states, mask, Pooling("avg_first_last", first_layer=1)),
        "intended": pool(states, mask, Pooling("avg_top2")),
    }


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "bertflow_flow_a": flow,
    "bertflow_inverse_a": inverse,
    "bertflow_init_a": start,
    "bertflow_avg_last2_code_a": poolers,
}
ELSEWHERE = {"bertflow_adam_a"}
"""Where the optimisers are tested."""


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("bertflow_*") == CASES.keys() | ELSEWHERE
