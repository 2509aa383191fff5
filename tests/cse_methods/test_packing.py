from pathlib import Path

import pytest
import tiny_families
import torch
from some_sentences import PROMPT
from some_sentences import THREE as SENTENCES
from torch import Tensor

from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import FAMILIES
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.packing import PACKED


@pytest.mark.parametrize(
    ("family", "pooler"),
    [
        # Two families with each of the poolers, and all of them under the slow mark.
        pytest.param(family, pooler, marks=[] if f in (4 * p, 4 * p + 1) else pytest.mark.slow)
        for f, family in enumerate(FAMILIES)
        for p, pooler in enumerate(("cls", "mask", "avg", "avg_first_last"))
    ],
)
def test_packed_rows_give_the_vectors_and_gradients_of_padded_ones(
    family, pooler, tmp_path
) -> None:
    tiny_families.save_tiny(family, tmp_path)
    fast, plain = (
        load_encoder(
            str(tmp_path),
            pooler=pooler,
            prompt=PROMPT if pooler == "mask" else None,
            attention=kernel,
            dropout=0.0,
        ).train()
        for kernel in ("sdpa", "eager")
    )
    assert plain.model.config._attn_implementation == "eager"
    (vectors, gradients), (expected, those) = map(vectors_and_gradients, (fast, plain))
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-5)
    assert gradients.keys() == those.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, those[name], rtol=1e-4, atol=1e-5, msg=name)


def vectors_and_gradients(encoder: Encoder) -> tuple[Tensor, dict[str, Tensor]]:
    vectors = encoder(encoder.pad(encoder.rows(SENTENCES)))
    vectors.square().mean().backward()
    found = {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}
    return vectors.detach(), found


def test_the_dense_layers_see_no_padding(tmp_path: Path) -> None:
    tiny_families.save_tiny("bert", tmp_path)
    encoder = load_encoder(str(tmp_path), pooler="cls")
    assert encoder.model.config._attn_implementation == PACKED
    seen: list[int] = []
    for layer in encoder.model.encoder.layer:
        dense = layer.intermediate
        dense.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0][..., 0].numel()))
    rows = encoder.rows(SENTENCES)
    encoder(encoder.pad(rows))
    assert set(seen[:-1]) == {sum(map(len, rows))}
    assert seen[-1] == len(rows)  # the last layer computes what is read, and no more
