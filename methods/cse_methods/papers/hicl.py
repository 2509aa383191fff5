"""HiCL: a base method on sentences read by segments, and contrast between the segments themselves.

Paper: Wu, Xiao, Vydiswaran, EMNLP 2023 Findings, https://arxiv.org/abs/2310.09720; it has no
released code. With `beta` above 0 it is the paper's variant, HiCL v2.
Departs from it: negatives come from the other view, as in the base methods, where eq. 1 and 2 print
the same view (`negatives_from: same_view`).
Where it is silent: the local loss is the mean over all segments of a batch; the head follows every
segment, before they are pooled; segments have special pieces of their own; the base's whole loss,
margins included, is the global one; sentences are read whole at test time.
"""

from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import model_validator
from torch import Tensor

from cse_methods.config import Conditions
from cse_methods.data.corpus import Corpus
from cse_methods.data.language.negations import negations_of
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.template import SPECIAL_PIECES
from cse_methods.errors import SettingError
from cse_methods.losses.info_nce import NegativesFrom
from cse_methods.losses.segments import Negatives, SameSequence, entailment, local_contrast
from cse_methods.papers.esimcse import ESimCSE, ESimCSEConfig
from cse_methods.papers.simcse import SimCSE, SimCSEConfig
from cse_methods.papers.sncse import SNCSE, SNCSEConfig
from cse_methods.settings import setting
from cse_methods.training.base_method import ObjectiveOnBase, WithBase, build_base
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective
from cse_methods.training.sliced import SlicedStudent
from cse_methods.training.student import Batch, Student, StudentProtocol

HiCLBase = Literal["simcse", "esimcse", "sncse"]


class HiCLConfig(ESimCSEConfig, SNCSEConfig, WithBase):
    own_bases: ClassVar[tuple[str, ...]] = get_args(HiCLBase)
    encodes_views: ClassVar[bool] = True
    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls", "mask")
    conditions: ClassVar[Conditions] = {
        name: {"base": (base,)}
        for base, config in (("esimcse", ESimCSEConfig), ("sncse", SNCSEConfig))
        for name in config.model_fields
        if name not in SimCSEConfig.model_fields
    }

    pooler: Pooler = setting(
        "cls", "how the vectors of tokens become one vector; with base sncse, mask"
    )
    max_length: int = setting(
        512, "most word pieces of a sentence, special ones too", ge=4, le=512, source="appendix A.1"
    )
    temperature: float = setting(0.05, "divides cosines", gt=0, symbol="τ", source="eq. 1, 2")
    base: HiCLBase | str = setting(
        "simcse",
        "the method that gives views and the global loss; the settings of these three "
        "stand here, those of another one are `base_NAME`",
        source="table 1",
    )
    slicing_length: int = setting(
        32, "pieces of a segment, without prompt", ge=4, le=512, symbol="L", source="section 3.1"
    )
    count_special: bool = setting(
        False, "[CLS] and [SEP] count in a segment's length", source="table 2"
    )
    pooling: Literal["weighted", "unweighted"] = setting(
        "weighted", "whether segments are weighted by their lengths", source="section 3.1, table 3"
    )
    alpha: float = setting(
        0.15, "weight of the local loss", ge=0, le=1, symbol="α", source="section 3.2"
    )
    beta: float = setting(
        0.0,
        "weight of the entailment loss; above 0 it is HiCL v2",
        ge=0,
        le=1,
        symbol="β",
        source="section 5.7, appendix A.6",
    )
    same_sequence_segments: SameSequence = setting(
        "neither", "the role of the other segments of the same sentence", source="table 4"
    )
    negatives: Negatives = setting(
        "summation", "whether a sentence counts per segment, or once", source="appendix A.8"
    )
    negatives_from: NegativesFrom = setting(
        "other_view", "the view that negatives are taken from", source="eq. 1, 2"
    )

    @classmethod
    def dependent_defaults(cls, values: Any) -> dict[str, Any]:
        """Return the base's and the pooler's defaults; with prompts, the pooler is `mask`."""
        plain = cls.model_fields["pooler"].default
        pooler = values.get("pooler") or ("mask" if values.get("base") == "sncse" else plain)
        return {**super().dependent_defaults({**values, "pooler": pooler}), "pooler": pooler}

    @model_validator(mode="after")
    def _refuse_more_than_the_whole(self) -> Self:
        if self.alpha + self.beta > 1:
            raise SettingError(
                "beta",
                f"alpha={self.alpha:g} and beta={self.beta:g} add up to more than 1, and the "
                "global loss weighs what they leave",
            )
        return self

    def test_prompt(self) -> str | None:
        return super().test_prompt() if self.base == "sncse" else self.prompt

    def ingredients(self) -> dict[str, str]:
        return super().ingredients() if self.base == "sncse" else {}


class HiCL(ObjectiveOnBase):
    """The loss of a base on pooled segments, and losses on the segments themselves."""

    def __init__(self, config: HiCLConfig, base: TwoViewObjective) -> None:
        super().__init__(base)
        self.config = config

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        config = self.config
        sliced = SlicedStudent(
            student,
            length=config.slicing_length,
            special=SPECIAL_PIECES if config.count_special else 0,
            weighted=config.pooling == "weighted",
        )
        views = self.base.views(sliced, batch)
        segments = sliced.encode_segments(views.contents, *views.templates)
        whole = self.base.losses(*segments.sentences, views=views, student=sliced, batch=batch)
        self.base.update_state(sliced, views)
        first, second = segments.views
        local = local_contrast(
            first,
            second,
            segments.sequence,
            temperature=config.temperature,
            same_sequence=config.same_sequence_segments,
            negatives=config.negatives,
            negatives_from=config.negatives_from,
        )
        weight = 1 - config.alpha - config.beta
        of_base = {name: weight * part for name, part in whole.items()}
        parts = {"global": of_base.pop("contrastive")} if "contrastive" in of_base else {}
        parts["local"] = config.alpha * local
        if config.beta:
            entailed = entailment(
                first, segments.sentences[0], segments.sequence, temperature=config.temperature
            )
            parts["entailment"] = config.beta * entailed
        return self.add_parts(of_base, parts)


@register_objective("hicl", config=HiCLConfig, revision=1)
def build(config: HiCLConfig, corpus: Corpus, student: Student) -> HiCL:
    base: TwoViewObjective
    if config.base == "sncse":
        negations = negations_of(corpus, file=config.negations)
        base = SNCSE(config, negations, negatives_from=config.negatives_from)
    elif config.base == "esimcse":
        base = ESimCSE(config, student, negatives_from=config.negatives_from)
    elif config.base == "simcse":
        base = SimCSE(config, negatives_from=config.negatives_from)
    else:
        base = build_base(config, corpus, student)
    return HiCL(config, base)
