"""Wraps modules that an objective uses but never trains."""

from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

Wrapped = TypeVar("Wrapped", bound=nn.Module)


class FrozenModule(nn.Module, Generic[Wrapped]):
    """Holds a module that is used but never trained, such as a teacher or a generator.

    It has no gradients, and neither the optimiser nor checkpoints include it: its weights are
    loaded again when a trial resumes. It moves to the device of the module that contains it.

    Args:
        module: with loaded weights, not random ones.
        dropout: whether it applies dropout as in training; otherwise it stays in evaluation mode.
    """

    def __init__(self, module: Wrapped, *, dropout: bool = False) -> None:
        super().__init__()
        # In a list, so that it is not registered as a submodule: its mode and state stay its own.
        self._wrapped = [module.requires_grad_(False).train(dropout)]

    @property
    def module(self) -> Wrapped:
        return self._wrapped[0]

    @torch.no_grad()
    def forward(self, *args: Any, **named: Any) -> Any:
        return self.module(*args, **named)

    def _apply(self, *change: Any, **options: Any) -> Self:
        # PyTorch moves modules by this method.
        wrapped: Any = self.module
        wrapped._apply(*change, **options)
        return self
