"""Dev evaluation: the scores that a trial reports during training."""

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from torch import Tensor

from cse_methods.data.dev_selection import DevSelection, dev_metric, width_metric
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.pairs import PairSet
from cse_methods.data.transfer_sets import TransferSet, load_transfer_set
from cse_methods.encoders.devices import computing_in, default_device, send_tensor
from cse_methods.encoders.loading import SentenceEncoder
from cse_methods.errors import EvaluationError
from cse_methods.metrics import alignment, cosines, spearman, uniformity
from cse_methods.precision import Arithmetic
from cse_methods.referenced_tasks.dev_set import ReferencedSet
from cse_methods.tasks import TRANSFER_TASKS
from cse_methods.transfer.folds import task_accuracies
from cse_methods.transfer.protocol import DEV_PROTOCOL

SAME_MEANING = 4.0
"""Pairs with a gold score above this are the positives of the alignment."""


class DevSuite:
    """The dev sets of a trial.

    Args:
        dev: the dev sets to score, as selected by a configuration.
        data: the setting `data`: where the package's dev sets are read from.
        arithmetic: precision of the encoder, as in training; all else is computed in float32.
        widths: pairs are also scored by so many first coordinates of their vectors.
    """

    def __init__(
        self,
        dev: DevSelection,
        *,
        data: str | None,
        arithmetic: Arithmetic = "fp32",
        widths: Sequence[int] = (),
    ) -> None:
        self.arithmetic = arithmetic
        self.widths = tuple(widths)
        self.sets: tuple[PairSet, ...] = tuple(
            load_dev_pairs(dev, name, data)
            for name in dev.tasks
            if name != "transfer_dev" and name not in dev.references
        )
        self.referenced = tuple(map(ReferencedSet, dev.references.values()))
        self.selection = dev
        sentences = dict.fromkeys(s for d in self.sets for s in (*d.first, *d.second))
        sentences |= dict.fromkeys(text for one in self.referenced for text in one.texts)
        self._row = {sentence: row for row, sentence in enumerate(sentences)}
        """Index of each distinct sentence among all of them."""
        self._read: tuple[Hashable, list[Any]] | None = None
        """The sentences' rows, after the key of what made them."""
        transfer = TRANSFER_TASKS if "transfer_dev" in dev.tasks else ()
        self.transfer: tuple[TransferSet, ...] = tuple(
            load_transfer_set(task, data) for task in transfer
        )

    def evaluate(self, encoder: SentenceEncoder) -> dict[str, float]:
        """Score an encoder on all dev sets: correlations, geometry and transfer accuracies.

        Returns:
            `dev/<task>_spearman` in [-1, 1] (nan if the encoder gives constant similarities);
            `dev/<task>_spearman_width_<width>` of the first coordinates, for each width;
            for the set `DevSelection.geometry`, `dev/alignment` (lower is better) over pairs with
            gold above 4 of 5, if there are any, and `dev/uniformity` (lower is better) over all
            distinct sentences;
            `dev/<task>_main_score` of tasks that a reference names (nan if an embedding holds NaN);
            for `transfer_dev`, `dev/<task>_accuracy` in [0, 1] of the seven transfer tasks (nan
            if an embedding holds NaN) and their mean, `dev/avg_transfer_accuracy`;
            the means of several sets that pick the checkpoint or guide the search, such as
            `dev/stsb_sickr_mean`.
        """
        metrics: dict[str, float] = {}
        embeddings = self._encode_sentences(encoder)
        for dev, first, second, every in self._split_pairs(embeddings):
            metrics[dev_metric(dev.task)] = spearman(cosines(first, second), dev.gold)
            for width in self.widths:
                similarities = cosines(first[:, :width], second[:, :width])
                metrics[width_metric(dev.task, width)] = spearman(similarities, dev.gold)
            if dev.task == self.selection.geometry:
                same = dev.gold > SAME_MEANING
                if same.any():
                    metrics["dev/alignment"] = alignment(first[same], second[same])
                metrics["dev/uniformity"] = uniformity(send_tensor(every, default_device()))
        for one in self.referenced:
            metrics[dev_metric(one.task)] = self._score_referenced(one, encoder, embeddings)
        if self.transfer:  # one by one, because all embeddings together would take gigabytes
            accuracies = {
                f"dev/{task.task}_accuracy": self._measure_accuracy(task, encoder)
                for task in self.transfer
            }
            metrics |= accuracies | {
                dev_metric("transfer_dev"): sum(accuracies.values()) / len(accuracies)
            }
        return self.selection.with_means(metrics)

    def similarities(self, encoder: SentenceEncoder) -> dict[str, Tensor]:
        """Compute the cosine of each pair, shape (pairs,), by the name of the set."""
        embeddings = self._encode_sentences(encoder)
        return {
            dev.task: cosines(first, second)
            for dev, first, second, _ in self._split_pairs(embeddings)
        }

    def _encode_sentences(self, encoder: SentenceEncoder) -> Tensor:
        """Encode each distinct sentence of all sets once, shape (sentences, D)."""
        with computing_in(self.arithmetic, encoder.device):
            if self._read is None or self._read[0] != encoder.reading_key:
                self._read = encoder.reading_key, list[Any](encoder.rows(list(self._row)))
            return encoder.encode_rows(self._read[1])

    def _split_pairs(self, embeddings: Tensor) -> Iterator[tuple[PairSet, Tensor, Tensor, Tensor]]:
        """Yield each set of pairs with embeddings: of its pairs and of its distinct sentences."""
        row = self._row
        for dev in self.sets:
            first = embeddings[[row[sentence] for sentence in dev.first]]
            second = embeddings[[row[sentence] for sentence in dev.second]]
            own = sorted({row[sentence] for sentence in (*dev.first, *dev.second)})
            yield dev, first, second, embeddings[own]

    def _score_referenced(
        self, task: ReferencedSet, encoder: SentenceEncoder, embeddings: Tensor
    ) -> float:
        def embed(texts: Sequence[str]) -> Tensor:
            if all(text in self._row for text in texts):
                return embeddings[[self._row[text] for text in texts]]
            with computing_in(self.arithmetic, encoder.device):
                return encoder.encode(texts).cpu()

        try:
            return task.score(embed)
        except EvaluationError:
            return math.nan  # as for pairs: the trial continues, and this step is not kept

    def _measure_accuracy(self, task: TransferSet, encoder: SentenceEncoder) -> float:
        def encode(sentences: Sequence[str]) -> Tensor:
            with computing_in(self.arithmetic, encoder.device):
                return encoder.encode(sentences)

        try:
            return task_accuracies(task, encode, DEV_PROTOCOL).dev
        except EvaluationError:
            return math.nan  # as for pairs: the trial continues, and this step is not kept
