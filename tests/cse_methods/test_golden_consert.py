"""ConSERT's loss and augmentations reproduce the stored values of its code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.augmentation.cutoff import draw_places, zero_elements, zero_features, zero_tokens
from cse_methods.augmentation.noise import adversarial_noise
from cse_methods.encoders.edits import Edits, piece_positions
from cse_methods.losses.nt_xent import nt_xent

Values = dict[str, Tensor]


def contrast(inputs: Values, params: dict[str, Any]) -> Values:
    assert params["normalize"]
    forth, back = nt_xent(*inputs["z"].unbind(dim=1), temperature=params["temp"])
    return {"loss": forth + back, "loss_a": forth, "loss_b": back}


def cutoff(inputs: Values, params: dict[str, Any]) -> Values:
    zero = {"row": zero_tokens, "column": zero_features, "random": zero_elements}
    left = zero[params["direction"]](inputs["embeddings"], inputs["cut"])
    drawn = draw_places(available(inputs, params["direction"]), rate=params["rate"])
    assert torch.equal((drawn >= 0).sum(dim=1), (inputs["cut"] >= 0).sum(dim=1))
    loss = (left * inputs["upstream"].detach()).sum()
    return {"loss": loss, "embeddings": left, "num_cut": (drawn >= 0).sum(dim=1)}


def available(inputs: Values, direction: str) -> Tensor:
    """What each sentence can lose: its tokens, all features, or the elements of its tokens."""
    embeddings, real = inputs["embeddings"], inputs["attention_mask"].bool()
    if direction == "row":
        return real
    if direction == "column":
        return torch.ones_like(embeddings[:, 0], dtype=torch.bool)
    return real.unsqueeze(-1).expand_as(embeddings).flatten(1)


def shuffle(inputs: Values, params: dict[str, Any]) -> Values:
    mask, orders = inputs["attention_mask"], inputs["order"]
    pieces = mask.flatten().nonzero().squeeze(1)
    rows = [order[order >= 0].tolist() for order in orders]
    given = {"attention_mask": mask, "pieces": pieces}
    positions = torch.arange(mask.shape[1]).repeat(len(mask))
    positions[pieces] = piece_positions(given, Edits(positions=rows), lowest=0, limit=mask.shape[1])
    positions = positions.view_as(mask)
    return {
        "position_ids": positions,
        "position_ids_offset": params["first_position"] + positions,
    }


def adversary(inputs: Values, params: dict[str, Any]) -> Values:
    """A step with labels: a stand-in encoder, a classifier of pairs, and the adversary's views."""
    labels, real = inputs["labels"], inputs["attention_mask"].unsqueeze(-1).double()

    def encode(embeddings: Tensor) -> Tensor:
        vectors = (embeddings @ inputs["W"]).tanh()
        return (vectors * real).sum(dim=1) / real.sum(dim=1)

    def classify(first: Tensor, second: Tensor) -> Tensor:
        features = torch.cat([first, second, (first - second).abs()], dim=1)
        return F.cross_entropy(features @ inputs["Wc"].T + inputs["bc"], labels)

    embedded = [inputs["E_a"], inputs["E_b"]]
    plain = [encode(one) for one in embedded]
    normal = classify(*plain)
    gradients = torch.autograd.grad(normal, embedded, retain_graph=True)
    noises = [adversarial_noise(one, norm=params["noise_norm"]) for one in gradients]
    moved = [encode(one + noise) for one, noise in zip(embedded, noises, strict=True)]
    pairs = [(first, second) for first in (plain[0], moved[0]) for second in (plain[1], moved[1])]
    adversarial = torch.stack([classify(*pair) for pair in pairs]).mean()
    contrastive = torch.stack(
        [
            direction
            for two in zip(plain, moved, strict=True)
            for direction in nt_xent(*two, temperature=params["temp"])
        ]
    ).sum()
    return {
        "loss": params["adv_rate"] * adversarial + params["cl_rate"] * contrastive,
        "normal_loss": normal,
        **dict(zip(("noise_a", "noise_b"), noises, strict=True)),
        **{"contrast": contrastive, "adv_loss": adversarial},
    }


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "consert_ntxent_a": contrast,
    "consert_token_cutoff_a": cutoff,
    "consert_feature_cutoff_a": cutoff,
    "consert_element_cutoff_a": cutoff,
    "consert_shuffle_a": shuffle,
    "consert_adversarial_a": adversary,
}
ELSEWHERE = {"consert_adamw_a"}
"""Where the optimisers are tested."""


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name])


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("consert_*") == CASES.keys() | ELSEWHERE
