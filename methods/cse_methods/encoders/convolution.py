"""Convolutions over the vectors of word pieces, between the encoder and the pooler."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import (
    CONFIG,
    WEIGHTS,
    TokenLayer,
    register_layer,
    write_json,
    write_weights,
)
from cse_methods.encoders.sentence_transformers_format import OWN_KIND
from cse_methods.errors import UnknownModelError

_THEIRS, _THEIR_CONFIG = "CNN", "cnn_config.json"
"""The corresponding module of sentence-transformers: no ReLU, and its vectors depend on padding."""


@register_layer(_THEIRS, f"{OWN_KIND}TokenConvolution")
class TokenConvolution(TokenLayer):
    """Parallel convolutions of several lengths over neighbouring word pieces.

    Weights have PyTorch's default initialisation.

    Args:
        width: D of the input vectors.
        channels: channels of each convolution; E is this times the number of convolutions.
        kernel_sizes: lengths of the convolutions in word pieces, odd.
        relu: whether ReLU follows.
        mask_padding: whether vectors at padding are set to zero, like those beyond a row's ends;
            otherwise the vectors of a short sentence depend on its batch.

    Raises:
        ValueError: if there is no kernel size, or one is even.

    Source:
        Zhang et al. 2020 (IS-BERT), section 3; its released code has no ReLU and no masking.
    """

    title: ClassVar[str] = "convolution"

    def __init__(
        self,
        width: int,
        channels: int = 256,
        kernel_sizes: Sequence[int] = (1, 3, 5),
        *,
        relu: bool = True,
        mask_padding: bool = True,
    ) -> None:
        super().__init__()
        if not kernel_sizes or any(size < 1 or size % 2 == 0 for size in kernel_sizes):
            raise ValueError(f"expected odd kernel sizes, one or more, got {list(kernel_sizes)}")
        self.width, self.channels, self.kernel_sizes = width, channels, tuple(kernel_sizes)
        self.relu = relu
        self.reads_padding = not mask_padding
        self.convs = nn.ModuleList(
            nn.Conv1d(width, channels, size, padding=size // 2) for size in kernel_sizes
        )

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Map vectors of shape (B, L, D) to shape (B, L, E)."""
        if not self.reads_padding:
            vectors = vectors * mask.unsqueeze(-1).to(vectors.dtype)
        columns = vectors.transpose(1, 2)
        found = torch.cat([conv(columns) for conv in self.convs], dim=1).transpose(1, 2)
        return found.relu() if self.relu else found

    @property
    def kind(self) -> str:
        """The name of the module; that of sentence-transformers if it computes the same."""
        return super().kind if self.relu or not self.reads_padding else _THEIRS

    @property
    def output_width(self) -> int:
        """E, the number of all channels."""
        return self.channels * len(self.kernel_sizes)

    def write(self, folder: Path) -> None:
        """Write the layer as sentence-transformers' CNN if equivalent, else in our own format."""
        sizes = list(self.kernel_sizes)
        if self.kind == _THEIRS:
            # Every release reads this name.
            named = {"in_word_embedding_dimension": self.width, "out_channels": self.channels}
            strides = [1] * len(sizes)
            theirs = named | {"kernel_sizes": sizes, "stride_sizes": strides}
            write_json(folder / _THEIR_CONFIG, theirs)
        else:
            shape = {"width": self.width, "channels": self.channels, "kernel_sizes": sizes}
            own = {"relu": self.relu, "mask_padding": not self.reads_padding}
            write_json(folder / CONFIG, shape | own)
        write_weights(folder, self.state_dict())

    @classmethod
    def read(cls, folder: Path) -> "TokenConvolution":
        """Read either format of `write`; UnknownModelError if the strides are not 1."""
        theirs = folder / _THEIR_CONFIG
        if theirs.is_file():
            stored = json.loads(theirs.read_text("utf-8"))
            width = stored.get("in_embedding_dimension") or stored["in_word_embedding_dimension"]
            if set(stored.get("stride_sizes") or [1]) != {1}:
                raise UnknownModelError(f"{theirs} has strides other than 1, not read here")
            layer = cls(
                width,
                stored["out_channels"],
                stored["kernel_sizes"],
                relu=False,
                mask_padding=False,
            )
        else:
            layer = cls(**json.loads((folder / CONFIG).read_text("utf-8")))
        layer.load_state_dict(load_file(folder / WEIGHTS))
        return layer
