"""Convolutions over the vectors of word pieces, between the encoder and the pooler."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import TokenLayer, register_layer


@register_layer()
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
        convolved = torch.cat([conv(columns) for conv in self.convs], dim=1).transpose(1, 2)
        return convolved.relu() if self.relu else convolved

    @property
    def output_width(self) -> int:
        """E, the number of all channels."""
        return self.channels * len(self.kernel_sizes)

    def settings(self) -> dict[str, Any]:
        shape = {"width": self.width, "channels": self.channels, "kernel_sizes": self.kernel_sizes}
        return shape | {"relu": self.relu, "mask_padding": not self.reads_padding}
