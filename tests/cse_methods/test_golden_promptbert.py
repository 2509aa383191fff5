"""PromptBERT's loss, positions and templates reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.encoders.bare_template import denoise, template_positions
from cse_methods.encoders.template import Template
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.similarity import cosine_matrix

Values = dict[str, Tensor]


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    views = list(inputs["h"].unbind(dim=1))
    if params.get("denoise", True):
        bare = [inputs["template1"], inputs.get("template2", inputs["template1"])]
        if params.get("freeze_template"):
            bare = [vectors.detach() for vectors in bare]
        lengths = inputs["lengths"].unbind(dim=1)
        views = [denoise(*one) for one in zip(views, bare, lengths, strict=True)]
    first, second = ((view @ inputs["W"].T + inputs["b"]).tanh() for view in views)
    logits = cosine_matrix(first, second) / params["temp"]
    return {"loss": info_nce(first, second, temperature=params["temp"]), "logits": logits}


def switched(inputs: Values, params: dict[str, Any]) -> Values:
    return {"loss": loss(inputs, params)["loss"]}


def positions(inputs: Values, params: dict[str, Any]) -> Values:
    ids, prefix = inputs["template_ids"].tolist(), 1 + params["prefix_pieces"]
    template = Template(tuple(ids[:prefix]), tuple(ids[prefix:]))
    lengths = [k if params["shift_positions"] else 0 for k in range(params["lengths"])]
    return {"position_ids": torch.tensor([template_positions(template, k) for k in lengths])}


def wrap(inputs: Values, params: dict[str, Any]) -> Values:
    pad = params["pad_token"]
    before, after = inputs["prefix"].tolist(), inputs["suffix"].tolist()
    rows = [[piece for piece in row if piece != pad] for row in inputs["input_ids"].tolist()]
    template = Template((rows[0][0], *before), (*after, rows[0][-1]))
    contents = [row[1:-1] for row in rows]
    wide = inputs["input_ids"].shape[1] + len(before) + len(after)
    prompted = [(template(content) + [pad] * wide)[:wide] for content in contents]
    vectors = inputs["h"]
    if params["denoise"]:
        vectors = denoise(vectors, inputs["template"], [len(content) for content in contents])
    return {"prompted_ids": torch.tensor(prompted), "embedding": vectors}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "promptbert_loss_a": loss,
    "promptbert_switches_a": switched,
    "promptbert_positions_a": positions,
    "promptbert_wrap_a": wrap,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_a_frozen_template_takes_no_gradient(golden: Callable[[str], Any]) -> None:
    case = golden("promptbert_loss_a")
    loss(case.inputs, case.params | {"freeze_template": True})["loss"].backward()
    assert case.inputs["template1"].grad is None
    assert case.inputs["h"].grad is not None


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("promptbert_*") == CASES.keys()
