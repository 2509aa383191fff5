"""Losses, metrics and poolers reproduce the stored reference values, in float64."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.ranking_consistency import ranking_consistency, released_consistency
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.metrics import alignment, uniformity

Values = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    params: dict[str, Any]
    inputs: Values
    """Leaves that gather gradients."""
    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]


def read(shared: Path, name: str) -> Case:
    with np.load(shared / "reference" / f"{name}.npz", allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}

    def having(prefix: str) -> dict[str, np.ndarray]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    inputs = {k: torch.from_numpy(v) for k, v in having("in_").items()}
    for value in inputs.values():
        value.requires_grad_(value.is_floating_point())
    params = json.loads(str(arrays["params"]))
    return Case(params, inputs, having("out_"), having("grad_"))


def simcse(case: Case) -> Values:
    z = case.inputs["z"]
    return {"loss": info_nce(z[:, 0], z[:, 1], temperature=case.params["temp"])}


def simcse_hard_negatives(case: Case) -> Values:
    z, params = case.inputs["z"], case.params
    weight = params["hard_negative_weight"]
    loss = info_nce(
        z[:, 0],
        z[:, 1],
        temperature=params["temp"],
        negatives=z[:, 2],
        hard_negative_weight=weight,
    )
    return {"loss": loss}


def released_list_net(case: Case) -> Values:
    rank = list_net(
        case.inputs["student"],
        case.inputs["teacher"],
        student_temperature=1,
        teacher_temperature=1,
    )
    return {"loss": case.params["gamma"] * rank}


def released_list_mle(case: Case) -> Values:
    student, teacher = case.inputs["student"], case.inputs["teacher"]
    rank = list_mle(student, teacher, temperature=1, eps=case.params["eps"])
    exact = list_mle(student.detach(), teacher, temperature=1)
    gamma = case.params["gamma"]
    return {"loss": gamma * rank, "exact_eq5_mean": gamma * exact}


def released_term(case: Case) -> Values:
    first, second = case.inputs["s12"], case.inputs["s21"]
    return {"loss": released_consistency(first, second, temperature=1)}


def jensen_shannon(case: Case) -> Values:
    first, second = case.inputs["s12"], case.inputs["s21"]
    loss = ranking_consistency(first, second, temperature=1)
    total = ranking_consistency(first, second, temperature=1, reduction="sum")
    return {"loss": loss, "sum": total}


def teacher_list(case: Case) -> Tensor:
    t1, t2, alpha = case.inputs["t1"], case.inputs["t2"], case.params["alpha"]
    return alpha * cosine_matrix(t1, t1) + (1 - alpha) * cosine_matrix(t2, t2)


def summed(contrastive: Tensor, consistency: Tensor, rank: Tensor) -> Values:
    loss = contrastive + consistency + rank
    return {"loss": loss, "infonce": contrastive, "consistency": consistency, "rank": rank}


def released_rankcse(rank_loss: str) -> Callable[[Case], Values]:
    def compute(case: Case) -> Values:
        z, params = case.inputs["z"], case.params
        student, teacher, tau = cosine_matrix(z[:, 0], z[:, 1]), teacher_list(case), params["temp"]
        if rank_loss == "listnet":
            rank = list_net(
                student, teacher, student_temperature=tau, teacher_temperature=params["tau2"]
            )
        else:
            rank = list_mle(student, teacher, temperature=tau, eps=1e-7)
        contrastive = info_nce(z[:, 0], z[:, 1], temperature=tau)
        return summed(contrastive, released_consistency(student, temperature=tau), rank)

    return compute


def published_rankcse(case: Case) -> Values:
    z, params = case.inputs["z"], case.params
    student, teacher, how = cosine_matrix(z[:, 0], z[:, 1]), teacher_list(case), params["reduction"]
    positive = {"exclude_positive": params["exclude_positive"], "reduction": how}
    if params["rank"] == "listnet":
        temperatures = {
            "student_temperature": params["tau2"],
            "teacher_temperature": params["tau3"],
        }
        rank = list_net(student, teacher, **temperatures, **positive)
    else:
        rank = list_mle(student, teacher, temperature=params["tau2"], **positive)
    tau1 = params["tau1"]
    return summed(
        info_nce(z[:, 0], z[:, 1], temperature=tau1, reduction=how),
        params["beta"] * ranking_consistency(student, temperature=tau1, reduction=how),
        params["gamma"] * rank,
    )


LOSSES: dict[str, Callable[[Case], Values]] = {
    "simcse_infonce_a": simcse,
    "simcse_infonce_b": simcse,
    "simcse_infonce_hardneg_a": simcse_hard_negatives,
    "rankcse_listnet_code_a": released_list_net,
    "rankcse_listnet_code_b": released_list_net,
    "rankcse_listmle_code_a": released_list_mle,
    "rankcse_listmle_code_b": released_list_mle,
    "rankcse_consistency_code_a": released_term,
    "rankcse_consistency_code_b": released_term,
    "rankcse_oracle_js_a": jensen_shannon,
    "rankcse_full_code_listnet_a": released_rankcse("listnet"),
    "rankcse_full_code_listmle_a": released_rankcse("listmle"),
    "rankcse_oracle_full_listmle_exclpos_mean_a": published_rankcse,
    "rankcse_oracle_full_listmle_inclpos_mean_a": published_rankcse,
    "rankcse_oracle_full_listmle_inclpos_sum_a": published_rankcse,
    "rankcse_oracle_full_listnet_exclpos_mean_a": published_rankcse,
    "rankcse_oracle_full_listnet_exclpos_sum_a": published_rankcse,
    "rankcse_oracle_full_listnet_inclpos_mean_a": published_rankcse,
}
ENCODER = {"simcse_infonce_mlp_a", "simcse_poolers_a"}
METRICS = {"metrics_align_uniform_a"}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradients(name: str, shared: Path) -> None:
    case = read(shared, name)
    before = {key: value.detach().clone() for key, value in case.inputs.items()}
    values = LOSSES[name](case)
    for key, expected in case.outputs.items():
        if key in values:  # logits are inside our losses, not a result of them
            assert values[key].item() == pytest.approx(float(expected), rel=1e-9), key
    values["loss"].backward()
    for key, gradient in case.gradients.items():
        found = case.inputs[key].grad
        assert found is not None
        np.testing.assert_allclose(found.numpy(), gradient, rtol=1e-7, atol=1e-12)
    for key, value in case.inputs.items():
        assert torch.equal(value.detach(), before[key]), f"{key} was changed in place"


def test_alignment_and_uniformity(shared: Path) -> None:
    case = read(shared, "metrics_align_uniform_a")
    x, y = case.inputs["x"].detach(), case.inputs["y"].detach()
    found = {
        "align": alignment(x, y),
        "uniform_x": uniformity(x),
        "uniform_xy": uniformity(torch.cat([x, y])),
    }
    assert found == pytest.approx({k: float(v) for k, v in case.outputs.items()}, rel=1e-9)


def test_every_case_of_these_methods_is_here(shared: Path) -> None:
    patterns = ("simcse_*", "rankcse_*", "metrics_align_*")
    stored = {path.stem for p in patterns for path in (shared / "reference").glob(f"{p}.npz")}
    assert stored == LOSSES.keys() | ENCODER | METRICS
