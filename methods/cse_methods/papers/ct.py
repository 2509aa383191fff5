"""CT: two encoders of the same start, trained to agree on a sentence and on nothing else.

Paper: Carlsson et al., ICLR 2021, https://openreview.net/forum?id=Ov_sMNau-PF.
Follows the released code: dot products without temperature, a negative pair has two sentences that
are no positive's (`anchored: true` is the paper's text), dropout is off, and of the two encoders
the better one on dev is kept. A batch is of pairs, so that `batch_size` counts these; dev points
count optimiser steps.
Departs from it: positives are drawn without replacement.
`form: in_batch` is the variant of sentence-transformers with a trained scale, which the paper does
not have. What is said here of the paper's text is from memory, not checked.
"""

import copy
import math
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from torch import Tensor, nn

from cse_methods.config import Conditions, TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import SettingError
from cse_methods.losses.similarity import Reduction, reduce
from cse_methods.losses.tension import build_pairs, contrastive_tension, in_batch_tension
from cse_methods.settings import released, setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol


class CTConfig(TrainingConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()
    conditions: ClassVar[Conditions] = {
        **{name: {"form": ("pairs",)} for name in ("negatives", "anchored", "reduction")},
        "scale": {"form": ("in_batch",)},
    }

    pooler: Pooler = released("avg", "how the vectors of tokens become one vector")
    dropout: float | None = released(
        0.0, "of hidden vectors and attention; null keeps the backbone's", ge=0, lt=1
    )
    form: Literal["pairs", "in_batch"] = released(
        "pairs", "of the loss: pairs told apart, or a sentence found among the batch"
    )
    negatives: int = released(
        7, "negative pairs that follow a positive one", ge=1, le=63, symbol="K"
    )
    anchored: bool = released(
        False, "whether a negative pair has its positive's sentence, as in the paper"
    )
    reduction: Reduction = released("mean", "over pairs; sum in sentence-transformers")
    scale: float = setting(
        20.0, "multiplies cosines; trained from this value", gt=0, source="sentence-transformers"
    )
    keep: Literal["better", "first", "second"] = released(
        "better", "the encoder that is scored and saved: the better one on dev, or one of them"
    )

    @model_validator(mode="after")
    def _refuse_half_a_set_of_pairs(self) -> Self:
        if self.form == "pairs" and self.batch_size % (self.negatives + 1):
            raise SettingError(
                "batch_size",
                f"batch_size={self.batch_size} pairs are no multiple of a positive and its "
                f"negatives={self.negatives}; take {self.negatives + 1} or a multiple of it",
            )
        return self


class CT(Objective):
    """The trained encoder and a second one; each encodes one sentence of a pair."""

    def __init__(self, config: CTConfig, student: Student, *, sentences: int) -> None:
        super().__init__()
        self.config = config
        self.sentences = sentences
        self.second = copy.deepcopy(student.encoder).train()
        trained = config.form == "in_batch"
        self.log_scale = nn.Parameter(torch.tensor(math.log(config.scale)), requires_grad=trained)

    def batch_rows(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sentences of the first encoder, then as many of the second.

        Of B drawn sentences, P are positives. Negatives are the others, or from the whole corpus.
        """
        config = self.config
        if config.form == "in_batch":
            return np.concatenate([drawn, drawn])
        positives = drawn[: len(drawn) // (config.negatives + 1)]
        negatives = drawn[len(positives) :]
        if not config.anchored:
            draws = np.random.default_rng(drawn)
            negatives = draws.integers(self.sentences, size=2 * len(negatives))
        first, second = build_pairs(
            positives.tolist(),
            negatives.tolist(),
            per_positive=config.negatives,
            anchored=config.anchored,
        )
        return np.array(first + second)

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Compute the loss of positive and of negative pairs, or of each in-batch direction."""
        config, template = self.config, student.encoder.template
        contents = student.pieces_of(batch, template)
        half = len(contents) // 2
        (first,) = student.encode(contents[:half], template)
        (second,) = student.encode(contents[half:], template, encoder=self.second)
        if config.form == "in_batch":
            forth, back = in_batch_tension(first, second, log_scale=self.log_scale)
            return {"forth": forth, "back": back}
        positive = torch.arange(half, device=first.device) % (config.negatives + 1) == 0
        losses = contrastive_tension(first, second, positive)
        return {
            "positive": reduce(losses * positive, config.reduction),
            "negative": reduce(losses * ~positive, config.reduction),
        }

    def metrics(self) -> dict[str, float]:
        return {"scale": self.log_scale.exp().item()} if self.config.form == "in_batch" else {}

    def evaluation_encoders(self, student: Student) -> Sequence[Encoder]:
        kept = {"first": (student.encoder,), "second": (self.second,)}
        return kept.get(self.config.keep, (student.encoder, self.second))


@register_objective("ct", config=CTConfig, revision=1)
def build(config: CTConfig, corpus: Corpus, student: Student) -> CT:
    return CT(config, student, sentences=len(corpus.sentences))
