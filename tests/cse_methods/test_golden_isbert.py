"""IS-BERT's loss and convolutions reproduce the stored values of its code and of its equations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.losses.mutual_information import mutual_information

Values = dict[str, Tensor]


def information(tokens: Tensor, mask: Tensor, sentences: Tensor) -> Values:
    positive, negative = mutual_information(tokens, mask, sentences)
    return {"loss": negative - positive, "e_pos": positive, "e_neg": negative}


def loss(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    tokens = inputs["tokens"]
    mask = torch.arange(tokens.shape[1]) < inputs["lengths"].unsqueeze(1)
    return information(tokens, mask, inputs["global"])


def step(inputs: Values, params: dict[str, Any]) -> Values:
    """From the vectors of word pieces to the loss."""
    sizes, vectors, mask = params["kernel_sizes"], inputs["x"], inputs["attention_mask"]
    layer = TokenConvolution(
        vectors.shape[2],
        params["channels"],
        sizes,
        relu=params["relu"],
        mask_padding=params["zero_padding_vectors"],
    )
    weights = {f"convs.{place}.weight": inputs[f"W{size}"] for place, size in enumerate(sizes)}
    biases = {f"convs.{place}.bias": inputs[f"b{size}"] for place, size in enumerate(sizes)}
    tokens = torch.func.functional_call(layer, weights | biases, (vectors, mask))
    real = mask.unsqueeze(-1)
    sentences = (tokens * real).sum(dim=1) / real.sum(dim=1)
    return information(tokens, mask, sentences) | {"global": sentences}


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "isbert_jsd_a": loss,
    "isbert_full_code_a": step,
    "isbert_oracle_relu_masked_a": step,
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("isbert_*") == CASES.keys()
