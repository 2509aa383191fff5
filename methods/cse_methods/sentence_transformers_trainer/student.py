"""The encoder that the library trains, as it is before training."""

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_methods.encoders.library_encoder import LibraryEncoder, load_library_encoder
from cse_methods.encoders.reading import ReadingOptions, read_dropout
from cse_methods.errors import BackboneError
from cse_methods.sentence_transformers_trainer.settings import LibraryConfig


def load_student(config: LibraryConfig) -> LibraryEncoder:
    """Load the backbone of a configuration on the CPU, with weights in float32.

    BackboneError if it cannot be loaded, or has no place for the pooler or the dropout.
    """
    source = resolve_backbone(config.backbone)
    folder = fetch_backbone(source)
    of_model: dict[str, Any] = {"dtype": torch.float32}
    if config.attention != "sdpa":  # which some families lack, and the library takes by itself
        of_model["attn_implementation"] = config.attention
    loading: dict[str, Any] = {"model_kwargs": of_model}
    if config.dropout is not None:
        names = read_dropout(folder)
        if not names:
            raise BackboneError(
                f"backbone {config.backbone!r} has no dropout to set; leave dropout out"
            )
        loading["config_kwargs"] = dict.fromkeys(names, config.dropout)
    options = ReadingOptions(prompt=config.prompt, max_length=config.max_length)
    encoder = load_library_encoder(source, folder, options, **loading)
    if config.pooler is None:
        return encoder
    model = encoder.model
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            model[index] = Pooling(
                module.embedding_dimension, config.pooler, include_prompt=module.include_prompt
            )
            return LibraryEncoder(model)
    raise BackboneError(f"backbone {config.backbone!r} has no pooler; leave pooler out")
