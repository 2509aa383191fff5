"""Labelled embeddings, and the matrix that linear classifiers read them from."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.encoders.devices import default_device, memory_advice
from cse_methods.errors import EvaluationError

RowNumbers = NDArray[np.int64]
_ALIGNMENT = 16
"""Rows whose length is a multiple of this are gathered and multiplied faster."""


class Samples(NamedTuple):
    features: Tensor
    """Shape (N, D), float32 as encoders give them."""
    labels: RowNumbers
    """Shape (N,), classes from 0."""


@dataclass(frozen=True, eq=False)
class Design:
    """Several sets of samples in one matrix: folds are lists of its rows, never copies."""

    inputs: Tensor
    """Shape (N, W >= D + 1): the features, a one for the bias, zeros up to the alignment."""
    labels: Tensor
    """Shape (N,), int64."""
    width: int
    """D."""
    classes: int
    parts: tuple[RowNumbers, ...]
    """The rows of each set."""


@memory_advice("it trains linear classifiers")
def design(*samples: Samples) -> Design:
    """Build the matrix of these sets, one after the other, on the GPU if there is one.

    EvaluationError if a feature is NaN or infinite. BackboneError if the GPU's memory is full; it
    says the way out.
    """
    features = samples[0].features
    ends = np.cumsum([len(one.labels) for one in samples])
    width = features.shape[1]
    columns = -(-(width + 1) // _ALIGNMENT) * _ALIGNMENT
    device = default_device()
    inputs = torch.zeros(int(ends[-1]), columns, dtype=features.dtype, device=device)
    inputs[:, width] = 1
    for one, end in zip(samples, ends, strict=True):
        finite = one.features.isfinite().all(dim=1)
        if not finite.all():
            row = int(finite.logical_not().nonzero()[0, 0])
            raise EvaluationError(
                f"{int(finite.logical_not().sum())} of {len(finite)} embeddings hold NaN or "
                f"infinite numbers, the first is that of sentence {row}; score a checkpoint from "
                "before training broke down, or encode in fp32"
            )
        inputs[end - len(one.labels) : end, :width] = one.features
    labels = np.concatenate([one.labels for one in samples])
    classes = torch.from_numpy(labels).to(device)
    parts = tuple(np.split(np.arange(len(labels), dtype=np.int64), ends[:-1]))
    return Design(inputs, classes, width, int(labels.max()) + 1, parts)
