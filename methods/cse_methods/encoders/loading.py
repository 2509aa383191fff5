"""Load encoders by name: the model, its tokenizer, and how its vectors are read."""

import logging
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import (
    Backbone,
    fetch_backbone,
    own_pooling,
    resolve_backbone,
)
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import encoder_family
from cse_methods.encoders.layer_reading import read_layers
from cse_methods.encoders.packing import register_packed_attention
from cse_methods.encoders.pooling_layer import read_pooling_layer
from cse_methods.encoders.post_pooling import Truncate
from cse_methods.encoders.reading import headless, naming_the_backbone, read_encoder
from cse_methods.encoders.sentence_encoder import SentenceEncoder
from cse_methods.encoders.sentence_transformers_format import read_options, transformer_folder
from cse_methods.encoders.static_encoder import StaticEncoder, read_word_table
from cse_methods.encoders.static_files import check_static_reading, is_static, refuse_static
from cse_methods.errors import BackboneError

_log = logging.getLogger(__name__)
AnyEncoder = TypeVar("AnyEncoder", bound=SentenceEncoder)


def load_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    prompt: str | None = None,
    head: bool | None = None,
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
        prompt: the text before each sentence, such as "query: "; for the pooler `mask`, the words
            around it. None is the encoder's own, and "" is none.
        head: whether the dense layer with tanh that the weights have on [CLS] follows the pooler,
            which is then `cls` unless another is given; None is as its authors read it, and no
            layer after another pooler.
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
    head = source.reads_head(pooler) if head is None else head
    reading = read_encoder(
        source,
        folder,
        pooler=pooler or ("cls" if head else None),
        first_layer=first_layer,
        prompt=prompt,
        max_length=max_length,
    )
    family = encoder_family(reading.config)
    if dropout is not None:
        reading.config.update(dict.fromkeys(family.dropout, dropout))
    options = {"dtype": dtype, "attn_implementation": family.kernel(attention), **family.options}
    model = _load_model(source, folder, head=head, config=reading.config, **options)
    token_layers, layers = read_layers(folder)
    if head:
        if (layer := read_pooling_layer(name)) is None:
            raise headless(name)
        layers = [layer, *layers]
    encoder = Encoder(
        model,
        reading.tokenizer,
        reading.pooling,
        limit=reading.limit,
        token_layers=token_layers,
        post_pooling=layers,
    )
    return _truncated(encoder, folder).eval()


def load_sentence_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    prompt: str | None = None,
    head: bool | None = None,
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
        own = own_pooling(source, folder).pooler
        check_static_reading(name, pooler or own, prompt, bool(head))
        encoder = StaticEncoder(read_word_table(folder), read_layers(folder)[1])
        return _truncated(encoder, folder).eval()
    return load_encoder(
        name,
        pooler=pooler,
        first_layer=first_layer,
        prompt=prompt,
        head=head,
        max_length=max_length,
        attention=attention,
    )


def _truncated(encoder: AnyEncoder, folder: Path) -> AnyEncoder:
    """Let an encoder keep as many coordinates as its folder says."""
    kept = read_options(folder).get("truncate_dim") or encoder.width
    width = encoder.width
    return encoder.with_post_pooling(Truncate(width, kept)) if kept < width else encoder


def _load_model(source: Backbone, folder: Path, *, head: bool, **options: Any) -> Any:
    """Load a model, and log which weights no vector depends on, unless it is a known encoder.

    Raises:
        BackboneError: if weights are missing.
    """
    from transformers import AutoModel

    register_packed_attention()
    place, auto = transformer_folder(folder), cast(Any, AutoModel)
    with naming_the_backbone(source.name, folder):
        model, report = auto.from_pretrained(place, output_loading_info=True, **options)
    if missing := report["missing_keys"]:
        raise BackboneError(
            f"backbone {source.name!r}: the weights in {folder} lack {len(missing)} of the model's "
            f"tensors, {min(missing)} the first; is it the file of another model?"
        )
    known = source.pooler and not isinstance(source.model, Path)
    others = {".".join(key.split(".")[:2]) for key in report["unexpected_keys"]}
    if head:
        others = {name for name in others if not name.startswith("pooler.")}
    if others and not known:
        hint = "; a head that was trained on [CLS], as in supervised SimCSE, is kept by `head`"
        _log.warning(
            "backbone %r: its vectors depend on none of these weights: %s%s",
            source.name,
            ", ".join(sorted(others)),
            hint if "pooler.dense" in others else "",
        )
    return model
