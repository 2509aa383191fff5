"""Layers after the pooler, used in training only (`TrainingHead`) or always."""

import json
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import (
    CONFIG,
    PICKLED,
    WEIGHTS,
    SavedLayer,
    read_pickled,
    register_layer,
    write_json,
    write_weights,
)
from cse_methods.errors import UnknownModelError

Activation = Literal["identity", "tanh"]
_ACTIVATIONS: dict[str, Activation] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
}
_AS_OURS = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}
"""Settings of a dense layer that we do not support, and the values at which they have no effect."""


@register_layer("Dense")
class Dense(SavedLayer):
    """A dense layer with an activation, as sentence-transformers stores it."""

    title: ClassVar[str] = "dense layer"

    def __init__(self, linear: nn.Linear, activation: Activation = "identity") -> None:
        super().__init__()
        self.linear = linear
        self.activation: Activation = activation

    @classmethod
    def affine(cls, weight: Tensor, bias: Tensor) -> "Dense":
        """Make the layer x @ weight + bias from a weight (D, E) and a bias (E,)."""
        linear = nn.Linear(weight.shape[0], weight.shape[1], device=weight.device)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        return cls(linear)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Map embeddings of shape (B, D) to shape (B, E)."""
        projected: Tensor = self.linear(embeddings)
        return projected.tanh() if self.activation == "tanh" else projected

    @property
    def kind(self) -> str:
        """The name of the module in sentence-transformers."""
        return "Dense"

    @property
    def output_width(self) -> int:
        """E, the output width of the weight."""
        return self.linear.out_features

    def write(self, folder: Path) -> None:
        """Write the layer as sentence-transformers does."""
        linear = self.linear
        names = {activation: name for name, activation in _ACTIVATIONS.items()}
        config = {
            "in_features": linear.in_features,
            "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": names[self.activation],
        }
        write_json(folder / CONFIG, config)
        tensors = linear.state_dict().items()
        write_weights(folder, {f"linear.{name}": value for name, value in tensors})

    @classmethod
    def read(cls, folder: Path) -> "Dense":
        """Read a written layer; UnknownModelError if only sentence-transformers supports it."""
        stored = json.loads((folder / CONFIG).read_text("utf-8"))
        _refuse_other_kinds(folder, stored)
        linear = nn.Linear(stored["in_features"], stored["out_features"], bias=stored["bias"])
        if (folder / WEIGHTS).is_file():
            weights = load_file(folder / WEIGHTS)
        else:  # of an older release
            weights = read_pickled(folder / PICKLED)
        linear.load_state_dict({k.removeprefix("linear."): v for k, v in weights.items()})
        return Dense(linear, _ACTIVATIONS[stored["activation_function"]])


class TrainingHead(Dense):
    """The dense layer with tanh that follows the pooler in training only.

    Its weights are drawn from N(0, 0.02^2), and its bias is 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), "tanh")
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)


class Truncate(SavedLayer):
    """Keeps the first coordinates of every vector, as a folder's `truncate_dim` says.

    It is saved as the dense layer that does the same.
    """

    def __init__(self, width: int, kept: int) -> None:
        super().__init__()
        self.width, self.kept = width, kept

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings[:, : self.kept]

    @property
    def kind(self) -> str:
        """The name of the module in sentence-transformers."""
        return "Dense"

    @property
    def output_width(self) -> int:
        """The number of coordinates that are kept."""
        return self.kept

    def write(self, folder: Path) -> None:
        """Write the dense layer that does the same."""
        Dense.affine(torch.eye(self.width, self.kept), torch.zeros(self.kept)).write(folder)


@register_layer("Normalize")
class Normalize(SavedLayer):
    """Scales every vector to length 1, as at the end of some sentence-transformers models."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.normalize(embeddings, dim=1)

    @property
    def kind(self) -> str:
        """The name of the module in sentence-transformers."""
        return "Normalize"

    def write(self, folder: Path) -> None:
        """Write nothing: the layer has neither weights nor settings."""
        del folder

    @classmethod
    def read(cls, folder: Path) -> "Normalize":
        """Return the layer, which has nothing to read."""
        del folder
        return Normalize()


def _refuse_other_kinds(folder: Path, stored: dict[str, Any]) -> None:
    """Raise UnknownModelError for dense layers that only sentence-transformers supports."""
    activation = stored["activation_function"]
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise UnknownModelError(f"{folder} has the activation {activation!r}; known are {known}")
    for setting, ours in _AS_OURS.items():
        if (asked := stored.get(setting) or ours) != ours:
            raise UnknownModelError(f"{folder} has {setting} {asked!r}, which is not read here")
