"""Modifiers of any loss on two views: terms that spread vectors out, and Matryoshka's prefixes."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch.nn.functional as F
from torch import Tensor

from cse_methods.config import TrainingConfig, TwoViewConfig
from cse_methods.errors import TrainingError
from cse_methods.losses.spread_out import spread_out
from cse_methods.training.base_method import ObjectiveOnBase, TwoViewsOfBase
from cse_methods.training.objective import Objective, TwoViewObjective
from cse_methods.training.student import EncodingOptions, RowTemplate, StudentOf, StudentProtocol

Views = tuple[Tensor, ...]


def modify_loss(objective: Objective, config: TrainingConfig, *, width: int) -> Objective:
    """Return the objective with the modifiers of its configuration, if there are any.

    They modify the loss of its base where it has none of two views itself. TrainingError if neither
    has, or vectors of this width have fewer coordinates than are to be read.
    """
    if not isinstance(config, TwoViewConfig) or not config.modifies_loss:
        return objective
    config.check_width(width)
    if isinstance(objective, TwoViewObjective):
        return ModifiedObjective(config, objective)
    if not isinstance(objective, ObjectiveOnBase):
        raise TrainingError(f"{type(objective).__name__} has no loss of two views to modify")
    objective.base = ModifiedObjective(config, objective.base)
    return objective


class ModifiedObjective(TwoViewsOfBase):
    """The loss of a base and terms that spread vectors out, of whole vectors or of prefixes."""

    def __init__(self, config: TwoViewConfig, base: TwoViewObjective) -> None:
        super().__init__(base)
        self.config = config

    def losses(
        self, first: Tensor, second: Tensor, *further: Tensor, student: StudentProtocol, **how: Any
    ) -> dict[str, Tensor]:
        """Compute the parts; with prefixes, each is a weighted sum over them."""
        dims, vectors = self.config.matryoshka_dims, (first, second, *further)
        if dims is None:
            return self._compute_parts(vectors, student=student, **how)
        weights = self.config.matryoshka_weights or [1.0] * len(dims)
        total: dict[str, Tensor] = {}
        encoded = list[Views]()
        for width, weight in zip(dims, weights, strict=True):
            reader = StudentOfPrefixes(student, width, encoded)
            cut = [take_prefix(rows, width) for rows in vectors]
            for name, part in self._compute_parts(cut, student=reader, **how).items():
                total[name] = total.get(name, 0.0) + weight * part
        return total

    def _compute_parts(self, vectors: Sequence[Tensor], **how: Any) -> dict[str, Tensor]:
        config, (mean, second) = self.config, spread_out(*vectors[:2])
        parts = dict(self.base.losses(*vectors, **how))
        if config.spread_mean_weight:
            parts["spread_mean"] = config.spread_mean_weight * mean
        if config.spread_second_weight:
            parts["spread_second"] = config.spread_second_weight * second
        return parts


class StudentOfPrefixes(StudentOf):
    """A student whose own vectors are cut; what is encoded at one width is read again at others."""

    def __init__(self, student: StudentProtocol, width: int, encoded: list[Views]) -> None:
        super().__init__(student)
        self.width, self.encoded, self.read = width, encoded, 0

    def encode(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> Views:
        if self.read == len(self.encoded):
            self.encoded.append(self.student.encode(contents, *templates, **how))
        views = self.encoded[self.read]
        self.read += 1
        return views if how.get("encoder") else tuple(take_prefix(v, self.width) for v in views)


def take_prefix(rows: Tensor, width: int) -> Tensor:
    """Return the first coordinates of each row, scaled to length 1: (B, D) -> (B, width)."""
    return F.normalize(rows[:, :width], dim=1)
