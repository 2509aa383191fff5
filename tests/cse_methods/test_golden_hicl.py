"""HiCL's losses, pooling and slicing reproduce the stored values made from its equations."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from cse_methods.encoders.word_pieces import cut_segments
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.segments import entailment, local_contrast, pool_segments

Values = dict[str, Tensor]
NAMES = [
    "hicl_oracle_averaging_a",
    "hicl_oracle_cross_view_averaging_a",
    "hicl_oracle_cross_view_negatives_a",
    "hicl_oracle_global_only_cross_view_a",
    "hicl_oracle_local_global_a",
    "hicl_oracle_local_only_a",
    "hicl_oracle_same_seq_negative_a",
    "hicl_oracle_same_seq_negative_averaging_a",
    "hicl_oracle_same_seq_positive_a",
    "hicl_oracle_unweighted_pool_a",
    "hicl_oracle_v2_entailment_a",
    "hicl_oracle_v2_entailment_cross_view_a",
]


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    first, second, sequence = inputs["h"], inputs["h_plus"], inputs["seq_id"]
    weights = inputs["seg_len"] if params["pooling"] == "weighted" else None
    pooled, pooled_second = (pool_segments(h, sequence, weights) for h in (first, second))
    temperature, origin = params["temp"], params["negatives_from"]
    local = local_contrast(
        first,
        second,
        sequence,
        temperature=temperature,
        same_sequence=params["same_sequence"],
        negatives=params["contrast"],
        negatives_from=origin,
    )
    whole = info_nce(pooled, pooled_second, temperature=temperature, negatives_from=origin)
    entailed = entailment(first, pooled, sequence, temperature=temperature)
    alpha, beta = params["alpha"], params["beta"]
    return {
        "loss": alpha * local + beta * entailed + (1 - alpha - beta) * whole,
        "local_sum": local * len(first),
        "local_mean": local,
        "global_mean": whole,
        "entail_mean": entailed,
        "pooled": pooled,
    }


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    # Ours is the mean over all segments, not over sequences of the means within.
    golden(name).is_reproduced_by(loss, without=frozenset({"local_seq_mean"}))


def test_slicing(golden: Callable[[str], Any]) -> None:
    case = golden("hicl_slicing_a")
    for row, length in enumerate(case.inputs["lengths"].tolist()):
        segments = cut_segments(range(length), case.params["slice_len"])
        expected = [size for size in case.outputs["segment_lengths"][row].tolist() if size]
        assert [len(segment) for segment in segments] == expected
        assert len(segments) == case.outputs["num_segments"][row]
        assert [piece for segment in segments for piece in segment] == list(range(length))


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("hicl_*") == {*NAMES, "hicl_slicing_a"}
