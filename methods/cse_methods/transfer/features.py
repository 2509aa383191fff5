"""What a transfer classifier sees of a sentence, or of a pair, and dev accuracies from it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cse_methods.data.transfer_sets import FOLDED, LabelledSentences, TransferSet
from cse_methods.transfer.folds import cross_validated, nested, split
from cse_methods.transfer.protocol import TransferProtocol
from cse_methods.transfer.samples import Samples

Embed = Callable[[Sequence[str]], Tensor]
"""Embeddings of N sentences, shape (N, D), float32."""


def samples_of(part: LabelledSentences, vectors: Embed) -> Samples:
    """The features of sentences with their classes, shape (N, D).

    Of pairs of embeddings a, b they are |a - b| and a * b side by side, shape (N, 2 D).
    """
    if part.second is None:
        return Samples(vectors(part.first), part.labels)
    first, second = vectors(part.first), vectors(part.second)
    return Samples(torch.cat([(first - second).abs(), first * second], dim=1), part.labels)


def dev_accuracy(task: TransferSet, vectors: Embed, protocol: TransferProtocol) -> float:
    """The accuracy that chooses the regularisation of a task, a fraction, by no test set.

    Raises:
        EvaluationError: if an embedding holds NaN or infinite numbers.
    """
    train = samples_of(task.train, vectors)
    if task.task in FOLDED:
        return nested(train, protocol, test=False).dev
    if task.dev is not None:
        return split(train, samples_of(task.dev, vectors), None, protocol).dev
    return cross_validated(train, None, protocol).dev
