"""MultiCSR: supervised SimCSE without the negatives that a frozen model finds too alike.

Paper: Wang et al., NAACL 2024, https://arxiv.org/abs/2310.10962.
The corpus has three columns: a sentence, its positive and its hard negative. Its authors have the
last two written and filtered by a language model; here the columns are what the corpus has. The
head is used in training alone, as in the released script.
Departs from the released code: negatives above phi are left out of the sum, where the code gives
them the logit 0 in a binary cross-entropy over all pairs (`form: bce`, which is computed so that it
stays finite where a probability rounds to 1); phi bounds the cosine at every temperature, where the
code compares cosine / temperature with 20 phi; the complementary model drops nothing out, and its
vectors are computed once per machine. The text of the paper was not compared.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.encoder import Encoder
from cse_methods.losses.debiased import (
    DebiasedForm,
    debiased_loss,
    false_negative_weights,
    noise_logits,
)
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.student import Batch, Student
from cse_methods.training.supervised import SupervisedObjective
from cse_methods.training.teachers import TeacherSpec, teacher_vectors


class MultiCSRConfig(TwoViewConfig):
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    complementary_model: TeacherSpec = released(
        ..., "frozen encoder that finds false negatives, such as simcse-bert-base"
    )
    phi: float = released(
        0.95, "cosine above which a negative is false; 1 keeps all", ge=-1, le=1, symbol="φ"
    )
    form: DebiasedForm = released(
        "infonce", "InfoNCE without false negatives, or binary cross-entropy with their logit 0"
    )

    def columns_taken(self) -> int:
        return 3

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, self.complementary_model.model)


def weigh_triples(anchors: Tensor, positives: Tensor, negatives: Tensor, *, phi: float) -> Tensor:
    r"""Compute weights of the pairs of anchors with positives and with hard negatives.

    Args:
        anchors: embeddings by the complementary model, shape (B, D).
        positives: embeddings of the positives, shape (B, D).
        negatives: embeddings of the hard negatives, shape (B, D).
        phi: :math:`\phi`; a negative with a cosine above it is a false one, also an anchor's own
            hard negative.

    Returns:
        Shape (B, 2 B), constant: 0 for false negatives, 1 for others and for an anchor's positive.

    Source:
        Wang et al. 2024 (MultiCSR), as its released code computes it at a temperature of 0.05.
    """
    weights = false_negative_weights(anchors, positives, phi=phi)
    hard = cosine_matrix(anchors.detach(), negatives.detach()) <= phi
    return torch.cat([weights, hard.to(weights.dtype)], dim=1)


class MultiCSR(SupervisedObjective):
    """Contrasts each sentence with its positive, without likely false negatives."""

    def __init__(self, config: MultiCSRConfig, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.config = config
        self.frozen: list[NDArray[np.float32]] = [
            teacher_vectors(config.complementary_model, column, max_length=config.max_length)
            for column in self.columns
        ]

    def losses(
        self, first: Tensor, second: Tensor, *negatives: Tensor, batch: Batch, **_: Any
    ) -> dict[str, Tensor]:
        config = self.config
        frozen = [torch.from_numpy(np.asarray(vectors[batch.rows])) for vectors in self.frozen]
        weights = send_tensor(weigh_triples(*frozen, phi=config.phi), first.device)
        logits = noise_logits(first, second, *negatives, temperature=config.temperature)
        return {"contrastive": debiased_loss(logits, weights, form=config.form)}

    def evaluation_encoder(self, student: Student) -> Encoder:
        """Return the encoder without its head."""
        return student.encoder


@register_objective("multicsr", config=MultiCSRConfig, revision=1)
def build(config: MultiCSRConfig, corpus: Corpus, _: Student) -> MultiCSR:
    return MultiCSR(config, corpus)
