"""Load encoders by name: the model, its tokenizer, and how its vectors are read."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import fetch_backbone, own_pooling, resolve_backbone
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import encoder_family
from cse_methods.encoders.layer_reading import read_layers
from cse_methods.encoders.packing import register_packed_attention
from cse_methods.encoders.reading import naming_the_backbone, read_encoder
from cse_methods.encoders.sentence_encoder import SentenceEncoder
from cse_methods.encoders.static_encoder import StaticEncoder, read_word_table
from cse_methods.encoders.static_files import check_static_pooler, is_static, refuse_static
from cse_methods.errors import BackboneError


def load_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    prompt: str | None = None,
    max_length: int | None = None,
    attention: str = "sdpa",
    dropout: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Encoder:
    """Load an encoder in evaluation mode on the CPU, downloading it if needed.

    Args:
        name: a short name, a folder, or a hub id, which may end in `@REVISION`.
        pooler: how the vectors of word pieces are reduced to one; None is the encoder's own.
        first_layer: the layer that is `first` in avg_first_last: 0 the embeddings, 1 the first
            layer; None is the encoder's own.
        prompt: for the pooler `mask`, the words around a sentence; None is the encoder's own.
        max_length: the most word pieces that will be read of a sentence, special ones included;
            None is as many as the encoder reads.
        attention: the kernel, "sdpa" or "eager"; a family without "sdpa" uses "eager".
        dropout: dropout of hidden vectors and attention; None keeps the encoder's.
        dtype: the dtype of the weights, whatever they are stored as.

    Raises:
        UnknownModelError: if its family or one of its modules is not supported here, or if it
            requires its texts to be changed before tokenization.
        BackboneError: if no encoder has that name, it cannot be downloaded, its weights do not
            fit its configuration, it cannot be used with these settings, or it has no transformer.
    """
    source = resolve_backbone(name)
    folder = fetch_backbone(source)
    refuse_static(name, folder)
    reading = read_encoder(
        source,
        folder,
        pooler=pooler,
        first_layer=first_layer,
        prompt=prompt,
        max_length=max_length,
    )
    family = encoder_family(reading.config)
    if dropout is not None:
        reading.config.update(dict.fromkeys(family.dropout, dropout))
    options = {"dtype": dtype, "attn_implementation": family.kernel(attention), **family.options}
    model = _load_model(name, folder, config=reading.config, **options)
    token_layers, layers = read_layers(folder)
    return Encoder(
        model,
        reading.tokenizer,
        reading.pooling,
        limit=reading.limit,
        token_layers=token_layers,
        post_pooling=layers,
    ).eval()


def load_sentence_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    max_length: int | None = None,
    attention: str = "sdpa",
) -> SentenceEncoder:
    """Load an encoder of either kind, with a transformer or with static word vectors.

    Arguments and errors are those of `load_encoder`. Static vectors only have the pooler `avg`, and
    ignore the other arguments.
    """
    source = resolve_backbone(name)
    folder = fetch_backbone(source)
    if is_static(folder):
        check_static_pooler(name, pooler or own_pooling(source, folder).pooler)
        return StaticEncoder(read_word_table(folder), read_layers(folder)[1]).eval()
    return load_encoder(
        name,
        pooler=pooler,
        first_layer=first_layer,
        max_length=max_length,
        attention=attention,
    )


def _load_model(name: str, folder: Path, **options: Any) -> Any:
    from transformers import AutoModel

    register_packed_attention()
    with naming_the_backbone(name, folder):
        model, report = AutoModel.from_pretrained(folder, output_loading_info=True, **options)
    _refuse_missing_weights(report["missing_keys"], name, folder)
    return model


def _refuse_missing_weights(missing: Collection[str], name: str, folder: Path) -> None:
    if missing:
        raise BackboneError(
            f"backbone {name!r}: the weights in {folder} lack {len(missing)} of the model's "
            f"tensors, {min(missing)} the first; is it the file of another model?"
        )
