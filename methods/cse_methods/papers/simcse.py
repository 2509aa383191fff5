"""SimCSE, unsupervised: a sentence's positive is itself under another dropout mask.

Paper: Gao, Yao, Chen, EMNLP 2021, https://arxiv.org/abs/2104.08821.
Departs from it: the last, incomplete batch of an epoch is dropped.
"""

from typing import Any

from torch import Tensor

from cse_methods.contract import Paper, Run, TrainingConfig
from cse_methods.data.corpora import load_corpus
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.published.tables import published_settings
from cse_methods.registry import register
from cse_methods.settings import setting
from cse_methods.training import loop as training
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Batch, StudentProtocol


class SimCSEConfig(TrainingConfig):
    """Settings of SimCSE."""

    temperature: float = setting(
        0.05, gt=0, description="divides cosines", symbol="τ", source="eq. 1"
    )


class SimCSE(TwoViewObjective):
    """Each sentence finds its other view, under another dropout mask, among those of the batch."""

    def __init__(
        self, config: SimCSEConfig, *, negatives_from: NegativesFrom = "other_view"
    ) -> None:
        super().__init__()
        self.temperature = config.temperature
        self.negatives_from = negatives_from

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        """The sentence twice."""
        template = student.encoder.template
        return TwoViews(student.pieces(batch.sentences, template), (template, template))

    def losses(self, first: Tensor, second: Tensor, **_: Any) -> dict[str, Tensor]:
        """The contrastive loss."""
        contrastive = info_nce(
            first, second, temperature=self.temperature, negatives_from=self.negatives_from
        )
        return {"contrastive": contrastive}


@register(
    "simcse",
    config=SimCSEConfig,
    paper=Paper(
        "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
        "https://arxiv.org/abs/2104.08821",
        2021,
    ),
    revision=1,
    published=published_settings("simcse"),
)
def train(config: SimCSEConfig, run: Run) -> dict[str, float]:
    """Train on raw sentences; return the metrics of the best checkpoint on dev."""
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    return training.train(config, run, corpus=corpus, objective=lambda _: SimCSE(config))
