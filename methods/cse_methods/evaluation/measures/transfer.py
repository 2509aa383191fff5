"""Transfer tasks: how well linear classifiers on frozen embeddings solve seven tasks."""

from dataclasses import dataclass

from cse_methods.data.transfer_sets import LabelledSentences, TransferSet, load_transfer_set
from cse_methods.evaluation.test_sets.transfer import load_test_part
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TransferTask
from cse_methods.transfer.features import Embed, samples_of
from cse_methods.transfer.folds import Accuracies, cross_validated, nested, split
from cse_methods.transfer.protocol import TransferProtocol


@dataclass(frozen=True)
class TransferResult:
    """The results on one task, as fractions."""

    task: TransferTask
    dev: float
    """The accuracy by which the regularisation was chosen, on folds or on the dev set."""
    test: float
    """The test accuracy; for tasks with folds, the mean over their outer folds."""
    f1: float | None
    """F1 of the class `same meaning`; for mrpc only."""
    data_sha256: str
    """Checksum of all sentences and classes, test set included."""


def transfer_scores(
    task: TransferTask, vectors: Embed, data: str | None, protocol: TransferProtocol
) -> TransferResult:
    """Train and test classifiers on a task's embeddings; papers report `TEST_PROTOCOL`.

    Raises:
        DataError: if a data set is unavailable or not the known one.
        EvaluationError: if an embedding is not finite.
    """
    known, test = _load(task, data)
    found = _accuracies(known, test, vectors, protocol)
    assert found.test is not None  # because the test was requested
    f1 = found.f1 if known.task == "mrpc" else None
    sha256 = sha256_of([known.sha256, *([] if test is None else [test.sha256])])
    return TransferResult(known.task, found.dev, found.test, f1, sha256)


def transfer_sentences(task: TransferTask, data: str | None) -> tuple[str, ...]:
    """Return every sentence of a task, so that several tasks can be encoded at once."""
    known, test = _load(task, data)
    parts = (known.train, known.dev, test)
    return tuple(sentence for part in parts if part is not None for sentence in part.sentences)


def test_sentences(task: TransferTask, data: str | None) -> tuple[str, ...]:
    """Return the sentences on which a task is scored; for tasks with folds, all of them."""
    known, test = _load(task, data)
    return tuple((known.train if test is None else test).sentences)


def _load(task: TransferTask, data: str | None) -> tuple[TransferSet, LabelledSentences | None]:
    return load_transfer_set(task, data), load_test_part(task, data)


def _accuracies(
    task: TransferSet, test: LabelledSentences | None, vectors: Embed, protocol: TransferProtocol
) -> Accuracies:
    train = samples_of(task.train, vectors)
    if test is None:
        return nested(train, protocol, test=True)
    tested = samples_of(test, vectors)
    if task.dev is None:
        return cross_validated(train, tested, protocol)
    return split(train, samples_of(task.dev, vectors), tested, protocol)
