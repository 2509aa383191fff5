"""Layers that are saved with an encoder: before the pooler, or after it.

In the folder of a saved encoder, each has its own folder, as a module of sentence-transformers. A
kind that this library lacks has a name starting with `cse_methods.`, which it refuses to load.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cse_methods.encoders.sentence_transformers_format import OWN_KIND, Module, write_json
from cse_methods.errors import BackboneError, UnknownModelError

CONFIG, WEIGHTS = "config.json", "model.safetensors"
Layer = TypeVar("Layer", bound="SavedLayer")


class SavedLayer(nn.Module):
    """A layer after the pooler that is saved with its encoder: maps (B, D) to (B, E).

    `register_layer` makes its kind known. Its weights and buffers are saved together with the
    `settings`.
    """

    title: ClassVar[str] = "layer of this kind"
    """Its name in error messages."""
    stored_as: ClassVar[str] = ""
    """Its name in sentence-transformers, for layers that this library has too."""

    @property
    def kind(self) -> str:
        """Its name in modules.json."""
        return self.stored_as or OWN_KIND + type(self).__name__

    @property
    def output_width(self) -> int | None:
        """E, the width of its output; None if that equals D."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments, as JSON values, that make a layer of the same shape."""
        return {}

    def write(self, folder: Path) -> None:
        """Write everything that `read` needs into an existing folder."""
        write_json(folder / CONFIG, self.settings())
        write_weights(folder, self.state_dict())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a layer that was written; `read_layer` catches the errors of damaged folders."""
        layer = cls(**json.loads((folder / CONFIG).read_text("utf-8")))
        layer.load_state_dict(load_file(folder / WEIGHTS))
        return layer


class TokenLayer(SavedLayer):
    """A layer between the last vectors of word pieces and the pooler.

    Its `forward` takes these vectors, shape (B, L, D), and their mask, shape (B, L) with 1 for word
    pieces, and returns vectors of shape (B, L, E).
    """

    reads_padding: bool = False
    """Whether its output depends on vectors at padding, so that rows must be padded."""

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


KINDS: dict[str, type[SavedLayer]] = {}
"""The known layers, by their names in modules.json."""


def register_layer(*kinds: str) -> Callable[[type[Layer]], type[Layer]]:
    """Register a class of layers under these kinds, or else under `cse_methods.` and its name."""

    def register(layer: type[Layer]) -> type[Layer]:
        KINDS.update(dict.fromkeys(kinds or (OWN_KIND + layer.__name__,), layer))
        return layer

    return register


def last_width(layers: Sequence[SavedLayer]) -> int | None:
    """Return the width after these layers; None if they do not change it."""
    widths = [layer.output_width for layer in layers if layer.output_width is not None]
    return widths[-1] if widths else None


def write_layers(folder: Path, layers: Sequence[SavedLayer], *, first: int) -> list[Module]:
    """Write layers into the folder of an encoder. Returns their entries for modules.json.

    `first` is the index of the first one among the modules.
    """
    modules = []
    for index, layer in enumerate(layers, start=first):
        module = Module(layer.kind, f"{index}_{layer.kind.removeprefix(OWN_KIND)}")
        (folder / module.path).mkdir(parents=True, exist_ok=True)
        layer.write(folder / module.path)
        modules.append(module)
    return modules


def read_layer(folder: Path, module: Module) -> SavedLayer:
    """Read one layer of the encoder that is saved in a folder.

    UnknownModelError if its kind is unknown here, or it has settings that are not supported.
    BackboneError if it cannot be read.
    """
    kind, path = KINDS.get(module.kind), folder / module.path
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise UnknownModelError(
            f"{folder} has a layer of the kind {module.kind}; known here are {known}; import the "
            "package that it comes from, or take a newer release"
        )
    try:
        return kind.read(path)
    except Exception as problem:  # whatever damaged bytes let an unpickler run into
        reason = " ".join(str(problem).split())  # one line
        raise BackboneError(f"{path} is not a {kind.title}: {reason}") from problem


def write_weights(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, on any device and in any layout, into a folder."""
    save_file({name: one.cpu().contiguous() for name, one in tensors.items()}, folder / WEIGHTS)
