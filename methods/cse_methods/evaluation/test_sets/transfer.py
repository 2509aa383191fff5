"""The transfer tasks with their test sets, which SST-2, TREC and MRPC have; others have folds."""

from functools import cache
from typing import NamedTuple

from cse_methods.data.builtin.pairs import refuse_other_draw
from cse_methods.data.builtin.transfer import (
    LABELLED_SEEDS,
    PARTS,
    LabelledSentence,
    builtin_rows,
    draw_rows,
    sha256_of_rows,
)
from cse_methods.data.source import data_source
from cse_methods.data.transfer_sets import (
    FOLDED,
    LabelledSentences,
    TransferSet,
    load_part,
    load_transfer_set,
    read_transfer_files,
)
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TransferTask
from cse_methods.transfer.folds import Accuracies, Embed, task_accuracies
from cse_methods.transfer.protocol import TransferProtocol

TEST_FILES = read_transfer_files("test")
# The built-in sets are for offline tests and the quickstart only.
TEST_ROWS = 60


def load_test_part(task: TransferTask, data: str | None) -> LabelledSentences | None:
    """Load the test sentences of a task; None for tasks that are tested by folds.

    sst2 has 1821, trec 500 and mrpc 1725 pairs; each built-in part has 60. Raises as
    `load_transfer_set` does.
    """
    if task in FOLDED:
        return None
    source = data_source(data)
    return load_part(task, source, TEST_FILES[task], builtin=lambda: builtin_test_rows(task))


@cache
def builtin_test_rows(task: str) -> tuple[LabelledSentence, ...]:
    """Draw 60 sentences or pairs of sst2, trec or mrpc; none is in a part for training."""
    parts = PARTS if task == "sst2" else ["train"]
    seen = {row.first for part in parts for row in builtin_rows(task, part)}
    rows = draw_rows(task, TEST_ROWS, seed=LABELLED_SEEDS[task] + 200, without=seen)
    refuse_other_draw(f"{task} test", sha256_of_rows(rows))
    return rows


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
