"""Linear classifiers for many folds and regularisations, by gradient descent or to convergence."""

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.encoders.devices import memory_advice
from cse_methods.transfer.descent import TrainingFold, descend
from cse_methods.transfer.protocol import SENTEVAL_SEED, TransferProtocol
from cse_methods.transfer.samples import Design

_SIDE_BY_SIDE = 25
"""Folds trained at once: with more, their batches outgrow a processor's cache."""
_ITERATIONS = 10_000
"""More than any fit needs: 100, scikit-learn's own limit, ends some before they converge."""


@memory_advice("it trains linear classifiers")
def fit_classifiers(
    data: Design,
    folds: Sequence[TrainingFold],
    regularisations: NDArray[np.float64],
    protocol: TransferProtocol,
) -> Tensor:
    """Fit a classifier for every fold and regularisation; these have shape (F, R).

    Returns:
        Shape (F, R, C, W); a row of the design times these gives the logits of its C classes.

    BackboneError if the GPU's memory is full; it says the way out.
    """
    if protocol.classifier == "scikit-learn":
        return _fit_to_convergence(data, folds, regularisations)
    weights = data.inputs.new_empty(*regularisations.shape, data.classes, data.inputs.shape[1])

    def fit_group(group: list[int]) -> None:
        penalties = torch.from_numpy(regularisations[group]).to(data.inputs.device)
        weights[group] = descend(data, [folds[index] for index in group], penalties, protocol)

    groups = _group_folds([len(fold.train) for fold in folds])
    if weights.is_cuda:  # a GPU does one operation after another, whoever asks for it
        for group in groups:
            fit_group(group)
        return weights
    with _keep_threads_apart() as threads, ThreadPoolExecutor(threads) as pool:
        list(pool.map(fit_group, groups))
    return weights


def _group_folds(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group folds that run side by side: they have one length, and so share their order."""
    for length in dict.fromkeys(lengths):
        alike = [index for index, own in enumerate(lengths) if own == length]
        for start in range(0, len(alike), _SIDE_BY_SIDE):
            yield alike[start : start + _SIDE_BY_SIDE]


@contextmanager
def _keep_threads_apart() -> Iterator[int]:
    """Let torch use one thread an operation, and yield how many operations may run at a time.

    A step is too small to be shared: two threads that wait for each other at every product take
    longer than one, and many times as long where another program holds a core.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _fit_to_convergence(
    data: Design, folds: Sequence[TrainingFold], regularisations: NDArray[np.float64]
) -> Tensor:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    shape = (*regularisations.shape, data.classes, data.inputs.shape[1])
    weights = data.inputs.new_zeros(shape, device="cpu")
    inputs, labels = data.inputs[:, : data.width].cpu().numpy(), data.labels.cpu().numpy()
    for index, fold in enumerate(folds):
        # In double precision, which the solver needs to reach its tolerance.
        features, classes = inputs[fold.train].astype(np.float64), labels[fold.train]
        for number, inverse in enumerate(regularisations[index]):
            model = LogisticRegression(C=inverse, random_state=SENTEVAL_SEED, max_iter=_ITERATIONS)
            with warnings.catch_warnings():
                # It also warns where rounding leaves nothing to gain, which no user can mend.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(features, classes)
            fitted = torch.from_numpy(np.c_[model.coef_, model.intercept_])
            # Of two classes there is one row: that of the second.
            weights[index, number, -len(fitted) :, : data.width + 1] = fitted
    return weights.to(data.inputs.device)
