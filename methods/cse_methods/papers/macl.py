"""MACL: SimCSE whose temperature follows the alignment, and whose positives all pull equally hard.

Paper: Huang et al., ICML 2023, https://arxiv.org/abs/2207.07874.
Departs from the released code: the weight 1 / (1 - P) is exact where P rounds to 1, which there
gives NaN (float32, temperature 0.05: where positives are 1.05 above negatives), and a temperature
that falls to 0 or below ends the trial.
The loss says little, as it nears 1: `train/cross_entropy` is the unweighted one of the last step at
the temperature of the settings, `train/tau` the temperature that the alignment gave.
Its values for SimCSE are not known: `alpha` and `a0` are those of a vision model's name, the
temperature is SimCSE's; search 0.02 to 0.1, 0 to 2 and 0 to 0.9.
"""

from typing import Any

import torch
from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.reweighted_contrast import alignment_temperature, reweighted_contrast
from cse_methods.losses.similarity import cosine_matrix, without_positive
from cse_methods.settings import setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective
from cse_methods.training.student import Student


class MACLConfig(TwoViewConfig):
    temperature: float = setting(
        0.05, "divides cosines at the alignment a0", gt=0, symbol="τ0", source="ours"
    )
    alpha: float = setting(
        0.5,
        "how fast the temperature rises with the alignment; 0 keeps it",
        ge=0,
        symbol="α",
        source="released code",
    )
    a0: float = setting(
        0.2, "mean cosine of positives", ge=-1, le=1, symbol="A0", source="released code"
    )


class MACL(TwoViewObjective):
    """Contrasts two dropout views by a reweighted loss."""

    def __init__(self, config: MACLConfig) -> None:
        super().__init__()
        self.config = config
        self.temperature = self.cross_entropy = torch.zeros(())

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        config, cosines = self.config, cosine_matrix(first, second)
        positives = cosines.diagonal()
        try:
            self.temperature = alignment_temperature(
                positives, temperature=config.temperature, alpha=config.alpha, a0=config.a0
            )
        except ValueError as problem:
            raise TrainingError(f"macl: {problem}") from problem
        with torch.no_grad():
            self.cross_entropy = info_nce(first, second, temperature=config.temperature)
        contrastive = reweighted_contrast(
            positives, without_positive(cosines), temperature=self.temperature
        )
        return {"contrastive": contrastive}

    def metrics(self) -> dict[str, float]:
        return {"tau": self.temperature.item(), "cross_entropy": self.cross_entropy.item()}


@register_objective("macl", config=MACLConfig, revision=1)
def build(config: MACLConfig, _corpus: Corpus, _: Student) -> MACL:
    return MACL(config)
