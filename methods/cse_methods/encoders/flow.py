"""A normalising flow after the pooler: an invertible layer trained to give Gaussian vectors."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import SavedLayer, register_layer

_LOG_FACTOR = 3.0
"""Log scales are stored divided by this factor, which makes them learn faster."""
_FLOOR = 1e-6
"""Added to a standard deviation before it is inverted to the initial scale."""


class ActNorm(nn.Module):
    """A shift and a scale of C channels of rows (B, C).

    With `start`, they are first set to give these rows mean 0 and standard deviation 1.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))

    def forward(self, rows: Tensor, *, start: bool = False) -> Tensor:
        if start:
            mean = rows.mean(dim=0)
            spread = (rows - mean).square().mean(dim=0).sqrt()
            self.shift.copy_(-mean)
            self.log_scale.copy_(-(spread + _FLOOR).log() / _LOG_FACTOR)
        return (rows + self.shift) * (_LOG_FACTOR * self.log_scale).exp()

    def inverse(self, rows: Tensor) -> Tensor:
        return rows * (-_LOG_FACTOR * self.log_scale).exp() - self.shift


class Coupling(nn.Module):
    """Adds to the second half of C channels the output of a network on the first half.

    The network has two hidden layers, and its output is 0 at the start.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        half = channels // 2
        first, second = torch.randn(half, width) * 0.05, torch.randn(width, width) * 0.05
        self.weights = nn.ParameterList([first, second, torch.zeros(width, half)])
        self.norms = nn.ModuleList(map(ActNorm, (width, width, half)))

    def added(self, first: Tensor, *, start: bool = False) -> Tensor:
        """Compute the network's output, which is added to the second half, shape (B, C / 2).

        With `start`, the normalisations of the hidden layers are set for these rows.
        """
        *hidden, (weight, norm) = zip(self.weights, self.norms, strict=True)
        for inner, inner_norm in hidden:
            first = inner_norm(first @ inner, start=start).relu()
        added: Tensor = norm(first @ weight)
        return added

    def forward(self, rows: Tensor, *, start: bool = False) -> Tensor:
        first, second = rows.chunk(2, dim=1)
        return torch.cat([first, second + self.added(first, start=start)], dim=1)

    def inverse(self, rows: Tensor) -> Tensor:
        first, second = rows.chunk(2, dim=1)
        return torch.cat([first, second - self.added(first)], dim=1)


class FlowStep(nn.Module):
    """A normalisation, a reversal of the channels, and a coupling."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norm = ActNorm(channels)
        self.coupling = Coupling(channels, width)

    def forward(self, rows: Tensor, *, start: bool = False) -> Tensor:
        turned: Tensor = self.coupling(self.norm(rows, start=start).flip(1), start=start)
        return turned

    def inverse(self, rows: Tensor) -> Tensor:
        return self.norm.inverse(self.coupling.inverse(rows).flip(1))


@register_layer()
class Flow(SavedLayer):
    """Glow on vectors: levels of steps; after each level but the last, half of the channels leave.

    Args:
        width: D of the vectors; must be divisible by 2 ** levels.
        levels: number of levels.
        depth: number of steps in each level.
        hidden: width of the couplings' networks.

    Source:
        Kingma and Dhariwal 2018 (Glow), in the configuration of the released code of Li et al. 2020
        (BERT-flow): additive couplings, and reversed channels instead of 1x1 convolutions.
    """

    title: ClassVar[str] = "flow"

    def __init__(self, width: int, levels: int = 3, depth: int = 3, hidden: int = 32) -> None:
        super().__init__()
        self.shape = {"width": width, "levels": levels, "depth": depth, "hidden": hidden}
        self.levels = nn.ModuleList(
            nn.ModuleList(FlowStep(width // 2**level, hidden) for _ in range(depth))
            for level in range(levels)
        )

    def settings(self) -> dict[str, Any]:
        return self.shape

    def forward(self, embeddings: Tensor, *, start: bool = False) -> Tensor:
        """Map embeddings to latent vectors z, both of shape (B, D).

        With `start`, which needs `torch.no_grad`, each normalisation is set for its input here.
        """
        left, rows = [], embeddings
        for level in range(len(self.levels)):
            for step in self._list_steps(level):
                rows = step(rows, start=start)
            if level < len(self.levels) - 1:
                rows, leaving = rows.chunk(2, dim=1)
                left.append(leaving)
        return torch.cat([*left, rows], dim=1)

    def inverse(self, vectors: Tensor) -> Tensor:
        """Invert `forward`: map latent vectors z to embeddings, both of shape (B, D)."""
        width, levels = self.shape["width"], self.shape["levels"]
        # The channels that leave after each level, then those that remain.
        parts = [width // 2**level for level in range(1, levels)] + [width // 2 ** (levels - 1)]
        *left, rows = torch.split_with_sizes(vectors, parts, dim=1)
        for level in reversed(range(len(self.levels))):
            if level < len(left):
                rows = torch.cat([rows, left[level]], dim=1)
            for step in reversed(self._list_steps(level)):
                rows = step.inverse(rows)
        return rows

    def log_determinant(self) -> Tensor:
        """Compute the log-determinant of the Jacobian: a scalar that is equal for all vectors."""
        norms = [step.norm for level in range(len(self.levels)) for step in self._list_steps(level)]
        return _LOG_FACTOR * torch.stack([norm.log_scale.sum() for norm in norms]).sum()

    def _list_steps(self, level: int) -> list[FlowStep]:
        return [step for step in self.levels[level].children() if isinstance(step, FlowStep)]
