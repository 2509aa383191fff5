"""ConSERT: two views of a sentence, each with its embeddings or positions augmented.

Paper: Yan et al., ACL 2021, https://arxiv.org/abs/2105.11741.
Follows the released code: [CLS] and [SEP] take part in all augmentations, dropout is off.
Departs from it: dev sets are read with the pooler of the test, where the code reads them with that
of training; RoBERTa's shuffled positions are those of its own table, which the code misses by two.
Departs from it: the paper's models are trained on the texts of the test sets, which here is a
marked option (`transductive: true` of a corpus); on another corpus expect other numbers.
Left out: the adversarial view, which needs pairs with labels, and `span`, whose padding the
released code attends to.
"""

from typing import Any, ClassVar, Literal

from torch import Tensor

from cse_methods.config import Conditions, TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.poolers import Pooler
from cse_methods.losses.nt_xent import nt_xent
from cse_methods.settings import released, setting
from cse_methods.training.augmented_view import encode_view
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol

Augmentation = Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "element_cutoff"]
_CUTOFFS = ("token_cutoff", "feature_cutoff", "element_cutoff")
_REGISTERED = {"none": (), "shuffle": ("permuted_positions",)}
"""The registered augmentations of those with a name of their own here."""


class ConSERTConfig(TwoViewConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()
    conditions: ClassVar[Conditions] = {
        "cutoff_rate_1": {"augmentation_1": _CUTOFFS},
        "cutoff_rate_2": {"augmentation_2": _CUTOFFS},
    }

    pooler: Pooler = released("avg", "how the vectors of tokens become one vector")
    test_pooler: Pooler | None = released(
        "avg_top2", "the pooler at dev and test; null: that of training"
    )
    dropout: float | None = released(
        0.0, "of hidden vectors and attention; null keeps the backbone's", ge=0, lt=1
    )
    temperature: float = released(0.1, "divides cosines", gt=0, symbol="τ")
    augmentation_1: Augmentation = released("feature_cutoff", "of the first view")
    cutoff_rate_1: float = released(0.2, "share that the first view loses", ge=0, lt=1)
    augmentation_2: Augmentation = released("shuffle", "of the second view")
    cutoff_rate_2: float = setting(
        0.2, "share that the second view loses", ge=0, lt=1, source="ours"
    )
    contrast_weight: float = setting(
        1.0, "of the loss; 0.15 in the released code, acting by clipping alone", gt=0, source="ours"
    )


class ConSERT(TwoViewObjective):
    """Contrasts two augmented views of each sentence, in both directions."""

    def __init__(self, config: ConSERTConfig) -> None:
        super().__init__()
        self.config = config

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        config = self.config
        return tuple(
            encode_view(
                student,
                views.contents,
                [(name, rate) for name in _REGISTERED.get(kind, (kind,))],
                max_length=config.max_length,
            )
            for kind, rate in (
                (config.augmentation_1, config.cutoff_rate_1),
                (config.augmentation_2, config.cutoff_rate_2),
            )
        )

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        weight = self.config.contrast_weight
        forth, back = nt_xent(first, second, temperature=self.config.temperature)
        return {"forth": weight * forth, "back": weight * back}


@register_objective("consert", config=ConSERTConfig, revision=1)
def build(config: ConSERTConfig, _corpus: Corpus, _: Student) -> ConSERT:
    return ConSERT(config)
