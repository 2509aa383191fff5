"""Read the pooling layer that some checkpoints have on [CLS], their head."""

from typing import Any

from torch import nn

from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_methods.encoders.post_pooling import Dense
from cse_methods.encoders.reading import naming_the_backbone
from cse_methods.encoders.sentence_transformers_format import transformer_folder


def read_pooling_layer(name: str) -> Dense | None:
    """Read the dense layer with tanh that an encoder's checkpoint has on [CLS], on the CPU.

    BERT's was trained for next-sentence prediction. RoBERTa's checkpoints and those of most masked
    language models have none.

    Args:
        name: as for `load_encoder`.

    Returns:
        The layer; None if the checkpoint or its whole family has none.

    Raises:
        BackboneError: if no encoder has that name, or it cannot be loaded.
    """
    from transformers import AutoModel

    auto: Any = AutoModel
    folder = fetch_backbone(resolve_backbone(name))
    with naming_the_backbone(name, folder):
        place = transformer_folder(folder)
        model, report = auto.from_pretrained(place, output_loading_info=True)
    linear = getattr(getattr(model, "pooler", None), "dense", None)
    lacking = any("pooler." in key for key in report["missing_keys"])
    return None if lacking or not isinstance(linear, nn.Linear) else Dense(linear.float(), "tanh")
