"""BERT-flow: a frozen encoder, and a flow after its pooler that makes its vectors Gaussian.

Paper: Li et al., EMNLP 2020, https://arxiv.org/abs/2011.05864.
The encoder is never trained, so its vectors are kept on the machine and shared by trials; the flow
stays at test. What the released code calls the last two layers are the first and the last, which
`pooler: avg_first_last` is.
Departs from the released code: dropout of the encoder is off while the flow trains
(`encoder_dropout: true` has it on); a flow starts with `start_batch` sentences, not those of its
first batch; the sentences of a batch are drawn by themselves, and its halves stand for the two
sides of the pairs there; the checkpoint is picked on dev.
Departs from it: the paper's target models are trained on the texts of the test sets, which here
is a marked option (`transductive: true` of a corpus).
"""

from typing import ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from cse_methods.config import TrainingConfig
from cse_methods.contract import Run
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.flow import Flow
from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import SettingError, TrainingError
from cse_methods.losses.likelihood import bits_per_dimension, log_likelihood
from cse_methods.registry import register
from cse_methods.settings import released, setting
from cse_methods.training import loop as training
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, Student, StudentProtocol
from cse_methods.training.teachers import TeacherSpec, teacher_vectors


class BERTFlowConfig(TrainingConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()

    pooler: Pooler = released("avg_first_last", "how the vectors of tokens become one vector")
    learning_rate: float = released(1e-3, "the highest of the flow", gt=0)
    levels: int = released(
        3, "levels of the flow; half of the channels leave after each but the last", ge=1, le=6
    )
    depth: int = released(3, "steps of a level", ge=1, le=16)
    width: int = released(32, "of the networks in the couplings", ge=1, le=1024)
    start_batch: int = setting(
        512,
        "sentences that the flow starts with, each coordinate standardised; a "
        "coordinate that is constant in them would be stretched a million times",
        ge=2,
        source="ours; 32 in the released code",
    )
    encoder_dropout: bool = released(
        False, "whether the frozen encoder drops out while the flow trains"
    )

    @model_validator(mode="after")
    def _refuse_another_pooler_at_test(self) -> Self:
        if self.test_pooler not in (None, self.pooler):
            raise SettingError(
                "test_pooler",
                f"test_pooler={self.test_pooler}: the flow fits the vectors of one pooler, here "
                f"{self.pooler}; leave test_pooler out",
            )
        return self

    def check_width(self, width: int) -> None:
        """Raise TrainingError unless the vectors can be halved after each level."""
        if width % 2**self.levels:
            raise TrainingError(
                f"levels={self.levels} halve vectors of {width} coordinates as often, which is not "
                f"whole; take fewer levels"
            )


class BERTFlow(Objective):
    """The flow, trained on vectors of the frozen encoder."""

    def __init__(
        self, config: BERTFlowConfig, student: Student, *, corpus: Corpus, seed: int
    ) -> None:
        super().__init__()
        encoder = student.encoder.requires_grad_(False)
        config.check_width(encoder.width)
        self.config = config
        self.flow = Flow(encoder.width, config.levels, config.depth, config.width)
        sentences = corpus.sentences
        count = min(config.start_batch, len(sentences))
        drawn = np.random.default_rng(seed).choice(len(sentences), size=count, replace=False)
        start = encoder.encode([sentences[row] for row in drawn], max_length=config.max_length)
        with torch.no_grad():
            self.flow(start, start=True)
        self.kept = (
            None
            if config.encoder_dropout
            else teacher_vectors(
                TeacherSpec(model=config.backbone, pooler=config.pooler, prompt=config.prompt),
                corpus,
                max_length=config.max_length,
                first_layer=config.first_layer,
            )
        )

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Compute the negative log-likelihood of each half of the batch, in bits per coordinate."""
        if self.kept is not None:
            vectors = send_tensor(torch.from_numpy(self.kept[batch.rows]), student.encoder.device)
        else:
            template = student.encoder.template
            contents = student.pieces_of(batch, template)
            with torch.no_grad():
                (vectors,) = student.encode(contents, template, head=False)
        likelihood = log_likelihood(self.flow(vectors), self.flow.log_determinant())
        bits = bits_per_dimension(likelihood, width=vectors.shape[1])
        first, second = bits.tensor_split(2)
        return {"first": first.mean(), "second": second.mean()}

    def parameter_groups(self, student: Student) -> list[ParameterGroup]:
        del student
        return [ParameterGroup([self.flow], weight_decay=self.config.weight_decay)]

    def evaluation_encoder(self, student: Student) -> Encoder:
        return student.encoder.with_post_pooling(self.flow)


@register("bertflow", config=BERTFlowConfig, revision=1)
def train(config: BERTFlowConfig, run: Run) -> dict[str, float]:
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    return training.train(
        config,
        run,
        corpus=corpus,
        objective=lambda student: BERTFlow(config, student, corpus=corpus, seed=run.seed),
    )
