"""MixCSE: SimCSE among further negatives, mixed from a sentence's own positive and another's.

Paper: Zhang et al., AAAI 2022, https://doi.org/10.1609/aaai.v36i10.21428.
Follows the released code: both views are mixed, before they are normalised, and the mixture of the
previous sentence, in which the own positive has the share 1 - `mix_weight` (most of it below 0.5),
gets the logit 0. `mixed_sides` and `suppressed` turn that.
Departs from the released code: dev and test both read the vector without the training head.
"""

from typing import Any

from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.losses.mixed_negatives import MixedSides, Suppressed, mixed_negatives_loss
from cse_methods.papers.simcse import SimCSE
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.student import Student


class MixCSEConfig(TwoViewConfig):
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    mix_weight: float = released(
        0.2, "share of the own positive in its mixed negative", ge=0, le=1, symbol="λ"
    )
    mixed_sides: MixedSides = released(
        "both", "whether anchors are mixed too, or the positives alone"
    )
    suppressed: Suppressed = released(
        "zero",
        "what becomes of the mixture in which the own positive has the share "
        "1 - mix_weight: `zero` sets its logit to 0, `remove` takes it out",
    )
    hard_negative_weight: float = released(
        0.0, "added to the logit of a sentence's own mixed negative"
    )


class MixCSE(SimCSE):
    """SimCSE with further negatives that are mixed from the batch."""

    def __init__(self, config: MixCSEConfig) -> None:
        super().__init__(config)
        self.config = config

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        contrastive = mixed_negatives_loss(
            first,
            second,
            mix_weight=self.config.mix_weight,
            temperature=self.config.temperature,
            mixed_sides=self.config.mixed_sides,
            suppressed=self.config.suppressed,
            hard_negative_weight=self.config.hard_negative_weight,
        )
        return {"contrastive": contrastive}


@register_objective("mixcse", config=MixCSEConfig, revision=1)
def build(config: MixCSEConfig, _corpus: Corpus, _: Student) -> MixCSE:
    return MixCSE(config)
