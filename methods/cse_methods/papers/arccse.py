"""ArcCSE: SimCSE with a margin on the angle of positives, and triplets ordered by masking.

Paper: Zhang et al., ACL 2022, https://aclanthology.org/2022.acl-long.336.
No code of its authors is public. The form of the losses, the margin, the temperature and the
weight of the triplets are those of public re-implementations.
Where the paper's rule is not known, a convention of ours stands for it: a light span of masks lies
within a heavy one, both at random places; sentences that are too short give no triplet; triplets
follow the head; batch size, learning rate and epochs are SimCSE's.
"""

from functools import partial
from typing import Any, Self

from pydantic import model_validator
from torch import Tensor

from cse_methods.augmentation.pieces import list_heavy_starts, mask_span, measure_nested_spans
from cse_methods.augmentation.registry import draw_index
from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.edits import Edits
from cse_methods.errors import SettingError
from cse_methods.losses.arc_con import arc_con, masking_triplet
from cse_methods.settings import setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol

convention = partial(setting, source="convention")
reimplemented = partial(setting, source="re-implementations")
reimplemented_once = partial(setting, source="a re-implementation")


class ArcCSEConfig(TwoViewConfig):
    temperature: float = reimplemented(0.05, "divides cosines", gt=0, symbol="τ")
    margin_degrees: float = reimplemented(
        10.0, "added to the angle of sentence and positive, in degrees", ge=0, le=90, symbol="m"
    )
    triplet_weight: float = reimplemented_once(
        0.1, "weight of the triplet loss; 0 leaves it out", ge=0, symbol="λ"
    )
    triplet_margin: float = reimplemented_once(
        0.0, "a heavily masked sentence is farther by at least this cosine", ge=0
    )
    light_mask_rate: float = convention(
        0.2, "share of a sentence's word pieces that the light span masks", gt=0, lt=1
    )
    heavy_mask_rate: float = convention(
        0.4, "share of a sentence's word pieces that the heavy span masks", gt=0, le=1
    )
    triplet_min_length: int = convention(
        25, "sentences of fewer word pieces, special ones not counted, give no triplet", ge=2
    )
    triplet_dropout: bool = reimplemented_once(
        False, "whether dropout is on while triplets are encoded"
    )

    @model_validator(mode="after")
    def _refuse_crossed_rates(self) -> Self:
        if self.light_mask_rate >= self.heavy_mask_rate:
            raise SettingError(
                "light_mask_rate",
                f"light_mask_rate={self.light_mask_rate:g} is not below "
                f"heavy_mask_rate={self.heavy_mask_rate:g}",
            )
        return self


class ArcCSE(TwoViewObjective):
    """Contrast of two dropout views with an angular margin, and triplets of long sentences."""

    def __init__(self, config: ArcCSEConfig) -> None:
        super().__init__()
        self.config = config

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *_: Tensor,
        views: TwoViews,
        student: StudentProtocol,
        **__: Any,
    ) -> dict[str, Tensor]:
        config = self.config
        contrastive = arc_con(
            first, second, margin_degrees=config.margin_degrees, temperature=config.temperature
        )
        if not config.triplet_weight:
            return {"contrastive": contrastive}
        long = [row for row in views.contents if len(row) >= config.triplet_min_length]
        triplet = self._compare_masked(long, student) if long else contrastive.new_zeros(())
        return {"contrastive": contrastive, "triplet": config.triplet_weight * triplet}

    def _compare_masked(self, contents: list[list[int]], student: StudentProtocol) -> Tensor:
        """Draw masked spans for sentences and compute the triplet loss."""
        config, template = self.config, student.encoder.template
        mask = int(student.encoder.tokenizer.mask_token_id)
        light, heavy = list[list[int]](), list[list[int]]()
        for content in contents:
            pieces = len(content)
            lengths = measure_nested_spans(
                pieces, light_rate=config.light_mask_rate, heavy_rate=config.heavy_mask_rate
            )
            start = draw_index(range(pieces - lengths[0] + 1))
            light.append(mask_span(content, start, lengths[0], mask=mask))
            around = draw_index(list_heavy_starts(start, pieces, lengths))
            heavy.append(mask_span(content, around, lengths[1], mask=mask))
        edits = Edits(dropout=config.triplet_dropout)
        (vectors,) = student.encode([*contents, *light, *heavy], template, edits=edits)
        return masking_triplet(*vectors.chunk(3), margin=config.triplet_margin)


@register_objective("arccse", config=ArcCSEConfig, revision=1)
def build(config: ArcCSEConfig, _corpus: Corpus, _: Student) -> ArcCSE:
    return ArcCSE(config)
