"""Layers that are trained and kept: after the vectors of word pieces, or after the pooler.

A folder of a saved encoder holds each in a folder of its own, as a module of sentence-transformers.
A kind that this library lacks has a name under `cse_methods.`, which it refuses to load.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cse_methods.encoders.sentence_transformers_format import OWN_KIND, Module
from cse_methods.errors import BackboneError, UnknownModelError

CONFIG, WEIGHTS = "config.json", "model.safetensors"
Layer = TypeVar("Layer", bound="SavedLayer")


class SavedLayer(nn.Module):
    """A layer after the pooler that is saved with its encoder: shape (B, D) to shape (B, E).

    `register_layer` makes its kind known. Its weights and buffers are saved, with `settings`.
    """

    title: ClassVar[str] = "layer of this kind"
    """What it is called in messages."""

    @property
    def kind(self) -> str:
        """What modules.json calls it."""
        return OWN_KIND + type(self).__name__

    @property
    def output_width(self) -> int | None:
        """E of the vectors that it gives; None where it leaves D as it is."""
        return None

    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make a layer of the same shape, as JSON."""
        return {}

    def write(self, folder: Path) -> None:
        """Write all that `read` needs into a folder that is there."""
        write_json(folder / CONFIG, self.settings())
        write_weights(folder, self.state_dict())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The layer that was written; any error of a damaged folder is caught by the caller."""
        layer = cls(**json.loads((folder / CONFIG).read_text("utf-8")))
        layer.load_state_dict(load_file(folder / WEIGHTS))
        return layer


class TokenLayer(SavedLayer):
    """A layer between the last vectors of word pieces and the pooler.

    Its `forward` takes them, shape (B, L, D), and their mask, shape (B, L) with 1 for word pieces,
    and gives vectors of shape (B, L, E).
    """

    reads_padding: bool = False
    """Whether its vectors depend on those at padding, so that rows are encoded with it."""

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Shape (B, L, D) to shape (B, L, E)."""
        raise NotImplementedError


KINDS: dict[str, type[SavedLayer]] = {}
"""The layers that are read here, by the kind that modules.json names."""


def register_layer(*kinds: str) -> Callable[[type[Layer]], type[Layer]]:
    """Make the kinds of a class of layers known; without any, its own name under `cse_methods.`."""

    def register(layer: type[Layer]) -> type[Layer]:
        KINDS.update(dict.fromkeys(kinds or (OWN_KIND + layer.__name__,), layer))
        return layer

    return register


def last_width(layers: Sequence[SavedLayer]) -> int | None:
    """D of the vectors after these layers; None where they leave it as it was."""
    widths = [layer.output_width for layer in layers if layer.output_width is not None]
    return widths[-1] if widths else None


def write_layers(folder: Path, layers: Sequence[SavedLayer], *, first: int) -> list[Module]:
    """Write layers below the folder of an encoder; return what to list in its modules.

    `first` is the place of the first one among the modules.
    """
    modules = []
    for place, layer in enumerate(layers, start=first):
        module = Module(layer.kind, f"{place}_{layer.kind.removeprefix(OWN_KIND)}")
        (folder / module.path).mkdir(parents=True, exist_ok=True)
        layer.write(folder / module.path)
        modules.append(module)
    return modules


def read_layer(folder: Path, module: Module) -> SavedLayer:
    """One layer of the encoder that is saved in a folder.

    Raises:
        UnknownModelError: if its kind is not known here, or it has settings that are not read.
        BackboneError: if it cannot be read.
    """
    kind, place = KINDS.get(module.kind), folder / module.path
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise UnknownModelError(
            f"{folder} has a layer of the kind {module.kind}; known here are {known}; import the "
            "package that it comes from, or take a newer release"
        )
    try:
        return kind.read(place)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as problem:
        raise BackboneError(f"{place} is not a {kind.title}: {problem}") from problem


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write settings as JSON."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_weights(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, of whatever device and layout, into a folder."""
    save_file({name: one.cpu().contiguous() for name, one in tensors.items()}, folder / WEIGHTS)
