"""ESimCSE: SimCSE whose second view repeats words, with a queue of negatives.

Paper: Wu et al., COLING 2022, https://arxiv.org/abs/2109.04380.
Departs from it: repetitions are bounded as in the released code (`repetition_bounds: paper` is the
paper's) and drawn anew each time a sentence is seen, where the code draws them once a corpus.
Departs from the released code: the momentum encoder starts from the pre-trained weights; there its
own are never loaded, which `momentum_start: random` imitates.
"""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from transformers import AutoModel

from cse_methods.contract import Paper, Pooler, Run, TrainingConfig
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.template import SPECIAL_PIECES
from cse_methods.encoders.word_pieces import RepetitionBounds, most_repeats, repeat
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.published.tables import published_settings
from cse_methods.registry import register
from cse_methods.settings import setting
from cse_methods.training import loop as training
from cse_methods.training.momentum import enqueue, moving_average_
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, Views


class ESimCSEConfig(TrainingConfig):
    """Settings of ESimCSE."""

    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls",)

    temperature: float = setting(
        0.05, gt=0, description="divides cosines", symbol="τ", source="released code"
    )
    repetition_rate: float = setting(
        0.32,
        ge=0,
        le=1,
        description="at most this share of a sentence's word pieces is doubled in the second view",
        symbol="dup_rate",
        source="released code",
    )
    repetition_bounds: RepetitionBounds = setting(
        "released",
        description="the most pieces doubled: max(2, rate x length), or one less and 9 at most",
        source="released code",
    )
    queue_size: int = setting(
        160,
        ge=0,
        description="earlier sentences that are negatives too; 0 for no queue",
        source="released code",
    )
    momentum: float = setting(
        0.995,
        ge=0,
        le=1,
        description="of the encoder that fills the queue; 0 copies the trained one",
        symbol="λ",
        source="released code",
    )
    momentum_start: Literal["pretrained", "random"] = setting(
        "pretrained",
        description="the weights it starts from; the released code has random ones",
        source="released code",
    )


class Repetition:
    """Doubles some pieces of a sentence, drawn with torch's own generator."""

    def __init__(self, rate: float, bounds: RepetitionBounds) -> None:
        self.rate = rate
        self.bounds = bounds

    def __call__(self, content: Sequence[int]) -> list[int]:
        """The content with 0 to `most_repeats` of its pieces doubled in place."""
        length = len(content) + SPECIAL_PIECES  # which count, but are never repeated
        most = most_repeats(length, rate=self.rate, bounds=self.bounds)
        if most == 0:
            return list(content)
        count = int(torch.randint(most + 1, ()))
        places: list[int] = torch.randperm(len(content))[:count].tolist()
        return repeat(content, places)


class ESimCSE(Objective):
    """SimCSE between a sentence and its repetition, among the batch and a queue of negatives."""

    def __init__(
        self,
        config: ESimCSEConfig,
        student: Student,
        *,
        negatives_from: NegativesFrom = "other_view",
    ) -> None:
        super().__init__()
        self.config = config
        self.negatives_from = negatives_from
        self.repetition = Repetition(config.repetition_rate, config.repetition_bounds)
        self.slow = _slow_encoder(student.encoder, config) if config.queue_size else None
        self.queue = torch.empty(0, student.encoder.width)

    def forward(self, student: Views, batch: Batch) -> dict[str, Tensor]:
        """The contrastive loss; then the batch enters the queue."""
        plain = student.encoder.template
        contents = student.pieces(batch.sentences, plain)
        # Beyond max_length, as in the released code, but not beyond what the model can read.
        room = student.encoder.limit - len(plain)
        first, second = student.encode(contents, plain, lambda c: plain(self.repetition(c)[:room]))
        contrastive = info_nce(
            first,
            second,
            temperature=self.config.temperature,
            queue=self.queue.to(first.device) if len(self.queue) else None,
            negatives_from=self.negatives_from,
        )
        if self.slow is not None:
            moving_average_(self.slow, student.encoder, momentum=self.config.momentum)
            with torch.no_grad():
                (entries,) = student.encode(contents, plain, encoder=self.slow)
            self.queue = enqueue(
                self.queue.to(entries.device), entries, size=self.config.queue_size
            )
        return {"contrastive": contrastive}

    def get_extra_state(self) -> dict[str, Tensor]:
        """The queue, which grows, so that it is no buffer."""
        return {"queue": self.queue}

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Take the queue of a checkpoint."""
        self.queue = state["queue"]


def _slow_encoder(encoder: Encoder, config: ESimCSEConfig) -> Encoder:
    """A copy of the encoder that takes no gradient and drops nothing out."""
    slow = copy.deepcopy(encoder)
    if config.momentum_start == "random":
        auto: Any = AutoModel
        slow.model = auto.from_config(encoder.model.config, add_pooling_layer=False)
    return slow.requires_grad_(False).eval()


@register(
    "esimcse",
    config=ESimCSEConfig,
    paper=Paper(
        "ESimCSE: Enhanced Sample Building Method for Contrastive Learning of Unsupervised "
        "Sentence Embedding",
        "https://arxiv.org/abs/2109.04380",
        2022,
    ),
    revision=1,
    published=published_settings("esimcse"),
)
def train(config: ESimCSEConfig, run: Run) -> dict[str, float]:
    """Train on raw sentences; return the metrics of the best checkpoint on dev."""
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    return training.train(
        config, run, corpus=corpus, objective=lambda student: ESimCSE(config, student)
    )
