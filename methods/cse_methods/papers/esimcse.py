"""ESimCSE: SimCSE whose second view repeats words, with a queue of negatives.

Paper: Wu et al., COLING 2022, https://arxiv.org/abs/2109.04380.
Departs from it: repetitions are bounded as in the released code (`repetition_bounds: paper` is the
paper's) and drawn anew each time a sentence is seen, where the code draws them once a corpus.
Departs from the released code: the momentum encoder starts from the pre-trained weights; there its
own are never loaded, which `momentum_start: random` imitates.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor
from transformers import AutoModel

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.template import SPECIAL_PIECES
from cse_methods.encoders.word_pieces import RepetitionBounds, most_repeats, repeat_pieces
from cse_methods.losses.info_nce import NegativesFrom, info_nce
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.momentum import enqueue, moving_average_
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Batch, Student, StudentProtocol


class ESimCSEConfig(TwoViewConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls",)

    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    repetition_rate: float = released(
        0.32, "largest share of pieces doubled in the second view", ge=0, le=1, symbol="dup_rate"
    )
    repetition_bounds: RepetitionBounds = released(
        "released",
        "most pieces doubled: max(2, rate x length) for `paper`, "
        "min(10, rate x length) - 1 for `released`",
    )
    queue_size: int = released(
        160, "earlier sentences that are negatives too; 0 for no queue", ge=0
    )
    momentum: float = released(
        0.995, "of the queue's encoder; 0 copies the trained encoder", ge=0, le=1, symbol="λ"
    )
    momentum_start: Literal["pretrained", "random"] = released(
        "pretrained", "weights that the momentum encoder starts from; random in the released code"
    )


def draw_repetition(content: Sequence[int], *, rate: float, bounds: RepetitionBounds) -> list[int]:
    """Return the content with 0 to `most_repeats` pieces doubled in place, by torch's generator."""
    length = len(content) + SPECIAL_PIECES  # which count, but are never repeated
    most = most_repeats(length, rate=rate, bounds=bounds)
    if most == 0:
        return list(content)
    count = int(torch.randint(most + 1, ()))
    repeated: list[int] = torch.randperm(len(content))[:count].tolist()
    return repeat_pieces(content, repeated)


class ESimCSE(TwoViewObjective):
    """SimCSE between a sentence and its repetition, with negatives from the batch and a queue."""

    def __init__(
        self,
        config: ESimCSEConfig,
        student: Student,
        *,
        negatives_from: NegativesFrom = "other_view",
    ) -> None:
        super().__init__()
        self.config = config
        self.negatives_from = negatives_from
        momentum: Encoder | None = None
        if config.queue_size:
            momentum = copy.deepcopy(student.encoder)
            if config.momentum_start == "random":
                auto: Any = AutoModel
                settings, options = momentum.model.config, momentum.family.options
                momentum.model = auto.from_config(settings, **options)
            momentum = momentum.requires_grad_(False).eval()
        # The encoder that fills the queue; checkpoints store its weights under this name.
        self.add_module("slow", momentum)
        self.queue = torch.empty(0, student.encoder.width)

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        """Return two views: the sentence unchanged, and with some of its pieces doubled."""
        plain = student.encoder.template
        # The row may exceed max_length, as in the released code, but not the model's limit.
        room = student.encoder.limit - len(plain)
        rate, bounds = self.config.repetition_rate, self.config.repetition_bounds
        repeat = partial(draw_repetition, rate=rate, bounds=bounds)
        return TwoViews(
            student.pieces_of(batch, plain), (plain, lambda content: plain(repeat(content)[:room]))
        )

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        queue = send_tensor(self.queue, first.device)[:, : first.shape[1]]
        contrastive = info_nce(
            first,
            second,
            temperature=self.config.temperature,
            queue=queue if len(queue) else None,
            negatives_from=self.negatives_from,
        )
        return {"contrastive": contrastive}

    def update_state(self, student: StudentProtocol, views: TwoViews) -> None:
        """Move the momentum encoder, and add its vectors of the batch to the queue."""
        if (encoder := cast(Encoder | None, self.slow)) is not None:
            moving_average_(encoder, student.encoder, momentum=self.config.momentum)
            with torch.no_grad():
                (entries,) = student.encode(views.contents, views.templates[0], encoder=encoder)
            queue = send_tensor(self.queue, entries.device)
            self.queue = enqueue(queue, entries, size=self.config.queue_size)

    def get_extra_state(self) -> dict[str, Tensor]:
        """Return the queue, which is not a buffer because it grows."""
        return {"queue": self.queue}

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        self.queue = state["queue"]


@register_objective("esimcse", config=ESimCSEConfig, revision=1)
def build(config: ESimCSEConfig, _corpus: Corpus, student: Student) -> ESimCSE:
    return ESimCSE(config, student)
