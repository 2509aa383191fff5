"""Load masked language models by name: encoders with a head that predicts masked word pieces."""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from cse_methods.encoders.backbones import (
    fetch_backbone,
    list_weights,
    locate_backbone,
    resolve_backbone,
)
from cse_methods.encoders.encoder_check import iterate_weights
from cse_methods.encoders.packing import spread_mask
from cse_methods.encoders.reading import naming_the_backbone, read_tokenizer
from cse_methods.encoders.sentence_transformers_format import transformer_folder
from cse_methods.errors import BackboneError

HEADS = {"mini": Path(__file__).parents[1] / "mini" / "masked_lm_head.safetensors"}
"""Trained heads for encoders of this package, whose own weight files have none."""
_HEAD = re.compile(r"(^|\.)(predictions|\w+_predictions|lm_head|vocab_transform|head)\.")
"""The names that the families give to the weights of such a head."""


class MaskedLanguageModel(nn.Module):
    """A model that predicts word pieces, with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Predict the most likely word piece at every place of whole rows, shape (B, L).

        The mask has 1 for word pieces, 0 for padding; predictions at padding are meaningless.
        """
        if self.model.config._attn_implementation == "sdpa":
            mask = spread_mask(mask)
        guesses: Tensor = self.model(ids, attention_mask=mask).logits.argmax(dim=-1)
        return guesses


def check_masked_lm(name: str) -> None:
    """Raise BackboneError if weights that are here have no head for masked word pieces."""
    folder = locate_backbone(resolve_backbone(name))
    if folder is not None and name not in HEADS:
        with naming_the_backbone(name, folder):
            weights = iterate_weights(list_weights(transformer_folder(folder)))
            has_head = any(_HEAD.search(tensor) for tensor, _ in weights)
        if not has_head:
            raise _make_headless_error(name, folder, "such a head")


def _make_headless_error(name: str, folder: Path, lacking: str) -> BackboneError:
    return BackboneError(
        f"{name!r} has no head for masked word pieces: the weights in {folder} lack {lacking}; "
        "take a masked language model, such as distilbert-base or distilroberta-base"
    )


def load_masked_lm(name: str) -> MaskedLanguageModel:
    """Load a masked language model in evaluation mode on the CPU, downloading it if needed.

    BackboneError if no encoder has that name, it cannot be loaded, or its checkpoint has no head
    for masked word pieces, which sentence encoders do not have.
    """
    from transformers import AutoModelForMaskedLM

    auto: Any = AutoModelForMaskedLM
    folder = fetch_backbone(resolve_backbone(name))
    with naming_the_backbone(name, folder):
        model, report = auto.from_pretrained(
            transformer_folder(folder),
            output_loading_info=True,
            dtype=torch.float32,
            trust_remote_code=False,
        )
    if name in HEADS:
        model.load_state_dict(load_file(HEADS[name]), strict=False)
    elif missing := report["missing_keys"]:
        raise _make_headless_error(name, folder, min(missing))
    return MaskedLanguageModel(model, read_tokenizer(folder, name)).eval()
