"""Losses, metrics and poolers reproduce the stored reference values, in float64."""

from collections.abc import Callable
from typing import Any

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
Params = dict[str, Any]
Compute = Callable[[Values, Params], Values]


def simcse(inputs: Values, params: Params) -> Values:
    z = inputs["z"]
    return {"loss": info_nce(z[:, 0], z[:, 1], temperature=params["temp"])}


def simcse_hard_negatives(inputs: Values, params: Params) -> Values:
    z = inputs["z"]
    weight = params["hard_negative_weight"]
    loss = info_nce(
        z[:, 0],
        z[:, 1],
        temperature=params["temp"],
        negatives=z[:, 2],
        hard_negative_weight=weight,
    )
    return {"loss": loss}


def released_list_net(inputs: Values, params: Params) -> Values:
    rank = list_net(
        inputs["student"],
        inputs["teacher"],
        student_temperature=1,
        teacher_temperature=1,
    )
    return {"loss": params["gamma"] * rank}


def released_list_mle(inputs: Values, params: Params) -> Values:
    student, teacher = inputs["student"], inputs["teacher"]
    rank = list_mle(student, teacher, temperature=1, eps=params["eps"])
    exact = list_mle(student.detach(), teacher, temperature=1)
    gamma = params["gamma"]
    return {"loss": gamma * rank, "exact_eq5_mean": gamma * exact}


def released_term(inputs: Values, params: Params) -> Values:
    first, second = inputs["s12"], inputs["s21"]
    return {"loss": released_consistency(first, second, temperature=1)}


def jensen_shannon(inputs: Values, params: Params) -> Values:
    first, second = inputs["s12"], inputs["s21"]
    loss = ranking_consistency(first, second, temperature=1)
    total = ranking_consistency(first, second, temperature=1, reduction="sum")
    return {"loss": loss, "sum": total}


def teacher_list(inputs: Values, params: Params) -> Tensor:
    t1, t2, alpha = inputs["t1"], inputs["t2"], params["alpha"]
    return alpha * cosine_matrix(t1, t1) + (1 - alpha) * cosine_matrix(t2, t2)


def summed(contrastive: Tensor, consistency: Tensor, rank: Tensor) -> Values:
    loss = contrastive + consistency + rank
    return {"loss": loss, "infonce": contrastive, "consistency": consistency, "rank": rank}


def released_rankcse(rank_loss: str) -> Compute:
    def compute(inputs: Values, params: Params) -> Values:
        z = inputs["z"]
        student, teacher = cosine_matrix(z[:, 0], z[:, 1]), teacher_list(inputs, params)
        tau = params["temp"]
        if rank_loss == "listnet":
            rank = list_net(
                student, teacher, student_temperature=tau, teacher_temperature=params["tau2"]
            )
        else:
            rank = list_mle(student, teacher, temperature=tau, eps=1e-7)
        contrastive = info_nce(z[:, 0], z[:, 1], temperature=tau)
        return summed(contrastive, released_consistency(student, temperature=tau), rank)

    return compute


def published_rankcse(inputs: Values, params: Params) -> Values:
    z = inputs["z"]
    student, teacher = cosine_matrix(z[:, 0], z[:, 1]), teacher_list(inputs, params)
    how = params["reduction"]
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


LOSSES: dict[str, Compute] = {
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
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(LOSSES[name], without=frozenset({"logits"}))


def test_alignment_and_uniformity(golden: Callable[[str], Any]) -> None:
    case = golden("metrics_align_uniform_a")
    x, y = case.inputs["x"].detach(), case.inputs["y"].detach()
    found = {
        "align": alignment(x, y),
        "uniform_x": uniformity(x),
        "uniform_xy": uniformity(torch.cat([x, y])),
    }
    assert found == pytest.approx({k: float(v) for k, v in case.outputs.items()}, rel=1e-9)


def test_every_case_of_these_methods_is_here(golden_names: Callable[..., set[str]]) -> None:
    stored = golden_names("simcse_*", "rankcse_*", "metrics_align_*")
    assert stored == LOSSES.keys() | ENCODER | METRICS
