"""SimCSE: a sentence's positive is itself under another dropout mask, or one that is written down.

Paper: Gao, Yao, Chen, EMNLP 2021, https://arxiv.org/abs/2104.08821.
Departs from it: the last, incomplete batch of an epoch is dropped.

Unsupervised by default. With `supervision` a corpus has columns: the sentence, its positive and,
for triples, its hard negative; the head then stays at test time, as in the paper's section 6.1.
"""

from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from cse_methods.augmentation.registry import AUGMENTATIONS, AugmentationName, rate_setting
from cse_methods.config import Conditions, Holding, TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.settings import setting
from cse_methods.training.augmented_view import encode_view
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol
from cse_methods.training.supervised import SupervisedObjective

Supervision = Literal["pairs", "triples"]


class SimCSEConfig(TwoViewConfig):
    conditions: ClassVar[Conditions] = {
        "hard_negative_weight": {"supervision": ("triples",)},
        "views": {"supervision": (None,)},
        **{
            augmentation.rate.setting: {"views": Holding(name)}
            for name, augmentation in AUGMENTATIONS.items()
            if augmentation.rate
        },
    }

    temperature: float = setting(0.05, "divides cosines", gt=0, symbol="τ", source="eq. 1")
    supervision: Supervision | None = setting(
        None,
        "what the corpus's columns are: a sentence and its positive, or these and a "
        "hard negative; null trains on single sentences",
        source="section 4",
    )
    hard_negative_weight: float = setting(
        0.0, "added to the own hard negative's logit", symbol="log α", source="eq. 5, appendix D"
    )
    views: tuple[tuple[AugmentationName, ...], tuple[AugmentationName, ...]] = setting(
        ((), ()),
        "augmentations of the first and of the second view, beside dropout: of word "
        "pieces, then of positions, then of the embedding layer's output",
        source="ours",
        exclude_if=lambda views: not any(views),
    )
    delete_rate: float = rate_setting("delete")
    repeat_rate: float = rate_setting("repeat")
    span_rate: float = rate_setting("span")
    token_cutoff_rate: float = rate_setting("token_cutoff")
    feature_cutoff_rate: float = rate_setting("feature_cutoff")
    element_cutoff_rate: float = rate_setting("element_cutoff")
    gaussian_noise_std: float = rate_setting("gaussian_noise")

    def columns_taken(self) -> int:
        return {None: 1, "pairs": 2, "triples": 3}[self.supervision]


class WithTemperature(Protocol):
    """Settings of a method that includes SimCSE's loss."""

    @property
    def temperature(self) -> float: ...


class SimCSE(TwoViewObjective):
    """Contrasts each sentence with itself under another dropout mask."""

    def __init__(
        self, config: WithTemperature, *, negatives_from: NegativesFrom = "other_view"
    ) -> None:
        super().__init__()
        self.temperature = config.temperature
        self.negatives_from = negatives_from

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        contrastive = info_nce(
            first, second, temperature=self.temperature, negatives_from=self.negatives_from
        )
        return {"contrastive": contrastive}


class AugmentedSimCSE(SimCSE):
    """SimCSE with an augmentation of its own for each of the two views."""

    def __init__(self, config: SimCSEConfig) -> None:
        super().__init__(config)
        self.config = config

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        config = self.config
        rates = {
            name: getattr(config, augmentation.rate.setting) if augmentation.rate else 1.0
            for name, augmentation in AUGMENTATIONS.items()
        }
        return tuple(
            encode_view(
                student,
                views.contents,
                [(name, rates[name]) for name in view],
                max_length=config.max_length,
            )
            for view in config.views
        )


class SupervisedSimCSE(SupervisedObjective):
    """Contrasts each sentence with labelled positives and, for triples, hard negatives."""

    def __init__(self, config: SimCSEConfig, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.config = config

    def losses(
        self, first: Tensor, second: Tensor, *negatives: Tensor, **_: Any
    ) -> dict[str, Tensor]:
        contrastive = info_nce(
            first,
            second,
            temperature=self.config.temperature,
            negatives=negatives[0] if negatives else None,
            hard_negative_weight=self.config.hard_negative_weight,
        )
        return {"contrastive": contrastive}


@register_objective("simcse", config=SimCSEConfig, revision=1)
def build(config: SimCSEConfig, corpus: Corpus, _: Student) -> SimCSE | SupervisedSimCSE:
    if config.supervision:
        return SupervisedSimCSE(config, corpus)
    return AugmentedSimCSE(config) if any(config.views) else SimCSE(config)
