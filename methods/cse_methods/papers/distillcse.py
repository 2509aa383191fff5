"""DistillCSE: SimCSE that also learns its teachers' similarities, some of them shuffled.

Paper: Xu et al., Findings of EMNLP 2023, https://arxiv.org/abs/2310.13499.
As in its released code: the distillation is a cross-entropy, whose gradient is that of the paper's
divergence; groups are of the teachers' similarities without a temperature; teachers of two widths
are weighed by `alpha`, those of one width equally.
Departs from it: teachers read their own tokenisation of the training sentences; sentences that the
teachers find equally alike keep the order of the batch; the last of an odd number of teachers is
not mixed in once more; the last, incomplete batch of an epoch is dropped. In a batch of two there
is nothing to distil. The text of the paper was not compared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.errors import TrainingError
from cse_methods.losses.group_shuffling import group_ends, shuffle_by_rank, shuffle_ranks
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_net import list_net
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.papers.rankcse import Teachers
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective
from cse_methods.training.student import Batch, Student
from cse_methods.training.teachers import teacher_vectors, weigh_similarities


class DistillCSEConfig(TwoViewConfig):
    teachers: Teachers = released(..., "frozen encoders whose similarities are distilled")
    alpha: float = released(
        0.33, "weight of the narrower teachers where teachers have two widths", ge=0, le=1
    )
    temperature: float = released(0.05, "of the contrast; divides cosines", gt=0, symbol="τ")
    student_temperature: float = released(0.025, "of the student's similarities", gt=0)
    teacher_temperature: float = released(0.0125, "of the teachers' similarities", gt=0)
    distill_weight: float = released(1.0, "weight of the distillation", ge=0)
    group_share: float | None = released(
        0.1,
        "probability of a group of similarities in which the student's are shuffled; null shuffles "
        "none",
        ge=0.001,
        le=1,
        symbol="p",
    )

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, *(teacher.model for teacher in self.teachers))


def weigh_teachers(widths: Sequence[int], *, alpha: float) -> tuple[float, ...]:
    """Compute the weight of each teacher, given the widths of their vectors.

    Those of one width weigh the same. Of two widths, the narrower teachers weigh `alpha` together,
    and the wider ones the rest.

    TrainingError if there are more than two widths.

    Source:
        Xu et al. 2023 (DistillCSE), as its released code computes it.
    """
    known = sorted(set(widths))
    if len(known) > 2:
        raise TrainingError(
            f"teachers: their vectors have the widths {', '.join(map(str, known))}, and alpha "
            "weighs two; take teachers of two widths at most"
        )
    shares = (1.0,) if len(known) == 1 else (alpha, 1 - alpha)
    each = {w: share / widths.count(w) for w, share in zip(known, shares, strict=True)}
    return tuple(each[width] for width in widths)


class DistillCSE(TwoViewObjective):
    """Contrasts two views of each sentence, and distils the teachers' similarities into the first.

    The shuffling has a random stream of its own, by step and sentences, so that a resumed trial
    continues with the same one.
    """

    def __init__(self, config: DistillCSEConfig, teachers: Sequence[NDArray[np.float32]]) -> None:
        super().__init__()
        self.config, self.teachers = config, teachers
        widths = [int(vectors.shape[1]) for vectors in teachers]
        self.weights = weigh_teachers(widths, alpha=config.alpha)

    def losses(
        self, first: Tensor, second: Tensor, *_: Tensor, batch: Batch, **__: Any
    ) -> dict[str, Tensor]:
        config = self.config
        similarities = cosine_matrix(first, first)
        teacher = weigh_similarities(self.teachers, self.weights, batch.rows)
        ranking = send_tensor(teacher, first.device)
        if config.group_share is not None:
            stream = np.random.default_rng([batch.step, *batch.rows])
            draws = torch.from_numpy(stream.random((len(teacher), len(teacher) - 1)))
            shuffled = shuffle_ranks(group_ends(teacher, share=config.group_share), draws)
            shuffled = send_tensor(shuffled, first.device)
            similarities = shuffle_by_rank(similarities, ranking, shuffled)
        distilled = list_net(
            similarities,
            ranking,
            student_temperature=config.student_temperature,
            teacher_temperature=config.teacher_temperature,
        )
        contrastive = info_nce(first, second, temperature=config.temperature)
        return {"contrastive": contrastive, "distilled": config.distill_weight * distilled}


@register_objective("distillcse", config=DistillCSEConfig, revision=1)
def build(config: DistillCSEConfig, corpus: Corpus, _: Student) -> DistillCSE:
    longest = config.max_length
    return DistillCSE(
        config, [teacher_vectors(one, corpus, max_length=longest) for one in config.teachers]
    )
