"""Modules that an objective uses and that never change."""

from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

Held = TypeVar("Held", bound=nn.Module)


class FrozenModule(nn.Module, Generic[Held]):
    """Holds a module that is read and never trained, such as a teacher or a generator.

    It takes no gradient, no optimiser knows it, and no checkpoint holds it, because its weights are
    loaded again when a trial goes on. It moves to the device of what it is part of.

    Args:
        module: with its own weights, so loaded, not drawn.
        dropout: whether it drops out, as in training; otherwise it is in evaluation mode always.
    """

    def __init__(self, module: Held, *, dropout: bool = False) -> None:
        super().__init__()
        # In a list, so that it is no part of this module: its mode and its state are its own.
        self._held = [module.requires_grad_(False).train(dropout)]

    @property
    def module(self) -> Held:
        """What is held."""
        return self._held[0]

    @torch.no_grad()
    def forward(self, *args: Any, **named: Any) -> Any:
        """What the module gives, without gradient."""
        return self.module(*args, **named)

    def _apply(self, *change: Any, **options: Any) -> Self:
        # PyTorch moves modules by it.
        held: Any = self.module
        held._apply(*change, **options)
        return self
