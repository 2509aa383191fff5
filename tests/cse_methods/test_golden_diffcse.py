"""DiffCSE's losses, head and replacements reproduce stored values of its code, and an oracle."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.augmentation.replaced_pieces import mask_for_generator, replace_pieces
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.replaced_pieces import (
    DetectedOver,
    replace_first_embedding,
    replaced_piece_loss,
)
from cse_methods.training.batchnorm_head import BatchNormHead

Values = dict[str, Tensor]


def total(views: Tensor, detection: Tensor, params: dict[str, Any]) -> Values:
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    return {"loss": contrastive + params["lam"] * detection, "infonce": contrastive}


def loss(inputs: Values, params: dict[str, Any], *, over: DetectedOver = "all") -> Values:
    logits, labels, mask = (inputs[n] for n in ("rtd_logits", "labels", "attention_mask"))
    detection = replaced_piece_loss(logits, labels, mask, over=over)
    return total(inputs["z"], detection, params) | {"rtd": detection}


def conditional(inputs: Values, params: dict[str, Any]) -> Values:
    mask = inputs["attention_mask"]
    views = (inputs["h"] @ inputs["W"].T + inputs["b"]).tanh()
    edited, labels = replace_pieces(inputs["input_ids"], mask, inputs["generator_argmax"])
    assert edited[:, 0].eq(params["cls_token"]).all()
    read = replace_first_embedding(inputs["E"][edited], views.flatten(0, 1))
    weights = mask[..., None].to(read)
    mean = (read * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True)
    judged = (read + mean @ inputs["U"].T).tanh() @ inputs["C"].T + inputs["c"]
    return {"loss": total(views, replaced_piece_loss(judged, labels, mask), params)["loss"]}


def projection(inputs: Values, params: dict[str, Any]) -> Values:
    head = BatchNormHead(inputs["x"].shape[1]).double()
    norms = (head.first_norm, head.second_norm)
    for number, norm in enumerate(norms, start=1):
        assert (norm.eps, norm.momentum) == (params["eps"], params["momentum"])
        norm.running_mean = inputs[f"running_mean{number}"].detach().clone()
        norm.running_var = inputs[f"running_var{number}"].detach().clone()
    given = {
        "first.weight": inputs["W1"],
        "first_norm.weight": inputs["gamma"],
        "first_norm.bias": inputs["beta"],
        "second.weight": inputs["W2"],
    }
    projected = torch.func.functional_call(head, given, (inputs["x"],))
    found = {"loss": (projected * inputs["upstream"]).sum(), "y": projected}
    for number, norm in enumerate(norms, start=1):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        found |= {f"running_mean{number}": norm.running_mean}
        found |= {f"running_var{number}": norm.running_var}
    head.eval()
    return found | {"y_eval": torch.func.functional_call(head, given, (inputs["x"],))}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "diffcse_loss_a": loss,
    "diffcse_oracle_realtokens_a": partial(loss, over="real"),
    "diffcse_conditional_a": conditional,
    "diffcse_projection_a": projection,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_masks_for_the_generator(golden: Callable[[str], Any]) -> None:
    case = golden("diffcse_generator_masking_a")
    found = mask_for_generator(
        *(
            case.inputs[name]
            for name in (
                *("input_ids", "special_tokens_mask", "uniform_select"),
                *("uniform_mask", "uniform_random", "random_words"),
            )
        ),
        rate=case.params["masking_ratio"],
        mask=case.params["mask_token"],
    )
    assert found.tolist() == case.outputs["mlm_input_ids"].tolist()


def test_replaced_pieces(golden: Callable[[str], Any]) -> None:
    case = golden("diffcse_replaced_tokens_a")
    names = ("input_ids", "attention_mask", "generator_argmax")
    edited, labels = replace_pieces(*(case.inputs[name] for name in names))
    assert edited.tolist() == case.outputs["edited_ids"].tolist()
    assert labels.tolist() == case.outputs["labels"].tolist()


def test_the_oracle_by_hand(golden: Callable[[str], Any]) -> None:
    case = golden("diffcse_oracle_realtokens_a")
    logits, labels, mask = (
        case.inputs[n].tolist() for n in ("rtd_logits", "labels", "attention_mask")
    )
    losses = []
    for row, (of_row, real) in enumerate(zip(labels, mask, strict=True)):
        for place, label in enumerate(of_row):
            if real[place]:
                stayed, replaced = map(math.exp, logits[row][place])
                losses.append(-math.log((replaced if label else stayed) / (stayed + replaced)))
    assert sum(losses) / len(losses) == pytest.approx(float(case.outputs["rtd"]), rel=1e-9)


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    others = {"diffcse_generator_masking_a", "diffcse_replaced_tokens_a"}
    assert golden_names("diffcse_*") == CASES.keys() | others
