"""A training head with batch normalisation."""

from torch import Tensor, nn


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
