"""Check an encoder's folder for what a trial would notice only after its start.

Every file is opened, and its weights are looked at one by one; no model is made of them.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Unpack

import torch
from safetensors import safe_open
from torch import Tensor

from cse_methods.encoders.backbones import (
    explain_foreign,
    list_encoder_files,
    list_weights,
    locate_backbone,
    resolve_backbone,
)
from cse_methods.encoders.families import refuse_half_precision
from cse_methods.encoders.library_encoder import check_library_reading
from cse_methods.encoders.loading import headless, is_finite, not_finite
from cse_methods.encoders.reading import ReadingOptions, naming_the_backbone, read_encoder
from cse_methods.encoders.sentence_transformers_format import transformer_folder
from cse_methods.errors import BackboneError
from cse_methods.files.text import FileVersion, file_version

_HEADS = re.compile(r"(^|\.)(pooler|cls|lm_head|predictions|classifier)\.")
"""Parts of a name of weights that no vector depends on, unless a head is asked for."""
_TABLE = re.compile(r"(^|\.)(word_embeddings|tok_embeddings|embed_tokens)\.weight$")
"""The end of the name of the table of word pieces."""
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)\.")
"""The number of a layer in a name of weights; a family that shares one has none."""


def check_encoder(name: str, *, precision: str = "fp32", **options: Unpack[ReadingOptions]) -> None:
    """Raise what `load_sentence_encoder` would, as far as that is known without making the model.

    An encoder that must be downloaded first is not checked. `precision` is that of the forward pass
    in training.
    """
    source = resolve_backbone(name)
    folder = locate_backbone(source)
    if folder and explain_foreign(folder):
        check_library_reading(source, folder, options)
        with naming_the_backbone(name, folder):
            for tensor, values in iterate_weights(list_encoder_files(folder)):
                if not is_finite(values):
                    raise not_finite(name, tensor)
    elif folder:
        reading = read_encoder(source, folder, **options)
        weights = list_weights(transformer_folder(folder))
        for file in set(list_encoder_files(folder)) - set(weights):  # of layers
            with naming_the_backbone(name, file):
                deque(iterate_weights([file]), maxlen=0)
                if file.suffix == ".json":
                    json.loads(file.read_text("utf-8"))
        with naming_the_backbone(name, folder):
            versions = tuple(map(file_version, weights))
            sizes = reading.config.vocab_size, reading.config.num_hidden_layers
            names = _check_weights(versions, *sizes, name)
        if reading.head and not any(tensor.endswith("pooler.dense.weight") for tensor in names):
            raise headless(name)
        refuse_half_precision(reading.config, precision, name)


@lru_cache
def _check_weights(files: tuple[FileVersion, ...], rows: int, layers: int, name: str) -> set[str]:
    """Check that weights are finite, and all there that an index names. Returns their names.

    BackboneError if not, or if the table of word pieces has not this many rows, or a layer is
    missing.
    """
    names = set[str]()
    for tensor, values in iterate_weights([file for file, *_ in files]):
        names.add(tensor)
        if _TABLE.search(tensor) and len(values) != rows:
            raise BackboneError(
                f"encoder {name!r}: {tensor} has {len(values)} rows, and vocab_size in its "
                f"config.json is {rows}; write {len(values)} there"
            )
        if not _HEADS.search(tensor) and not is_finite(values):
            raise not_finite(name, tensor)
    present = {int(layer[1]) for layer in map(_LAYER.search, names) if layer}
    if present and (gone := sorted({*range(layers)} - present)):
        raise BackboneError(
            f"encoder {name!r}: its weights lack layer {gone[0]}, and num_hidden_layers in its "
            f"config.json is {layers}; is it the file of another model?"
        )
    index = files[0][0]
    if index.suffix == ".json":
        named = json.loads(index.read_text("utf-8"))["weight_map"].keys()
        if lacking := sorted(named - names):
            raise BackboneError(
                f"encoder {name!r}: {index.name} names {lacking[0]}, which none of its "
                f"{len(files) - 1} files holds; download them again"
            )
    return names


@lru_cache
def list_layers(name: str) -> list[str]:
    """List the names of an encoder's layers of one matrix; none of one that is not here."""
    folder = locate_backbone(resolve_backbone(name))
    files = [] if folder is None else list_encoder_files(folder)
    weights = (tensor for tensor, values in iterate_weights(files) if values.dim() == 2)
    return [
        tensor.removesuffix(".weight")
        for tensor in weights
        if tensor.endswith(".weight") and not _TABLE.search(tensor) and "embedding" not in tensor
    ]


def iterate_weights(files: Iterable[Path]) -> Iterator[tuple[str, Tensor]]:
    """Read the tensors of files of weights one by one, by name; an index has none."""
    for file in files:
        if file.suffix == ".safetensors":
            with safe_open(file, "pt") as stored:
                yield from ((name, stored.get_tensor(name)) for name in stored.keys())  # noqa: SIM118
        elif file.suffix == ".bin":
            yield from torch.load(file, map_location="cpu", weights_only=True).items()
