"""RankCSE: SimCSE that also learns to rank a batch as its teachers do.

Paper: Liu et al., ACL 2023, https://arxiv.org/abs/2305.16726.
Departs from it: every term is a mean over anchors where the paper writes a sum (`reduction: sum`
is the paper's); teachers read their own tokenisation of the training sentences; with `neighbours`,
a list holds sentences that are alike, which random ones rarely are.
Departs from the public re-implementation, which is not the authors': the consistency is the true
Jensen-Shannon divergence, beta is used, and tau2 and tau3 belong to student and teacher.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from cse_methods.config import Conditions
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.errors import SettingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.ranking_consistency import ranking_consistency
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.settings import setting
from cse_methods.training.base_method import TwoViewsOfBase, WithBase, build_base
from cse_methods.training.loop import register_objective
from cse_methods.training.neighbours import MOST_NEIGHBOURS, nearest_sentences, with_neighbours
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Batch, Student, StudentProtocol
from cse_methods.training.teachers import TeacherSpec, teacher_vectors, weigh_similarities


def _as_list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


Teachers = Annotated[tuple[TeacherSpec, ...], BeforeValidator(_as_list), Field(min_length=1)]


class RankCSEConfig(WithBase):
    conditions: ClassVar[Conditions] = {"tau3": {"rank_loss": ("listnet",)}}

    teachers: Teachers = setting(
        ..., "frozen encoders whose ranking is learned", symbol="T", source="section 4.4"
    )
    teacher_weights: tuple[Annotated[float, Field(ge=0)], ...] | None = setting(
        None, "one weight a teacher, for three or more; default: equal"
    )
    alpha: float | None = setting(
        None,
        "weight of the first of two teachers, 1 - alpha of the second; default 1/3",
        ge=0,
        le=1,
        symbol="α",
        source="section 4.4",
    )
    rank_loss: Literal["listnet", "listmle"] = setting(
        "listnet", "how the teachers' ranking is learned", source="eq. 4, 5"
    )
    tau1: float = setting(
        0.05, "temperature of contrast and consistency", gt=0, symbol="τ1", source="eq. 1, 2"
    )
    tau2: float = setting(
        0.025, "the student's temperature in the ranking term", gt=0, symbol="τ2", source="eq. 4, 5"
    )
    tau3: float = setting(0.0125, "the teachers' temperature", gt=0, symbol="τ3", source="eq. 4")
    beta: float = setting(
        1.0, "weight of the ranking consistency", ge=0, symbol="β", source="eq. 6"
    )
    gamma: float = setting(
        1.0, "weight of the ranking distillation", ge=0, symbol="γ", source="eq. 6"
    )
    contrastive_weight: float = setting(
        1.0, "weight of the contrast or of the base's loss; 0 leaves it out", ge=0, source="table 4"
    )
    exclude_positive: bool = setting(
        True, "leave a sentence out of its own list; default: for ListNet", source="footnote 1"
    )
    reduction: Literal["mean", "sum"] = setting(
        "mean", "of every term over the anchors; the paper writes the sum"
    )
    neighbours: int = setting(
        0,
        "nearest sentences of the corpus, by the first teacher, that each drawn one "
        "brings into its batch; 0 is the paper's random batch",
        ge=0,
        le=MOST_NEIGHBOURS,
    )

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Exclude the positive for ListNet only, and weight two teachers by `alpha`."""
        defaults = super().dependent_defaults(values)
        defaults["exclude_positive"] = values.get("rank_loss", "listnet") == "listnet"
        if len(_as_list(values.get("teachers", ()))) == 2 and not values.get("teacher_weights"):
            defaults["alpha"] = 1 / 3
        return defaults

    @model_validator(mode="after")
    def _refuse_weights_that_do_not_fit(self) -> Self:
        count = len(self.teachers)
        if self.alpha is not None and count != 2:
            raise SettingError(
                "alpha",
                f"alpha={self.alpha:g} weighs two teachers, got {count}; "
                + ("leave it out" if count == 1 else "give teacher_weights instead"),
            )
        if self.alpha is not None and self.teacher_weights is not None:
            raise SettingError("alpha", "give alpha or teacher_weights, not both")
        if self.teacher_weights is not None and len(self.teacher_weights) != count:
            raise SettingError(
                "teacher_weights", f"{len(self.teacher_weights)} weights for {count} teachers"
            )
        return self

    @property
    def weights(self) -> tuple[float, ...]:
        """Return the weight of each teacher, in file order."""
        if self.teacher_weights is not None:
            return self.teacher_weights
        if self.alpha is not None:
            return (self.alpha, 1 - self.alpha)
        return (1 / len(self.teachers),) * len(self.teachers)

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, *(teacher.model for teacher in self.teachers))


class PlainContrast(TwoViewObjective):
    """RankCSE's own contrastive term."""

    def __init__(self, config: RankCSEConfig) -> None:
        super().__init__()
        self.config = config

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        config = self.config
        loss = info_nce(first, second, temperature=config.tau1, reduction=config.reduction)
        return {"contrastive": loss}


class RankCSE(TwoViewsOfBase):
    """The loss of a base, the consistency of both views' rankings, and the teachers' ranking."""

    def __init__(
        self,
        config: RankCSEConfig,
        teachers: Sequence[NDArray[np.float32]],
        nearest: NDArray[np.int32] | None,
        base: TwoViewObjective,
    ) -> None:
        super().__init__(base)
        self.config = config
        self.teachers, self.weights = teachers, config.weights
        self.nearest = nearest

    def batch_rows(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the drawn sentences, each followed by its neighbours, until the batch is full."""
        if self.nearest is None:
            return drawn
        return with_neighbours(drawn, self.nearest[:, : self.config.neighbours])

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *further: Tensor,
        views: TwoViews,
        student: StudentProtocol,
        batch: Batch,
    ) -> dict[str, Tensor]:
        config = self.config
        similarities = cosine_matrix(first, second)
        parts = self.base.losses(first, second, *further, views=views, student=student, batch=batch)
        ranking = weigh_similarities(self.teachers, self.weights, batch.rows)
        ranking = send_tensor(ranking, first.device)
        options: Any = {"exclude_positive": config.exclude_positive, "reduction": config.reduction}
        if config.rank_loss == "listmle":
            rank = list_mle(similarities, ranking, temperature=config.tau2, **options)
        else:
            taus: Any = {"student_temperature": config.tau2, "teacher_temperature": config.tau3}
            rank = list_net(similarities, ranking, **taus, **options)
        consistency = ranking_consistency(
            similarities, temperature=config.tau1, reduction=config.reduction
        )
        return self.add_parts(
            {name: config.contrastive_weight * part for name, part in parts.items()},
            {"consistency": config.beta * consistency, "rank": config.gamma * rank},
        )


@register_objective("rankcse", config=RankCSEConfig, revision=1)
def build(config: RankCSEConfig, corpus: Corpus, student: Student) -> RankCSE:
    longest, nearest = config.max_length, None
    teachers = [teacher_vectors(one, corpus, max_length=longest) for one in config.teachers]
    if config.neighbours:
        nearest = nearest_sentences(config.teachers[0], corpus, max_length=longest)
    base = build_base(config, corpus, student) if config.base else PlainContrast(config)
    return RankCSE(config, teachers, nearest, base)
