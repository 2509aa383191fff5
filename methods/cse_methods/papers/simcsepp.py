"""SimCSE++: SimCSE whose negatives are free of dropout, and whose coordinates are contrasted too.

Paper: Xu et al., EMNLP 2023, https://arxiv.org/abs/2305.13192.
Follows an earlier state of the released code, as the last one trains neither part.
Departs from it: a sentence's own pair without dropout, which there leaks in at temperatures below
0.0097, is left out.
On a base the term of coordinates joins its loss. `negatives: off_dropout` also replaces its part
`contrastive`, by this contrast of its views, which are encoded once more without dropout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, Unpack

from pydantic import model_validator
from torch import Tensor

from cse_methods.config import Above, Conditions
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.edits import UNEDITED
from cse_methods.errors import SettingError
from cse_methods.losses.dimension_contrast import dimension_contrast
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.off_dropout import off_dropout_contrast
from cse_methods.papers.simcse import SimCSE
from cse_methods.settings import released
from cse_methods.training.base_method import TwoViewsOfBase, WithBase, build_base
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import (
    EncodingOptions,
    RowTemplate,
    Student,
    StudentOf,
    StudentProtocol,
)


class SimCSEppConfig(WithBase):
    conditions: ClassVar[Conditions] = {
        "temperature": {"negatives": ("off_dropout", "other_view")},
        "positive_factor": {"negatives": ("off_dropout",)},
        "dimension_temperature": {"dimension_weight": Above(0)},
    }

    negatives: Literal["off_dropout", "other_view", "base"] = released(
        "off_dropout",
        "the sentences in a pass without dropout, in the second view as in SimCSE, or as the base "
        "has them; with a base, default: base",
    )
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    positive_factor: float = released(
        0.9, "multiplies the logit of the positive; 1 leaves it", gt=0, symbol="m"
    )
    dimension_weight: float = released(
        0.1, "weight of the contrast of coordinates; 0 leaves it out", ge=0
    )
    dimension_temperature: float = released(5.0, "divides correlations of coordinates", gt=0)

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Leave a base's own contrast as it is."""
        negatives = "off_dropout" if values.get("base") is None else "base"
        return {**super().dependent_defaults(values), "negatives": negatives}

    @model_validator(mode="after")
    def _refuse_negatives_of_no_base(self) -> Self:
        if self.negatives == "base" and self.base is None:
            raise SettingError("negatives", "negatives: base needs a method as base")
        return self


class SimCSEpp(TwoViewsOfBase):
    """The loss of a base with a contrast of coordinates, and with another contrast of sentences."""

    def __init__(self, config: SimCSEppConfig, base: TwoViewObjective) -> None:
        super().__init__(base)
        self.config = config

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        encoded = self.base.encode(student, views)
        if self.config.negatives != "off_dropout":
            return encoded
        return (*encoded, self.base.encode(StudentWithoutDropout(student), views)[0])

    def losses(
        self, first: Tensor, second: Tensor, *further: Tensor, **how: Any
    ) -> dict[str, Tensor]:
        config = self.config
        off_dropout = config.negatives == "off_dropout"
        of_base = further[:-1] if off_dropout else further
        parts = dict(self.base.losses(first, second, *of_base, **how))
        if off_dropout:
            parts["contrastive"] = off_dropout_contrast(
                first,
                second,
                further[-1],
                temperature=config.temperature,
                positive_factor=config.positive_factor,
            )
        elif config.negatives == "other_view":
            parts["contrastive"] = info_nce(first, second, temperature=config.temperature)
        if config.dimension_weight:
            dimension = dimension_contrast(first, second, temperature=config.dimension_temperature)
            parts["dimension"] = config.dimension_weight * dimension
        return parts


class StudentWithoutDropout(StudentOf):
    """A student whose passes are without dropout, so that a template need be encoded only once."""

    def encode(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> tuple[Tensor, ...]:
        how["edits"] = replace(how.get("edits", UNEDITED), dropout=False)
        distinct = tuple(dict.fromkeys(templates))
        encoded = self.student.encode(contents, *distinct, **how)
        return tuple(encoded[distinct.index(template)] for template in templates)


@register_objective("simcsepp", config=SimCSEppConfig, revision=1)
def build(config: SimCSEppConfig, corpus: Corpus, student: Student) -> SimCSEpp:
    return SimCSEpp(config, build_base(config, corpus, student) if config.base else SimCSE(config))
