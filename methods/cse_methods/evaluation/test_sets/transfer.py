"""The test sets of the transfer tasks that have one: SST-2, TREC and MRPC."""

from cse_methods.data.source import data_source
from cse_methods.data.transfer_sets import (
    FOLDED,
    TRAIN_FILES,
    LabelledSentences,
    TransferFile,
    load_part,
)
from cse_methods.evaluation.test_sets.builtin_transfer import builtin_test_rows
from cse_methods.tasks import TransferTask

TEST_FILES: dict[TransferTask, TransferFile] = {
    "sst2": TRAIN_FILES["sst2"][0]._replace(path="downstream/SST/binary/sentiment-test"),
    "trec": TRAIN_FILES["trec"][0]._replace(path="downstream/TREC/TREC_10.label"),
    "mrpc": TRAIN_FILES["mrpc"][0]._replace(path="downstream/MRPC/msr_paraphrase_test.txt"),
}


def load_test_part(task: TransferTask, data: str | None) -> LabelledSentences | None:
    """The test sentences of a task, counted; None for those that are tested fold by fold.

    sst2 has 1821, trec 500 and mrpc 1725 pairs; each built-in part has 60. Raises as
    `load_transfer_set`.
    """
    if task in FOLDED:
        return None
    source = data_source(data)
    return load_part(task, source, [TEST_FILES[task]], builtin=lambda: builtin_test_rows(task))
