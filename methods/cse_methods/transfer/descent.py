"""Softmax regressions trained side by side: as many small fits, one tensor program.

All that differs between the fits of one call is their rows and their penalty. They share the first
weights, the order of their batches and, those of one fold, the batches themselves, so a step of all
of them is one gather and two batched products.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cse_methods.transfer.protocol import MAX_EPOCHS, SENTEVAL_SEED, TransferProtocol
from cse_methods.transfer.samples import Design, RowNumbers

_EPSILON = 1e-8
_HELD_OUT = 0.05
"""Share of the rows that validates where no validation rows are given."""


class TrainingFold(NamedTuple):
    train: RowNumbers
    validation: RowNumbers | None = None
    """None draws them from the training rows; they are then not trained on."""


def measure_accuracies(data: Design, weights: Tensor, rows: RowNumbers) -> Tensor:
    """Measure the share of these rows that each model classifies rightly: shape (R,), float64.

    The weights are those of R models, shape (R, C, W).
    """
    indices = torch.from_numpy(rows).to(data.labels.device)
    right = predict(data, weights, rows) == data.labels[indices]
    return right.double().mean(dim=1)


def predict(data: Design, weights: Tensor, rows: RowNumbers) -> Tensor:
    """Predict the classes, shape (R, N), of these N rows by R models, shape (R, C, W)."""
    indices = torch.from_numpy(rows).to(data.labels.device)
    logits = weights.flatten(end_dim=1) @ data.inputs.index_select(0, indices).T
    return logits.view(*weights.shape[:2], -1).argmax(dim=1)


@torch.no_grad()
def descend(
    data: Design, folds: Sequence[TrainingFold], penalties: Tensor, protocol: TransferProtocol
) -> Tensor:
    """Train a softmax regression for every fold and penalty, each until it stops by itself.

    Args:
        data: where the folds' rows lie.
        folds: F of them, all with the same number of training rows.
        penalties: shape (F, R), L2 on weights and bias.
        protocol: optimiser, batches and patience.

    Returns:
        Shape (F, R, C, W): each model at its best look at the validation accuracy.
    """
    order = np.random.RandomState(SENTEVAL_SEED)
    train, validation = _split_validation(folds, order)
    rows = torch.from_numpy(np.stack(train)).to(data.labels.device)
    step = _Step(data, penalties, protocol)
    best = _Best(_split_by_model(step.weights, data.classes), penalties.shape)
    epochs = 0
    while len(best.active) and epochs <= MAX_EPOCHS:
        for _ in range(protocol.epoch_size):
            shuffled = rows[best.active][:, order.permutation(rows.shape[1])]
            for batch in torch.split(shuffled, protocol.batch_size, dim=1):
                step(batch)
        epochs += protocol.epoch_size
        weights = _split_by_model(step.weights, data.classes)
        accuracies = [
            measure_accuracies(data, models, validation[fold])
            for models, fold in zip(weights, best.active.tolist(), strict=True)
        ]
        step.keep(best.look(torch.stack(accuracies), weights, protocol.tenacity))
    return best.weights


def _split_validation(
    folds: Sequence[TrainingFold], order: np.random.RandomState
) -> tuple[list[RowNumbers], list[RowNumbers]]:
    """Return training and validation rows; without given ones, all folds draw in one order."""
    given = [fold.validation for fold in folds if fold.validation is not None]
    if len(given) == len(folds):
        return [fold.train for fold in folds], given
    order_of_rows = order.permutation(len(folds[0].train))
    held_out, left = np.split(order_of_rows, [int(_HELD_OUT * len(order_of_rows))])
    return [fold.train[left] for fold in folds], [fold.train[held_out] for fold in folds]


class _Step:
    """One step of all models at once; holds their weights, shape (F, R * C, W)."""

    def __init__(self, data: Design, penalties: Tensor, protocol: TransferProtocol) -> None:
        self.data = data
        self.targets = nn.functional.one_hot(data.labels, data.classes).to(data.inputs.dtype)
        models = penalties.shape[1]
        self.weights = _draw_first_weights(data).repeat(len(penalties), models, 1)
        decay = penalties.to(self.weights).repeat_interleave(data.classes, dim=1)
        self.decay = decay.unsqueeze(2)
        self.optimizer, self.steps = protocol.optimizer, 0
        self.mean, self.square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)

    def __call__(self, batch: Tensor) -> None:
        """Descend the mean cross-entropy of a batch of each fold, shape (F, B)."""
        inputs = _gather_rows(self.data.inputs, batch)
        targets = _gather_rows(self.targets, batch).transpose(1, 2).unsqueeze(1)
        logits = self.weights @ inputs.transpose(1, 2)
        # (F, R, C, B): the gradient of the mean cross-entropy by the logits.
        errors = _split_by_model(logits, self.data.classes).softmax(dim=2)
        errors.sub_(targets).div_(batch.shape[1])
        gradient = errors.flatten(1, 2) @ inputs
        gradient.addcmul_(self.weights, self.decay)
        self._move_weights(gradient)

    def _move_weights(self, gradient: Tensor) -> None:
        """Move the weights as torch's Adam or RMSprop at its defaults does, without autograd."""
        weights, mean, square = self.weights, self.mean, self.square
        if self.optimizer == "rmsprop":
            square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            weights.addcdiv_(gradient, square.sqrt().add_(_EPSILON), value=-1e-2)
        else:
            self.steps += 1
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            correction = math.sqrt(1 - 0.999**self.steps)
            scale = square.sqrt().div_(correction).add_(_EPSILON)
            weights.addcdiv_(mean, scale, value=-1e-3 / (1 - 0.9**self.steps))

    def keep(self, folds: Tensor) -> None:
        """Go on with these folds only."""
        if not folds.all():
            self.weights, self.decay = self.weights[folds], self.decay[folds]
            self.mean, self.square = self.mean[folds], self.square[folds]


def _split_by_model(stacked: Tensor, classes: int) -> Tensor:
    """Split shape (F, R * C, X) into (F, R, C, X), a view."""
    return stacked.view(len(stacked), -1, classes, stacked.shape[2])


def _gather_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Compute `matrix[rows]` for rows of any shape, at twice the speed of indexing."""
    return matrix.index_select(0, rows.flatten()).view(*rows.shape, -1)


class _Best:
    """The best weights of each model so far, and which folds still have a model that learns."""

    def __init__(self, weights: Tensor, shape: torch.Size) -> None:
        self.weights = weights.clone()
        self.active = torch.arange(len(weights), device=weights.device)
        self.accuracy = torch.full(shape, -1.0, dtype=torch.float64, device=weights.device)
        self.misses = torch.zeros(shape, dtype=torch.int64, device=weights.device)
        self.learning = torch.ones(shape, dtype=torch.bool, device=weights.device)

    def look(self, accuracy: Tensor, weights: Tensor, tenacity: int) -> Tensor:
        """Take the validation accuracies of the active folds, shape (A, R); which of them go on."""
        active = self.active
        better = self.learning[active] & (accuracy > self.accuracy[active])
        fold, model = better.nonzero(as_tuple=True)
        self.accuracy[active[fold], model] = accuracy[better]
        self.weights[active[fold], model] = weights[better]
        # A model's misses are counted over its whole life, not since its best look.
        self.misses[active] += ~better
        self.learning[active] &= self.misses[active] <= tenacity
        going_on = self.learning[active].any(dim=1)
        self.active = active[going_on]
        return going_on


def _draw_first_weights(data: Design) -> Tensor:
    """Draw the weights that torch.nn.Linear has after torch.manual_seed, shape (C, W)."""
    generator = torch.Generator().manual_seed(SENTEVAL_SEED)
    weights = torch.empty(data.classes, data.width)
    nn.init.kaiming_uniform_(weights, a=5**0.5, generator=generator)
    bias = torch.empty(data.classes)
    bound = data.width**-0.5
    nn.init.uniform_(bias, -bound, bound, generator=generator)
    padded = torch.zeros(data.classes, data.inputs.shape[1])
    padded[:, : data.width], padded[:, data.width] = weights, bias
    return padded.to(data.inputs)
