"""Dev evaluation: what a trial reports of its encoder while it trains."""

from collections.abc import Sequence

from cse_methods.contract import DevTask
from cse_methods.data.dev_sets import DevSet, load_dev_set
from cse_methods.encoder import Encoder
from cse_methods.metrics import alignment, cosines, spearman, uniformity

SAME_MEANING = 4.0
"""Pairs with a gold score above this one count as positives for the alignment."""


class DevSuite:
    """The dev sets of a trial, scored together so that each distinct sentence is encoded once.

    Args:
        tasks: the dev sets to score.
        data: the setting `data` of a configuration: where they are read from.
    """

    def __init__(self, tasks: Sequence[DevTask], *, data: str | None) -> None:
        self.sets: tuple[DevSet, ...] = tuple(load_dev_set(task, data) for task in tasks)

    def evaluate(self, encoder: Encoder) -> dict[str, float]:
        """Spearman on each dev set; alignment and uniformity on STS-B dev.

        Returns:
            `dev/<task>_spearman` in [-1, 1] (nan if the encoder gives constant similarities);
            `dev/alignment` (lower is better) over pairs with gold above 4 and
            `dev/uniformity` (lower is better) over all distinct sentences, if STS-B is scored.
        """
        sentences = list(dict.fromkeys(s for d in self.sets for s in (*d.first, *d.second)))
        row = {sentence: number for number, sentence in enumerate(sentences)}
        embeddings = encoder.encode(sentences)
        metrics: dict[str, float] = {}
        for dev in self.sets:
            first = embeddings[[row[sentence] for sentence in dev.first]]
            second = embeddings[[row[sentence] for sentence in dev.second]]
            metrics[f"dev/{dev.task}_spearman"] = spearman(cosines(first, second), dev.gold)
            if dev.task == "stsb":
                same = dev.gold > SAME_MEANING
                own = {row[sentence] for sentence in (*dev.first, *dev.second)}
                metrics["dev/alignment"] = alignment(first[same], second[same])
                metrics["dev/uniformity"] = uniformity(embeddings[sorted(own)])
        return metrics
