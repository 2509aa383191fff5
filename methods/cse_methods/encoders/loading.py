"""Encoders by name: the backbone, its tokenizer and how its vectors are read."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import fetch_backbone, own_pooling, resolve_backbone
from cse_methods.encoders.encoder import Encoder, quiet
from cse_methods.encoders.post_pooling import read_layers
from cse_methods.encoders.sentence_transformers_format import (
    Pooling,
    read_length,
    read_lower_casing,
    read_words_in_front,
)
from cse_methods.errors import BackboneError, UnknownModelError

_POSITION_OFFSET = {"bert": 0, "roberta": 2, "xlm-roberta": 2}
"""Rows of the position table that hold no position, by family."""


def load_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    prompt: str | None = None,
    attention: str = "sdpa",
    dropout: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Encoder:
    """Load an encoder, in evaluation mode, on the CPU; fetch it if it is not on this machine.

    Args:
        name: short name, folder or hub id.
        pooler: how token vectors become one; None is the encoder's own.
        first_layer: what `first` is in avg_first_last: 0 embeddings, 1 first layer; None is the
            encoder's own.
        prompt: for the pooler `mask`, the words around a sentence; None is the encoder's own.
        attention: the kernel, "sdpa" or "eager".
        dropout: of hidden vectors and attention; None keeps the encoder's.
        dtype: of the weights, whatever they are stored as.

    Raises:
        UnknownModelError: if this package reads no models of its family or with its modules, or
            if its texts have to be changed before they are read.
        BackboneError: if no encoder has that name, it cannot be fetched, or its weights do not
            fit its configuration.
    """
    source = resolve_backbone(name)
    folder = fetch_backbone(source)
    own = own_pooling(source, folder)
    pooling = Pooling(
        pooler or own.pooler,
        own.first_layer if first_layer is None else first_layer,
        (prompt or own.prompt) if (pooler or own.pooler) == "mask" else None,
    )
    with _naming_the_backbone(name, folder):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        _refuse_changed_texts(folder, tokenizer, name)
        config = AutoConfig.from_pretrained(folder)
        _check(config, pooling, name)
        if dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        model, report = AutoModel.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=attention,
            add_pooling_layer=False,
            output_loading_info=True,
        )
        _refuse_missing_weights(report["missing_keys"], name, folder)
    positions = config.max_position_embeddings - _POSITION_OFFSET[config.model_type]
    limit = min(positions, tokenizer.model_max_length, read_length(folder) or positions)
    layers = read_layers(folder)
    return Encoder(model, tokenizer, pooling, limit=limit, post_pooling=layers).eval()


def lower_cases(tokenizer: Any) -> bool:
    """Whether a tokenizer reads `A` as it reads `a`."""
    return bool(tokenizer.tokenize("A") == tokenizer.tokenize("a"))


@contextmanager
def _naming_the_backbone(name: str, folder: Path) -> Iterator[None]:
    """Turn what the libraries raise on damaged files into one sentence."""
    try:
        with quiet():
            yield
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as problem:
        reason = str(problem).strip().partition("\n")[0]
        raise BackboneError(
            f"backbone {name!r} cannot be loaded from {folder}: {reason}"
        ) from problem


def _refuse_missing_weights(missing: Collection[str], name: str, folder: Path) -> None:
    if missing:
        raise BackboneError(
            f"backbone {name!r}: the weights in {folder} lack {len(missing)} of the model's "
            f"tensors, {min(missing)} the first; is it the file of another model?"
        )


def _refuse_changed_texts(folder: Path, tokenizer: Any, name: str) -> None:
    if words := read_words_in_front(folder):
        raise UnknownModelError(f"backbone {name!r} wants {words!r} before every text")
    if read_lower_casing(folder) and not lower_cases(tokenizer):
        raise UnknownModelError(
            f"backbone {name!r} wants every text in lower case, and its tokenizer keeps capitals"
        )


def _check(config: Any, pooling: Pooling, name: str) -> None:
    if config.model_type not in _POSITION_OFFSET:
        raise UnknownModelError(
            f"backbone {name!r} is of the family {config.model_type!r}; "
            f"known are {', '.join(_POSITION_OFFSET)}"
        )
    if pooling.pooler == "mask" and pooling.prompt is None:
        raise BackboneError(f"backbone {name!r}: the pooler mask needs a prompt with [MASK]")
    if pooling.first_layer > config.num_hidden_layers:
        raise BackboneError(
            f"first_layer {pooling.first_layer} is beyond the {config.num_hidden_layers} layers "
            f"of backbone {name!r}"
        )
