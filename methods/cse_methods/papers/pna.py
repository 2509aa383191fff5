"""PNA: supervised SimCSE in which positives, too, are told from the hard negatives.

Paper: An et al., Findings of EACL 2024, https://aclanthology.org/2024.findings-eacl.43.
The corpus has three columns: a sentence, its positive and its hard negative. The head stays at test
time, as in supervised SimCSE. With `smoothing` the corpus names a column of scores besides, as
CLHAIF's, and a score below 1 lowers what is asked of the positive.
Departs from the released code: `hard_negative_weight` weighs an anchor's own hard negative, as in
SimCSE, where the code's lands on the positive and its own hard negative (`augmented_weight`); rows
of logits are not multiplied by random numbers; a score of 0 asks nothing of the positive, where it
becomes another's share there. The text of the paper was not compared.
"""

from typing import Any

import torch
from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.encoders.devices import send_tensor
from cse_methods.errors import SettingError, TrainingError
from cse_methods.losses.augmented_negatives import Smoothing, augmented_contrast
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.student import Batch, Student
from cse_methods.training.supervised import SupervisedObjective


class PNAConfig(TwoViewConfig):
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    hard_negative_weight: float = released(
        0.0, "added to the logit of a sentence and its own hard negative"
    )
    augmented_weight: float = released(
        0.0, "added to the logit of a positive and its own hard negative"
    )
    smoothing: Smoothing | None = released(
        None,
        "what the corpus's label, the score of sentence and positive in [0, 1], does: it lowers "
        "the positive's target, or it also raises those of all others; null reads no scores",
    )

    def columns_taken(self) -> int:
        return 3

    def check_corpus(self, corpus: CorpusSpec) -> None:
        if self.smoothing is None:
            super().check_corpus(corpus)
            return
        if corpus.label is None:
            raise SettingError(
                "corpus",
                f"{corpus.short_name} has no scores, and smoothing needs them; name their column, "
                "label: …",
            )
        super().check_corpus(corpus.model_copy(update={"label": None}))

    def check_data(self, corpus: Corpus) -> None:
        """Raise TrainingError if scores are read, and one is missing or not in [0, 1]."""
        if self.smoothing is None:
            return
        if len(corpus.labels) < len(corpus.sentences):
            raise TrainingError(f"corpus {corpus.name}: its files have scores of different columns")
        for row, score in enumerate(corpus.labels, start=1):
            if isinstance(score, tuple) or not 0 <= score <= 1:
                raise TrainingError(
                    f"corpus {corpus.name}, row {row}: the score is {score}; expected a number "
                    "from 0 to 1"
                )


class PNA(SupervisedObjective):
    """Contrasts each sentence with its positive, and both with all hard negatives."""

    def __init__(self, config: PNAConfig, corpus: Corpus) -> None:
        super().__init__(corpus)
        config.check_data(corpus)
        self.config = config
        self.scores = torch.tensor(corpus.labels) if config.smoothing else None

    def losses(
        self, first: Tensor, second: Tensor, *negatives: Tensor, batch: Batch, **_: Any
    ) -> dict[str, Tensor]:
        config = self.config
        how: dict[str, Any] = {}
        if self.scores is not None:
            scores = send_tensor(self.scores[batch.rows], first.device)
            how = {"scores": scores, "smoothing": config.smoothing}
        contrast = augmented_contrast(
            first,
            second,
            *negatives,
            temperature=config.temperature,
            hard_negative_weight=config.hard_negative_weight,
            augmented_weight=config.augmented_weight,
            **how,
        )
        return {"contrastive": contrast}


@register_objective("pna", config=PNAConfig, revision=1)
def build(config: PNAConfig, corpus: Corpus, _: Student) -> PNA:
    return PNA(config, corpus)
