"""L2P-CSR: SimCSE under masks on the lower layers that are moved to where they make pairs harder.

Paper: Zhou et al., IEEE/ACM TASLP 31, 2023, https://doi.org/10.1109/TASLP.2023.3304485.
Departs from the released code: the encoder reads attention masks in training, where it attends to
padding there; masks have the encoder's width, where the code has that of base models.
As there, [CLS] and [SEP] are masked like other pieces, and no mask is left at test time.
Where it is silent: its one script has a learning rate of 1e-6 and leaves open what it starts from;
its README names the pre-trained models. The text of the paper was not compared.
"""

from typing import Literal

import torch
from torch import Tensor

from cse_methods.augmentation.learned_masks import fuse_masks, learn_masks, make_masks
from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.edits import Edits
from cse_methods.losses.info_nce import info_nce
from cse_methods.settings import released, setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol

Masked = Literal["both", "tokens", "features"]


class L2PCSRConfig(TrainingConfig):
    temperature: float = setting(
        0.05, "divides cosines", gt=0, symbol="τ", source="released script"
    )
    perturb_steps: int = released(
        4, "steps that move masks to where they make pairs harder; each costs a pass", ge=0, le=10
    )
    step_size: float = released(0.1, "length of such a step", ge=0)
    threshold: float = released(
        0.05, "scores drawn from [0, 1] above it keep what they mask", ge=0, lt=1
    )
    masked_layers: int = released(
        2,
        "layers, from the first on, whose output is masked, beside the embeddings; "
        "2 for BERT and 1 for RoBERTa in the released code",
        ge=0,
    )
    masked: Masked = released(
        "both", "what is masked: word pieces, features of the whole batch, or half by each"
    )


class L2PCSR(Objective):
    """Contrasts two views of each sentence that are encoded through learned masks."""

    def __init__(self, config: L2PCSRConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        config, template = self.config, student.encoder.template
        contents = student.pieces_of(batch, template)

        def loss_of(masks: Tensor) -> Tensor:
            first, *others = (
                lambda vectors, _, mask=mask: vectors * mask for mask in masks.unbind()
            )
            edits = Edits(embeddings=first, layers=others)
            views = student.encode(contents, template, template, edits=edits)
            return info_nce(*views, temperature=config.temperature)

        scores = learn_masks(
            loss_of,
            *self._draw_scores(2 * len(contents), max(map(len, map(template, contents))), student),
            steps=config.perturb_steps,
            step_size=config.step_size,
            threshold=config.threshold,
        )
        masks = fuse_masks(tuple(make_masks(x, threshold=config.threshold) for x in scores))
        return {"contrastive": loss_of(masks)}

    def _draw_scores(self, rows: int, length: int, student: StudentProtocol) -> list[Tensor]:
        """Draw random scores at every masked layer: per word piece, and per feature."""
        layers, encoder = self.config.masked_layers + 1, student.encoder
        width = int(encoder.model.config.hidden_size)
        shapes = {"tokens": (layers, rows, length, 1), "features": (layers, 1, 1, width)}
        return [
            torch.rand(shape, device=encoder.device)
            for kind, shape in shapes.items()
            if self.config.masked in (kind, "both")
        ]


@register_objective("l2pcsr", config=L2PCSRConfig, revision=1)
def build(config: L2PCSRConfig, _corpus: Corpus, _: Student) -> L2PCSR:
    return L2PCSR(config)
