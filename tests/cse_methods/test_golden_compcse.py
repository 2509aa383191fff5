"""CompCSE's compositions reproduce the stored values of its code and its paper."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.composition import Aggregation, aggregate, leading
from cse_methods.losses.info_nce import info_nce

Values = dict[str, Tensor]
NAMES = [
    "compcse_avg_a",
    "compcse_avg_nohead_a",
    "compcse_cat_first_last_a",
    "compcse_cat_first_last_nohead_a",
    "compcse_d0_infonce_a",
    "compcse_oracle_avg_after_mlp_a",
    "compcse_oracle_avg_before_mlp_a",
    "compcse_oracle_cat_first_last_after_mlp_a",
    "compcse_oracle_cat_first_last_before_mlp_a",
    "compcse_oracle_concat_absdiff_project_after_mlp_a",
    "compcse_oracle_concat_absdiff_project_before_mlp_a",
    "compcse_oracle_concat_project_after_mlp_a",
    "compcse_oracle_concat_project_before_mlp_a",
    "compcse_oracle_sum_after_mlp_a",
    "compcse_oracle_sum_before_mlp_a",
]
AGGREGATIONS: dict[str, Aggregation] = {
    "sum": "sum",
    "avg": "average",
    "cat_first_last": "concat-halves",
    "concat_project": "concat-project",
    "concat_absdiff_project": "concat-absdiff-project",
}


def views(inputs: Values, params: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The anchors and their composed positives, after the head."""
    if "z" in inputs:
        return inputs["z"][:, 0], inputs["z"][:, 1]

    def head(rows: Tensor) -> Tensor:
        return F.linear(rows, inputs["W"], inputs["b"]).tanh() if "W" in inputs else rows

    def compose(parts: tuple[Tensor, ...]) -> Tensor:
        how = AGGREGATIONS[params["compose_fn"]]
        return aggregate(parts, aggregation=how, projection=inputs.get("P"))

    anchors, *parts = inputs["r"].unbind(dim=1)
    # `order` says where aggregation stands; the released code aggregates before the head.
    if params.get("order") == "after_mlp":
        return head(anchors), compose(tuple(head(part) for part in parts))
    return head(anchors), head(compose(tuple(parts)))


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    anchors, positives = (leading(view, params["d0"]) for view in views(inputs, params))
    return {"loss": info_nce(anchors, positives, temperature=params["temp"])}


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(loss, without=frozenset({"logits"}))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("compcse_*") == set(NAMES)
    assert set(AGGREGATIONS.values()) == set(get_args(Aggregation))
