"""Layers after the pooler, used in training only (`TrainingHead`) or always."""

import json
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import CONFIG, SavedLayer, register_layer, write_weights
from cse_methods.encoders.sentence_transformers_format import write_json


@register_layer("Dense")
class Dense(SavedLayer):
    """A dense layer with an activation, as sentence-transformers stores it."""

    title: ClassVar[str] = "dense layer"
    stored_as: ClassVar[str] = "Dense"

    def __init__(self, linear: nn.Linear, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.linear = linear
        self.activation = activation or nn.Identity()

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
        projected: Tensor = self.activation(self.linear(embeddings))
        return projected

    @property
    def output_width(self) -> int:
        return self.linear.out_features

    def write(self, folder: Path) -> None:
        linear, activation = self.linear, type(self.activation)
        config = {
            "in_features": linear.in_features,
            "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__qualname__}",
        }
        write_json(folder / CONFIG, config)
        tensors = linear.state_dict().items()
        write_weights(folder, {f"linear.{name}": value for name, value in tensors})

    @classmethod
    def read(cls, folder: Path) -> "Dense":
        """Read a written layer as sentence-transformers does.

        ValueError if its activation comes with the model, which that library would leave out.
        """
        from sentence_transformers.sentence_transformer.modules import Dense as LibraryDense

        stored = json.loads((folder / CONFIG).read_text("utf-8"))
        if not stored.get("activation_function", "torch.").startswith("torch."):
            raise ValueError(f"activation {stored['activation_function']!r} is not one of torch")
        layer = LibraryDense.load(str(folder))
        return Dense(layer.linear.float(), layer.activation_function)


class TrainingHead(Dense):
    """The dense layer with tanh that follows the pooler in training only.

    Its weights are drawn from N(0, 0.02^2), and its bias is 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), nn.Tanh())
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)


class Truncate(SavedLayer):
    """Keeps the first coordinates, as a folder's `truncate_dim` says; saved as a dense layer."""

    stored_as: ClassVar[str] = "Dense"

    def __init__(self, width: int, kept: int) -> None:
        super().__init__()
        self.width, self.kept = width, kept

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings[:, : self.kept]

    @property
    def output_width(self) -> int:
        return self.kept

    def write(self, folder: Path) -> None:
        Dense.affine(torch.eye(self.width, self.kept), torch.zeros(self.kept)).write(folder)


@register_layer("Normalize")
class Normalize(SavedLayer):
    """Scales every vector to length 1, as at the end of some sentence-transformers models."""

    stored_as: ClassVar[str] = "Normalize"

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.normalize(embeddings, dim=1)

    def write(self, folder: Path) -> None:
        del folder

    @classmethod
    def read(cls, folder: Path) -> "Normalize":
        del folder
        return Normalize()


class BatchNormHead(nn.Module):
    """Two linear layers without bias, each followed by batch normalisation; used only in training.

    Linear (D to 2D), BatchNorm, ReLU, linear (2D to D), BatchNorm without scale and shift. The
    linear weights are drawn from N(0, 0.02). Batch statistics are computed over all rows of a pass.

    Args:
        width: D, the dimension of input and output vectors.

    Source:
        Chuang et al. 2022 (DiffCSE), as its released code has it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 2 * width, bias=False)
        self.first_norm = nn.BatchNorm1d(2 * width)
        self.second = nn.Linear(2 * width, width, bias=False)
        self.second_norm = nn.BatchNorm1d(width, affine=False)
        for linear in (self.first, self.second):
            nn.init.normal_(linear.weight, std=0.02)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map shape (B, D) to (B, D); in training, B must be at least 2."""
        hidden = self.first_norm(self.first(vectors)).relu()
        projected: Tensor = self.second_norm(self.second(hidden))
        return projected
