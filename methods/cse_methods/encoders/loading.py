"""Load encoders by name: the model, its tokenizer, and how its vectors are read."""

import logging
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

# Importing the modules of layers registers these.
from cse_methods.encoders import convolution as convolution
from cse_methods.encoders import flow as flow
from cse_methods.encoders.backbones import (
    Backbone,
    explain_foreign,
    fetch_backbone,
    refuse_untrainable,
    resolve_backbone,
)
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import encoder_family
from cse_methods.encoders.library_encoder import LibraryEncoder, load_library_encoder
from cse_methods.encoders.packing import register_packed_attention
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import Dense, Truncate
from cse_methods.encoders.reading import (
    ReadingOptions,
    load_model,
    naming_the_backbone,
    read_encoder,
)
from cse_methods.encoders.saved_layers import SavedLayer, TokenLayer, read_layer
from cse_methods.encoders.sentence_transformers_format import (
    read_modules,
    read_options,
    split_modules,
    transformer_folder,
)
from cse_methods.errors import BackboneError, UnknownModelError

_log = logging.getLogger(__name__)
SentenceEncoder = Encoder | LibraryEncoder
"""An encoder of this package's own models, or of sentence-transformers."""


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
    refuse_untrainable(name, folder)
    reading = read_encoder(
        source,
        folder,
        pooler=pooler,
        first_layer=first_layer,
        prompt=prompt,
        head=head,
        max_length=max_length,
    )
    family = encoder_family(reading.config)
    if dropout is not None:
        reading.config.update(dict.fromkeys(family.dropout, dropout))
    options = {"dtype": dtype, "attn_implementation": family.kernel(attention), **family.options}
    model = _load_model(source, folder, head=reading.head, config=reading.config, **options)
    token_layers, layers = read_layers(folder, reading.config.hidden_size)
    if reading.head:
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
    kept = read_options(folder).get("truncate_dim") or encoder.width
    if kept < encoder.width:
        encoder = encoder.with_post_pooling(Truncate(encoder.width, kept))
    encoder.eval()
    for tensor, weights in model.named_parameters():
        if not is_finite(weights.detach()):
            raise not_finite(name, tensor)
    if not encoder.encode(["A sentence of some words."]).isfinite().all():
        raise BackboneError(
            f"encoder {name!r}: its vectors hold NaN, and its weights do not; look for a number "
            "in its config.json that no model can have, such as a rope_theta below 0"
        )
    return encoder


def load_sentence_encoder(
    name: str, *, attention: str = "sdpa", **options: Unpack[ReadingOptions]
) -> SentenceEncoder:
    """Load an encoder of any kind, also one that only scores and teaches.

    Arguments and errors are those of `load_encoder`. What sentence-transformers reads, word vectors
    too, has the pooler of its folder.
    """
    source = resolve_backbone(name)
    folder = fetch_backbone(source)
    if explain_foreign(folder):
        return load_library_encoder(source, folder, options)
    return load_encoder(name, attention=attention, **options)


def _load_model(source: Backbone, folder: Path, *, head: bool, **options: Any) -> Any:
    """Load a model, and log which weights no vector depends on, unless it is a known encoder.

    BackboneError if weights are missing.
    """
    register_packed_attention()
    model, unexpected = load_model(source.name, folder, **options)
    known = source.pooler and not isinstance(source.model, Path)
    others = {".".join(key.split(".")[:2]) for key in unexpected}
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


def headless(name: str) -> BackboneError:
    """Make the error for an encoder whose weights have no dense layer on [CLS]."""
    return BackboneError(
        f"encoder {name!r} has no head: its weights have no pooler.dense; leave head out"
    )


def is_finite(weights: Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    # The sum, which the first NaN spoils, takes a third of the time of a look at each value.
    return bool(weights.sum(dtype=torch.float32).isfinite())


def not_finite(name: str, tensor: str) -> BackboneError:
    """Make the error for weights with NaN, which no search over learning rates would mend."""
    return BackboneError(
        f"encoder {name!r}: the weight {tensor} holds NaN or infinite values, so that its own "
        "vectors do; take another copy of the encoder"
    )


def read_pooling_layer(name: str) -> Dense | None:
    """Read the dense layer with tanh that an encoder's checkpoint has on [CLS], on the CPU.

    BERT's was trained for next-sentence prediction. RoBERTa's checkpoints and those of most masked
    language models have none: None.

    BackboneError if no encoder has that name, or it cannot be loaded.
    """
    from transformers import AutoModel

    auto: Any = AutoModel
    folder = fetch_backbone(resolve_backbone(name))
    with naming_the_backbone(name, folder):
        transformer = transformer_folder(folder)
        model, report = auto.from_pretrained(transformer, output_loading_info=True)
    linear = getattr(getattr(model, "pooler", None), "dense", None)
    lacking = any("pooler." in key for key in report["missing_keys"])
    if lacking or not isinstance(linear, nn.Linear):
        return None
    return Dense(linear.float(), nn.Tanh())


def read_layers(folder: Path, width: int) -> tuple[list[TokenLayer], list[SavedLayer]]:
    """Read the layers of a saved encoder before and after its pooler, each in order.

    UnknownModelError if it has other kinds of layers, or if one has settings, an activation, a
    position or a weight file that this package does not read. BackboneError if a layer cannot be
    read, or does not fit the model's width or the layer before it.
    """
    before, after = (
        [read_layer(folder, module) for module in side]
        for side in split_modules(read_modules(folder))
    )
    tokens = [layer for layer in before if isinstance(layer, TokenLayer)]
    others = [layer for layer in after if not isinstance(layer, TokenLayer)]
    if len(tokens) < len(before) or len(others) < len(after):
        raise UnknownModelError(
            f"{folder} has a layer on the wrong side of its pooler; layers of word pieces come "
            "before it, all others after it"
        )
    vectors, mask = torch.zeros(1, 1, width), torch.ones(1, 1)
    with naming_the_backbone(folder.name, folder), torch.no_grad():
        for token_layer in tokens:
            vectors = token_layer.eval()(vectors, mask)
        vectors = vectors[:, 0]  # as a pooler makes one of those of a sentence
        for layer in others:
            vectors = layer.eval()(vectors)
    for layer in (*tokens, *others):
        for tensor, weights in layer.named_parameters():
            if not is_finite(weights.detach()):
                raise not_finite(str(folder), f"{layer.kind} {tensor}")
    return tokens, others
