"""Dense layers after the pooler that belong to an encoder, at test time too."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cse_methods.errors import BackboneError
from cse_methods.layout import dense_folders

Activation = Literal["identity", "tanh"]
_ACTIVATIONS: dict[str, Activation] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
}
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


class Dense(nn.Module):
    """One dense layer with its activation, as sentence-transformers stores it.

    Args:
        linear: from the width of its input to that of its output.
        activation: applied to every coordinate.
    """

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


def read_tail(folder: Path) -> list[Dense]:
    """The dense layers of a saved encoder, in order; none where the folder names none.

    Raises:
        BackboneError: if a layer cannot be read or has an activation that we do not have.
    """
    return [_read(folder / name) for name in dense_folders(folder)]


def write_tail(folder: Path, tail: Sequence[Dense]) -> list[str]:
    """Write the layers below the folder of an encoder; return the names of their folders."""
    names = [f"{place}_Dense" for place, _ in enumerate(tail, start=2)]
    for name, dense in zip(names, tail, strict=True):
        _write(folder / name, dense)
    return names


def _read(folder: Path) -> Dense:
    try:
        stored = json.loads((folder / _CONFIG).read_text("utf-8"))
        linear = nn.Linear(stored["in_features"], stored["out_features"], bias=stored["bias"])
        weights = load_file(folder / _WEIGHTS)
        linear.load_state_dict({k.removeprefix("linear."): v for k, v in weights.items()})
        activation = stored["activation_function"]
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        raise BackboneError(f"{folder} is not a dense layer: {problem}") from problem
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise BackboneError(f"{folder} has the activation {activation!r}; known are {known}")
    return Dense(linear, _ACTIVATIONS[activation])


def _write(folder: Path, dense: Dense) -> None:
    folder.mkdir(parents=True, exist_ok=True)
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
