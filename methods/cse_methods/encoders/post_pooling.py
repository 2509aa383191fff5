"""Post-pooling layers: what follows the pooler, in training only (`TrainingHead`) or always."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cse_methods.encoders.sentence_transformers_format import Module, read_modules
from cse_methods.errors import BackboneError, UnknownModelError

Activation = Literal["identity", "tanh"]
_ACTIVATIONS: dict[str, Activation] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
}
_CONFIG, _WEIGHTS, _PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
_AS_OURS = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}
"""Settings of a dense layer that we do not have, and the values that ask for nothing else."""


class Dense(nn.Module):
    """One dense layer with its activation, as sentence-transformers stores it."""

    def __init__(self, linear: nn.Linear, activation: Activation = "identity") -> None:
        super().__init__()
        self.linear = linear
        self.activation: Activation = activation

    @classmethod
    def affine(cls, weight: Tensor, bias: Tensor) -> "Dense":
        """x @ weight + bias, for a weight of shape (D, E) and a bias of shape (E,)."""
        linear = nn.Linear(weight.shape[0], weight.shape[1], device=weight.device)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        return cls(linear)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Shape (B, D) to shape (B, E)."""
        projected: Tensor = self.linear(embeddings)
        return projected.tanh() if self.activation == "tanh" else projected


class TrainingHead(Dense):
    """The dense layer with tanh that follows the pooler in training only.

    Its weights are drawn from N(0, 0.02), the bias is 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), "tanh")
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)


class Normalize(nn.Module):
    """Brings every vector to length 1, as sentence-transformers does at the end of some models."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.normalize(embeddings, dim=1)


Layer = Dense | Normalize


def output_width(layers: Sequence[Layer]) -> int | None:
    """D of the vectors after these layers; None where they leave it as it was."""
    widths = [layer.linear.out_features for layer in layers if isinstance(layer, Dense)]
    return widths[-1] if widths else None


def read_layers(folder: Path) -> list[Layer]:
    """The layers of a saved encoder, in order; none where the folder names none.

    Raises:
        UnknownModelError: if there are others than dense layers and normalisation, or a dense
            layer has settings, an activation or a file of weights that we do not read.
        BackboneError: if a layer cannot be read.
    """
    return [
        _read(folder / module.path) if module.kind == "Dense" else Normalize()
        for module in read_modules(folder)[2:]
    ]


def write_layers(folder: Path, layers: Sequence[Layer]) -> list[Module]:
    """Write the layers below the folder of an encoder; return what to list in its modules."""
    kinds = ["Dense" if isinstance(layer, Dense) else "Normalize" for layer in layers]
    modules = [Module(kind, f"{place}_{kind}") for place, kind in enumerate(kinds, start=2)]
    for module, layer in zip(modules, layers, strict=True):
        (folder / module.path).mkdir(parents=True, exist_ok=True)
        if isinstance(layer, Dense):
            _write(folder / module.path, layer)
    return modules


def _read(folder: Path) -> Dense:
    try:
        stored = json.loads((folder / _CONFIG).read_text("utf-8"))
        _refuse_other_kinds(folder, stored)
        linear = nn.Linear(stored["in_features"], stored["out_features"], bias=stored["bias"])
        weights = load_file(folder / _WEIGHTS)
        linear.load_state_dict({k.removeprefix("linear."): v for k, v in weights.items()})
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as problem:
        raise BackboneError(f"{folder} is not a dense layer: {problem}") from problem
    return Dense(linear, _ACTIVATIONS[stored["activation_function"]])


def _refuse_other_kinds(folder: Path, stored: dict[str, Any]) -> None:
    """Leave to sentence-transformers the dense layers that it has and we do not."""
    activation = stored["activation_function"]
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise UnknownModelError(f"{folder} has the activation {activation!r}; known are {known}")
    for setting, ours in _AS_OURS.items():
        if (asked := stored.get(setting) or ours) != ours:
            raise UnknownModelError(f"{folder} has {setting} {asked!r}, which is not read here")
    if not (folder / _WEIGHTS).is_file() and (folder / _PICKLED).is_file():
        raise UnknownModelError(f"{folder} has its weights in {_PICKLED}; {_WEIGHTS} is read here")


def _write(folder: Path, dense: Dense) -> None:
    linear = dense.linear
    names = {activation: name for name, activation in _ACTIVATIONS.items()}
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": names[dense.activation],
    }
    (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {f"linear.{name}": value.cpu() for name, value in linear.state_dict().items()}
    save_file(tensors, folder / _WEIGHTS)
