"""The features that a transfer classifier reads, and three ways to choose a regularisation and to
test it: nested folds, folds, given splits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.data.transfer_sets import FOLDED, LabelledSentences, TransferSet
from cse_methods.transfer.classifier import fit_classifiers
from cse_methods.transfer.descent import TrainingFold, measure_accuracies, predict
from cse_methods.transfer.protocol import SENTEVAL_SEED, TransferProtocol, regularisations
from cse_methods.transfer.samples import Design, RowNumbers, Samples, design


@dataclass(frozen=True)
class Accuracies:
    """How well the classes of sentences can be read from their embeddings; fractions."""

    dev: float
    """Accuracy of the chosen regularisation, on the folds or the dev set that chose it."""
    test: float | None
    """None where it was not asked for."""
    chosen: tuple[float, ...]
    """The regularisation of each final classifier."""
    f1: float | None = None
    """On test, of class 1 against class 0; 0 where nothing is found."""


def nested(samples: Samples, protocol: TransferProtocol, *, test: bool) -> Accuracies:
    """Score a task without a test set: inner folds choose the regularisation of each outer fold.

    The dev accuracy is the mean over the outer folds of the best mean over inner folds. Only if
    `test`, the outer folds are tested too. Raises as `design`.
    """
    data = design(samples)
    outer = _draw_folds(samples.labels, protocol.kfold)
    inner = [
        TrainingFold(rows[train], rows[validation])
        for rows, _ in outer
        for train, validation in _draw_folds(samples.labels[rows], protocol.kfold)
    ]
    values = regularisations(protocol, folds=False)
    scores = _score_folds(data, inner, values, protocol).reshape(len(outer), protocol.kfold, -1)
    means = scores.mean(axis=1)
    best = [_find_first_best(row) for row in means]
    chosen = tuple(values[index] for index in best)
    dev = float(np.mean([row[index] for row, index in zip(means, best, strict=True)]))
    if not test:
        return Accuracies(dev, None, chosen)
    final = [TrainingFold(train) for train, _ in outer]
    weights = fit_classifiers(data, final, np.array(chosen)[:, None], protocol)
    accuracies = [
        measure_accuracies(data, models, left_out).item()
        for models, (_, left_out) in zip(weights, outer, strict=True)
    ]
    return Accuracies(dev, float(np.mean(accuracies)), chosen)


def split(
    train: Samples, dev: Samples | None, test: Samples | None, protocol: TransferProtocol
) -> Accuracies:
    """Choose the regularisation by the dev set, which also stops the training, and test.

    Without a dev set, folds of the training set choose it, and the final classifier is trained on
    all of this set. Without a test set, only the dev accuracy is computed. Raises as `design`.
    """
    data = design(*(part for part in (train, dev, test) if part is not None))
    values = regularisations(protocol, folds=dev is None)
    if dev is None:
        final = TrainingFold(data.parts[0])
        folds = [TrainingFold(*rows) for rows in _draw_folds(train.labels, protocol.kfold)]
    else:
        final = TrainingFold(data.parts[0], data.parts[1])
        folds = [final]
    means = _score_folds(data, folds, values, protocol).mean(axis=0)
    best = _find_first_best(means)
    accuracy, chosen = float(means[best]), values[best]
    if test is None:
        return Accuracies(accuracy, None, (chosen,))
    rows = data.parts[-1]
    weights = fit_classifiers(data, [final], np.array([[chosen]]), protocol)[0]
    predicted = predict(data, weights, rows)[0].cpu().numpy()
    labels = data.labels.cpu().numpy()[rows]
    hits = int(np.sum((predicted == 1) & (labels == 1)))
    f1 = 2 * hits / max(1, int(np.sum(predicted == 1) + np.sum(labels == 1)))
    return Accuracies(accuracy, float(np.mean(predicted == labels)), (chosen,), f1)


def _draw_folds(labels: RowNumbers, folds: int) -> list[tuple[RowNumbers, RowNumbers]]:
    """Draw folds with the classes in proportion: the rows to train on, and those left out."""
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(folds, shuffle=True, random_state=SENTEVAL_SEED)
    return list(splitter.split(np.zeros(len(labels)), labels))


def _score_folds(
    data: Design, folds: Sequence[TrainingFold], values: Sequence[float], protocol: TransferProtocol
) -> NDArray[np.float64]:
    """Measure validation accuracies, shape (F, R)."""
    weights = fit_classifiers(data, folds, np.tile(values, (len(folds), 1)), protocol)
    rows = (fold.validation for fold in folds if fold.validation is not None)
    return np.array(
        [
            measure_accuracies(data, models, own).tolist()
            for models, own in zip(weights, rows, strict=True)
        ]
    )


def _find_first_best(accuracies: NDArray[np.float64]) -> int:
    """Return the place of the highest accuracy, rounded to 0.01 %; of equal ones the first."""
    return int(np.argmax(np.round(100 * accuracies, 2)))


Embed = Callable[[Sequence[str]], Tensor]
"""Embeddings of N sentences, shape (N, D), float32."""


def samples_of(part: LabelledSentences, vectors: Embed) -> Samples:
    """Compute the features of sentences, shape (N, D), and pair them with their classes.

    The features of a pair of embeddings a, b are |a - b| and a * b side by side, shape (N, 2 D).
    """
    if part.second is None:
        return Samples(vectors(part.first), part.labels)
    first, second = vectors(part.first), vectors(part.second)
    return Samples(torch.cat([(first - second).abs(), first * second], dim=1), part.labels)


def task_accuracies(
    task: TransferSet,
    vectors: Embed,
    protocol: TransferProtocol,
    *,
    test: LabelledSentences | None = None,
    tested: bool = False,
) -> Accuracies:
    """Train classifiers on a task's embeddings, and choose their regularisation by no test set.

    With `test`, the test set of a task that has one, the chosen classifier is tested on it; with
    `tested`, one without a test set is tested on its outer folds.

    EvaluationError if an embedding holds NaN or infinite numbers.
    """
    train = samples_of(task.train, vectors)
    if task.task in FOLDED:
        return nested(train, protocol, test=tested)
    unseen = None if test is None else samples_of(test, vectors)
    dev = None if task.dev is None else samples_of(task.dev, vectors)
    return split(train, dev, unseen, protocol)
