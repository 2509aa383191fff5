"""Focal-InfoNCE: SimCSE whose cosines are weighted by themselves, so that easy pairs count less.

Paper: Hou and Li, Findings of EMNLP 2023, https://arxiv.org/abs/2310.06918.
Follows the released code: the temperature divides once, nothing is clamped or detached, and only
the first view looks for positives.
"""

from typing import Any

from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.losses.focal_info_nce import focal_info_nce
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective
from cse_methods.training.student import Student


class FocalInfoNCEConfig(TwoViewConfig):
    temperature: float = released(0.05, "divides the weighted cosines", gt=0, symbol="τ")
    hardness: float = released(
        0.3,
        "added to the cosine that weighs a negative; negatives with a cosine above 1 minus it "
        "count more than in SimCSE",
        ge=0,
        symbol="m",
    )


class FocalInfoNCE(TwoViewObjective):
    """Contrasts two dropout views by their weighted cosines."""

    def __init__(self, config: FocalInfoNCEConfig) -> None:
        super().__init__()
        self.config = config

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        contrastive = focal_info_nce(
            first, second, temperature=self.config.temperature, hardness=self.config.hardness
        )
        return {"contrastive": contrastive}


@register_objective("focalinfonce", config=FocalInfoNCEConfig, revision=1)
def build(config: FocalInfoNCEConfig, _corpus: Corpus, _: Student) -> FocalInfoNCE:
    return FocalInfoNCE(config)
