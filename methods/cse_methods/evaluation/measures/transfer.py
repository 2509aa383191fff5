"""Transfer tasks: how well linear classifiers on frozen embeddings solve seven tasks."""

from typing import NamedTuple

from cse_methods.data.transfer_sets import LabelledSentences, TransferSet, load_transfer_set
from cse_methods.evaluation.test_sets.transfer import load_test_part
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TransferTask
from cse_methods.transfer.folds import Accuracies, Embed, task_accuracies
from cse_methods.transfer.protocol import TransferProtocol


class TransferTest(NamedTuple):
    """A task with its test set, if it is not tested by folds."""

    known: TransferSet
    test: LabelledSentences | None

    @property
    def task(self) -> TransferTask:
        return self.known.task

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every sentence, so that several tasks can be encoded at once."""
        parts = (self.known.train, self.known.dev, self.test)
        return tuple(sentence for part in parts if part is not None for sentence in part.sentences)

    @property
    def sha256(self) -> str:
        """Checksum of all sentences and classes, test set included."""
        return sha256_of([self.known.sha256, *([self.test.sha256] if self.test else [])])

    def score(self, vectors: Embed, protocol: TransferProtocol) -> Accuracies:
        """Train and test classifiers on the embeddings; papers report `TEST_PROTOCOL`.

        EvaluationError if an embedding is not finite.
        """
        return task_accuracies(self.known, vectors, protocol, test=self.test, tested=True)


def load_transfer_test(task: TransferTask, data: str | None) -> TransferTest:
    """Load a task with its test set. Raises DataError if one is unavailable or not the known."""
    return TransferTest(load_transfer_set(task, data), load_test_part(task, data))
