"""torch's Adam and RMSprop for many small models at once: one tensor, no autograd.

`update` moves weights of shape (F, M, W), F folds of M models, in place; `keep` forgets all but
some folds.
"""

import math

import torch
from torch import Tensor

_EPSILON = 1e-8


class Adam:
    """torch.optim.Adam at its defaults; L2 penalties are part of the gradient."""

    def __init__(self, weights: Tensor) -> None:
        self.steps = 0
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)

    def update(self, weights: Tensor, gradient: Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        correction = math.sqrt(1 - 0.999**self.steps)
        scale = self.square.sqrt().div_(correction).add_(_EPSILON)
        weights.addcdiv_(self.mean, scale, value=-1e-3 / (1 - 0.9**self.steps))

    def keep(self, folds: Tensor) -> None:
        self.mean, self.square = self.mean[folds], self.square[folds]


class RMSprop:
    """torch.optim.RMSprop at its defaults; L2 penalties are part of the gradient."""

    def __init__(self, weights: Tensor) -> None:
        self.square = torch.zeros_like(weights)

    def update(self, weights: Tensor, gradient: Tensor) -> None:
        self.square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        weights.addcdiv_(gradient, self.square.sqrt().add_(_EPSILON), value=-1e-2)

    def keep(self, folds: Tensor) -> None:
        self.square = self.square[folds]
