"""Corpora as the trainer's data sets, and batches that are drawn from several by weight."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import torch
from datasets import Dataset, DatasetDict, DatasetInfo
from sentence_transformers.base.sampler import (
    DefaultBatchSampler,
    GroupByLabelBatchSampler,
    MultiDatasetDefaultBatchSampler,
    NoDuplicatesBatchSampler,
)
from torch.utils.data import RandomSampler

from cse_methods.data.corpus import Corpus
from cse_methods.errors import TrainingError
from cse_methods.sentence_transformers_trainer.losses import LOSSES, read_labels
from cse_methods.sentence_transformers_trainer.settings import StSettings
from cse_methods.training.teachers import TeacherSpec, teacher_vectors


def make_datasets(config: StSettings, corpus: Corpus) -> DatasetDict:
    """Make a data set of each part of a corpus, named after its loss.

    Columns are `text1`, `text2`, … and `label`. Where a loss compares texts and a text stands
    alone, it is its own partner.

    Raises:
        DataError: if labels are not what a loss reads.
        TrainingError: if a part has fewer rows than a batch.
    """
    config.check_data(corpus)
    sets = DatasetDict()
    parts, losses = corpus.parts or (corpus,), config.losses
    for number, (part, loss) in enumerate(zip(parts, losses, strict=False), start=1):
        rows = LOSSES[loss]
        texts = list(part.columns or (part.sentences,))
        if len(texts) < rows.fewest:  # checked to be a loss that takes views
            texts *= rows.fewest
        columns: dict[str, Any] = {f"text{n}": list(text) for n, text in enumerate(texts, start=1)}
        if rows.label == "vector":
            teacher = TeacherSpec(model=str(config.teacher))
            columns["label"] = teacher_vectors(teacher, part, max_length=config.max_length)
        elif rows.label is not None:
            columns["label"] = read_labels(part, loss)
        name = loss if len(parts) == 1 else f"{loss}_{number}"
        sets[name] = Dataset.from_dict(columns, info=DatasetInfo(description=loss))
    return sets


def make_batches(dataset: Dataset, *, no_duplicates: bool, **options: Any) -> DefaultBatchSampler:
    """Make the library's sampler of batches that fits the loss of a data set."""
    if LOSSES[dataset.info.description].by_label:
        return GroupByLabelBatchSampler(dataset, **options)
    if no_duplicates:
        return NoDuplicatesBatchSampler(dataset, **options)
    rows = RandomSampler(dataset, generator=options["generator"])
    return DefaultBatchSampler(rows, **options)


class WeightedBatchSampler(MultiDatasetDefaultBatchSampler):  # type: ignore[misc]
    """Draws the set of each batch by weight; a set that is used up begins anew.

    An epoch has as many batches as all sets together. Its order follows from seed and epoch.
    """

    def __init__(self, *arguments: Any, weights: Sequence[float], **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.weights = torch.tensor(weights)
        if not all(map(len, self.batch_samplers)):  # which would be begun anew for ever
            raise TrainingError("a corpus gives no whole batch; take a smaller batch_size")

    def __len__(self) -> int:
        return sum(map(len, self.batch_samplers))

    def __iter__(self) -> Iterator[list[int]]:
        self.generator.manual_seed(self.seed + self.epoch)
        drawn = torch.multinomial(self.weights, len(self), True, generator=self.generator)
        sizes = [0, *(len(dataset) for dataset in self.dataset.datasets)]
        batches = [chain.from_iterable(repeat(sampler)) for sampler in self.batch_samplers]
        for number in drawn.tolist():
            first = sum(sizes[: number + 1])
            yield [first + row for row in next(batches[number])]
