"""SNCSE: sentences read in two prompts, and their negations as soft negatives.

Paper: Wang et al., 2022, https://arxiv.org/abs/2201.05979.
Departs from the released code: a negation is looked up by the sentence as it stands in the corpus
(there, after " ." was put at its end, so that sentences without a final mark were not found); word
pieces are cut alike in training and at test time; dev sets are scored while it trains.
"""

from typing import Any, Self

from pydantic import model_validator
from torch import Tensor

from cse_methods.data.corpus import Corpus
from cse_methods.data.language.negations import find_tagger, negations_of
from cse_methods.errors import SettingError
from cse_methods.files.text import sha256_of
from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.prompted_config import PromptedConfig
from cse_methods.training.student import Batch, Student, StudentProtocol


class SNCSEConfig(PromptedConfig):
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    prompts: tuple[str, str] = released(
        ('This sentence : " {} " means [MASK] .', 'This sentence of " {} " means [MASK] .'),
        "prompts around a sentence in its two views; the first is used at test time",
    )
    margin_low: float = released(
        0.1, "positives are closer than negations by at least this cosine", ge=0, le=2, symbol="α"
    )
    margin_high: float = released(0.3, "and by at most this cosine", ge=0, le=2, symbol="β")
    margin_weight: float = released(
        1e-3, "weight of the bidirectional margin loss", ge=0, symbol="λ"
    )
    negations: str | None = released(
        None, "file of negations, a sentence, a tab and its negation a line; null negates by rule"
    )

    @model_validator(mode="after")
    def _refuse_crossed_margins(self) -> Self:
        if self.margin_low > self.margin_high:
            raise SettingError(
                "margin_low",
                f"margin_low={self.margin_low:g} is above margin_high={self.margin_high:g}; "
                "no difference of cosines lies between them",
            )
        return self

    def files(self) -> tuple[str, ...]:
        return (self.negations,) if self.negations else ()

    def ingredients(self) -> dict[str, str]:
        """Return the identity of the tagger if negations are computed."""
        return {} if self.negations else {"tagger": find_tagger().identity}


class SNCSE(TwoViewObjective):
    """Contrasts a sentence in two prompts, with its negation in the second as a soft negative."""

    def __init__(
        self,
        config: SNCSEConfig,
        negations: list[str],
        *,
        negatives_from: NegativesFrom = "other_view",
    ) -> None:
        super().__init__()
        self.config = config
        self.negations = Corpus("negations", negations, sha256_of(negations))
        self.negatives_from = negatives_from

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        prompt, other = (student.encoder.prompt(words) for words in self.config.prompts)
        longest = max(prompt, other, key=len)  # truncates both views at the same word
        return TwoViews(student.pieces_of(batch, longest), (prompt, other))

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *_: Tensor,
        student: StudentProtocol,
        batch: Batch,
        **__: Any,
    ) -> dict[str, Tensor]:
        config = self.config
        other = student.encoder.prompt(config.prompts[1])
        negations = student.pieces_at(batch.rows, self.negations, other)
        (negated,) = student.encode(negations, other)
        contrastive = info_nce(
            first, second, temperature=config.temperature, negatives_from=self.negatives_from
        )
        margin = bidirectional_margin(
            first, second, negated, low=config.margin_low, high=config.margin_high
        )
        return {"contrastive": contrastive, "margin": config.margin_weight * margin}


@register_objective("sncse", config=SNCSEConfig, revision=1)
def build(config: SNCSEConfig, corpus: Corpus, _: Student) -> SNCSE:
    return SNCSE(config, negations_of(corpus, file=config.negations))
