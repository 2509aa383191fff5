"""Dev evaluation: the scores that a trial reports while it trains."""

import math
from collections.abc import Sequence

from cse_methods.data.dev_selection import DevTask, dev_metric
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.data.transfer_sets import TransferSet, load_transfer_set
from cse_methods.encoders.encoder import Encoder
from cse_methods.errors import EvaluationError
from cse_methods.metrics import alignment, cosines, spearman, uniformity
from cse_methods.tasks import TRANSFER_TASKS
from cse_methods.transfer.features import dev_accuracy
from cse_methods.transfer.protocol import DEV_PROTOCOL

SAME_MEANING = 4.0
"""Pairs with a gold score above this one count as positives for the alignment."""


class DevSuite:
    """The dev sets of a trial.

    Args:
        tasks: the dev sets to score.
        data: the setting `data` of a configuration: where they are read from.
    """

    def __init__(self, tasks: Sequence[DevTask], *, data: str | None) -> None:
        self.sets: tuple[PairSet, ...] = tuple(
            load_dev_set(task, data) for task in tasks if task != "transfer_dev"
        )
        transfer = TRANSFER_TASKS if "transfer_dev" in tasks else ()
        self.transfer: tuple[TransferSet, ...] = tuple(
            load_transfer_set(task, data) for task in transfer
        )

    def evaluate(self, encoder: Encoder) -> dict[str, float]:
        """Spearman on each set of pairs, and what goes with it; accuracies of transfer tasks.

        Returns:
            `dev/<task>_spearman` in [-1, 1] (nan if the encoder gives constant similarities);
            `dev/alignment` (lower is better) over pairs with gold above 4 and
            `dev/uniformity` (lower is better) over all distinct sentences, if STS-B is scored;
            for `transfer_dev`, `dev/<task>_accuracy` in [0, 1] of the seven transfer tasks (nan
            if an embedding holds NaN) and their mean, `dev/avg_transfer_accuracy`.
        """
        return self._pairs(encoder) | self._transfer(encoder)

    def _pairs(self, encoder: Encoder) -> dict[str, float]:
        """All sets together, so that each distinct sentence is encoded once."""
        sentences = list(dict.fromkeys(s for d in self.sets for s in (*d.first, *d.second)))
        row = {sentence: number for number, sentence in enumerate(sentences)}
        embeddings = encoder.encode(sentences)
        metrics: dict[str, float] = {}
        for dev in self.sets:
            first = embeddings[[row[sentence] for sentence in dev.first]]
            second = embeddings[[row[sentence] for sentence in dev.second]]
            metrics[dev_metric(dev.task)] = spearman(cosines(first, second), dev.gold)
            if dev.task == "stsb":
                same = dev.gold > SAME_MEANING
                own = {row[sentence] for sentence in (*dev.first, *dev.second)}
                metrics["dev/alignment"] = alignment(first[same], second[same])
                metrics["dev/uniformity"] = uniformity(embeddings[sorted(own)])
        return metrics

    def _transfer(self, encoder: Encoder) -> dict[str, float]:
        """Task after task, because all embeddings together would take gigabytes."""
        if not self.transfer:
            return {}
        found = {f"dev/{one.task}_accuracy": _accuracy(one, encoder) for one in self.transfer}
        return found | {dev_metric("transfer_dev"): sum(found.values()) / len(found)}


def _accuracy(task: TransferSet, encoder: Encoder) -> float:
    try:
        return dev_accuracy(task, encoder.encode, DEV_PROTOCOL)
    except EvaluationError:
        return math.nan  # as for pairs: the trial goes on, and this step is not kept
