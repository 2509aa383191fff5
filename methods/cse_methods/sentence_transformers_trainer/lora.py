"""LoRA: matrices of low rank that are trained, and merged into the model that is kept."""

import copy
from typing import Any

import torch
from peft import LoraConfig, TaskType
from peft.tuners.tuners_utils import BaseTunerLayer

from cse_methods.encoders.library_encoder import LibraryEncoder
from cse_methods.errors import TrainingError
from cse_methods.sentence_transformers_trainer.settings import Lora


class MergedTwin:
    """A copy of an encoder without adapters, with the weights that these make of it.

    It is made before `add_adapter` and holds a second copy of the weights.
    """

    def __init__(self, encoder: LibraryEncoder) -> None:
        self._encoder = copy.deepcopy(encoder)
        parameters = encoder.model.named_parameters()
        self._untrained = {name: weight.detach() for name, weight in parameters}

    @torch.no_grad()
    def updated(self, adapted: Any) -> LibraryEncoder:
        """Return the encoder with the weights of an adapted model: W + BA alpha / r."""
        for name, layer in adapted.named_modules():
            if isinstance(layer, BaseTunerLayer):
                lora: Any = layer
                weight = self._encoder.model.get_submodule(name).weight
                weight.copy_(self._untrained[f"{name}.weight"])
                for adapter in lora.active_adapters:
                    weight += lora.get_delta_weight(adapter)
        return self._encoder


def add_adapter(model: Any, lora: Lora, backbone: str) -> None:
    """Freeze a SentenceTransformer and add the matrices that are trained.

    TrainingError if the model has none of the layers that the settings name.
    """
    targets = lora.target_modules
    config = LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION,
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
    )
    try:
        model.add_adapter(config)
    except ValueError as problem:
        raise TrainingError(
            f"backbone {backbone}: LoRA cannot be added to {targets}: {problem}"
        ) from problem
