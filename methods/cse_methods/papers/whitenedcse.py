"""WhitenedCSE: views are whitened in shuffled groups of coordinates; several positives a sentence.

Paper: Zhuo et al., ACL 2023, https://arxiv.org/abs/2305.17746.
Departs from it: the paper's "group size" is the number of groups; vectors are centred before they
are whitened, and not scaled to length one, as in the released code, where the text has "normalized"
ones; each view has an encoding of its own by default, as in the released code (`sgw_copies` whitens
one encoding several times); its eq. 8 as printed pushes positives apart, so what its text describes
is the default of the two l2 forms.
Departs from the released code, which cannot run as it is: each view has a permutation and
statistics of its own, where the code mixes the views of all sentences.
Departs from both: a ridge is added to running statistics.
At test time the embedding is the pooler's, without whitening and head, as the scripts have it;
`test_head` is the paper's text, with running statistics (eq. 13).
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, Unpack

import torch
from pydantic import model_validator
from torch import Tensor, nn

from cse_methods.config import Conditions
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import Dense
from cse_methods.encoders.whitening import (
    Rotation,
    Whitening,
    affine_whitening,
    moving_statistics,
    whiten,
)
from cse_methods.errors import SettingError, TrainingError
from cse_methods.losses.multi_positive import MultiPositive, multi_positive
from cse_methods.settings import setting
from cse_methods.training.base_method import ObjectiveOnBase, WithBase, build_base
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import Objective, TwoViewObjective, TwoViews
from cse_methods.training.student import (
    Batch,
    EncodingOptions,
    RowTemplate,
    Student,
    StudentOf,
    StudentProtocol,
)

GROUPED: tuple[Whitening, ...] = ("group", "shuffled-group")
WHOLE: tuple[Whitening, ...] = ("pca", "zca")
RIDGE = 1e-5
"""Added to every running variance. After a LayerNorm one axis has no variance; its plain inverse
would amplify the lag of the running mean beyond all differences between sentences."""


_ITS_OWN_LOSS: dict[str, tuple[Any, ...]] = {"base": (None,)}


class WhitenedCSEConfig(WithBase):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls", "avg", "avg_top2", "avg_first_last")
    conditions: ClassVar[Conditions] = {
        "groups": {"whitening": GROUPED},
        "detach_whitening": {"whitening": GROUPED},
        **dict.fromkeys(("temperature", "positives", "multi_positive", "test_head"), _ITS_OWN_LOSS),
        "sgw_copies": {"whitening": ("shuffled-group",), **_ITS_OWN_LOSS},
        "positive_weight": {"multi_positive": ("l1",), **_ITS_OWN_LOSS},
    }

    temperature: float = setting(0.05, "divides cosines", gt=0, symbol="τ", source="eq. 1")
    whitening: Whitening = setting(
        "shuffled-group",
        "of the pooler's vectors, before the head; pca and zca whiten all coordinates "
        "by running statistics",
        source="table 3",
    )
    groups: int | None = setting(
        None, "groups, a divisor of the width; null makes pairs", ge=1, symbol="k", source="table 4"
    )
    positives: int = setting(
        3, "views of a sentence, encodings x sgw_copies", ge=2, le=16, symbol="m", source="table 5"
    )
    sgw_copies: int = setting(
        1, "times that each encoding is whitened, in groups drawn anew", ge=1, source="section 3.2"
    )
    multi_positive: MultiPositive = setting(
        "l1", "how the losses of a sentence's positives are combined", source="eq. 7, 8"
    )
    positive_weight: float = setting(
        1.0, "weight of each positive", gt=0, symbol="λ", source="eq. 7, 8"
    )
    detach_whitening: bool = setting(
        True, "take the whitening matrix as constant in the backward pass", source="released code"
    )
    test_head: bool = setting(
        False, "embed with whitening (running statistics) and head at test", source="section 3.1"
    )
    statistics_momentum: float = setting(
        0.9, "of the running statistics", ge=0, lt=1, symbol="β", source="eq. 13"
    )

    @model_validator(mode="after")
    def _refuse_copies_that_do_not_fit(self) -> Self:
        if self.positives % self.sgw_copies:
            raise SettingError(
                "sgw_copies",
                f"positives={self.positives} views are not a multiple of "
                f"sgw_copies={self.sgw_copies}",
            )
        return self

    def check_width(self, width: int) -> None:
        """Raise TrainingError unless groups divide the width and a batch is larger than a group."""
        super().check_width(width)
        _count_groups(self, width)


class WhitenedCSE(TwoViewObjective):
    """Contrasts several whitened views of each sentence."""

    mean: Tensor
    covariance: Tensor

    def __init__(self, config: WhitenedCSEConfig, student: Student) -> None:
        super().__init__()
        width = student.encoder.width
        self.config = config
        self.groups = _count_groups(config, width)
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("covariance", torch.eye(width, dtype=torch.float64))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Return all whitened views of each sentence; each encoding has another dropout mask."""
        encodings = self.config.positives // self.config.sgw_copies
        templates = views.templates[:1] * encodings
        encoded = student.encode(views.contents, *templates, head=False)
        if self.config.test_head or self.config.whitening in WHOLE:
            self._gather_statistics(encoded)
        return tuple(map(student.head, self._whiten_views(encoded)))

    def losses(
        self, first: Tensor, second: Tensor, *further: Tensor, **_: Any
    ) -> dict[str, Tensor]:
        contrastive = multi_positive(
            first,
            [second, *further],
            temperature=self.config.temperature,
            form=self.config.multi_positive,
            weight=self.config.positive_weight,
        )
        return {"contrastive": contrastive}

    def evaluation_encoder(self, student: Student) -> Encoder:
        """Return the encoder; with `test_head`, whiten by running statistics and add the head."""
        if not self.config.test_head:
            return student.encoder
        whitening = [] if self.config.whitening == "none" else [Dense.affine(*self._make_affine())]
        head = [student.head] if isinstance(student.head, Dense) else []
        return student.encoder.with_post_pooling(*whitening, *head)

    def whiten_rows(self, rows: Tensor) -> Tensor:
        """Whiten the vectors of one pass, shape (N, D), as those of one view."""
        self._gather_statistics((rows,))
        (white,) = self._whiten_views((rows,))
        return white

    def _gather_statistics(self, views: tuple[Tensor, ...]) -> None:
        mean, covariance = moving_statistics(
            self.mean, self.covariance, torch.cat(views), momentum=self.config.statistics_momentum
        )
        self.mean.copy_(mean)
        self.covariance.copy_(covariance)

    def _whiten_views(self, encoded: tuple[Tensor, ...]) -> list[Tensor]:
        """Return the whitened views: one or, in groups, `sgw_copies` of each encoding."""
        if self.config.whitening == "none":
            return list(encoded)
        if self.config.whitening in WHOLE:
            weight, bias = self._make_affine()
            return [(rows.double() @ weight + bias).to(rows.dtype) for rows in encoded]
        views, detach = [], self.config.detach_whitening
        for rows in encoded:
            for _ in range(self.config.sgw_copies):
                shuffled = self.config.whitening == "shuffled-group"
                order = torch.randperm(rows.shape[1]) if shuffled else None
                try:
                    white = whiten(rows, groups=self.groups, permutation=order, detach=detach)
                except ValueError as problem:  # for example, all sentences of a batch are equal
                    raise TrainingError(f"a batch cannot be whitened: {problem}") from problem
                views.append(white)
        return views

    def _make_affine(self) -> tuple[Tensor, Tensor]:
        kind: Rotation = "pca" if self.config.whitening == "pca" else "zca"
        ridge = RIDGE * torch.eye(len(self.mean), dtype=torch.float64, device=self.mean.device)
        covariance = self.covariance + ridge
        try:
            return affine_whitening(self.mean, covariance, groups=self.groups, kind=kind)
        except ValueError as problem:  # for example, embeddings are not finite
            raise TrainingError(f"running statistics cannot be whitened: {problem}") from problem


class WhitenedHead(nn.Module):
    """A head whose input is whitened."""

    def __init__(self, whiten: Callable[[Tensor], Tensor], head: nn.Module) -> None:
        super().__init__()
        self.whiten = whiten
        self.head = head

    def forward(self, rows: Tensor) -> Tensor:
        embeddings: Tensor = self.head(self.whiten(rows))
        return embeddings


class WhitenedStudent(StudentOf):
    """A student that whitens vectors between pooler and head, each view separately."""

    def __init__(self, student: StudentProtocol, whiten: Callable[[Tensor], Tensor]) -> None:
        super().__init__(student)
        self._head = WhitenedHead(whiten, student.head)

    @property
    def head(self) -> nn.Module:
        return self._head

    def encode(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> tuple[Tensor, ...]:
        without_head = EncodingOptions(**{**how, "head": False})
        encoded = self.student.encode(contents, *templates, **without_head)
        return tuple(map(self.head, encoded)) if how.get("head", True) else encoded


class WhitenedBase(ObjectiveOnBase):
    """The loss of a base on whitened vectors: of its views, and of all else it passes to a head."""

    def __init__(self, base: TwoViewObjective, whitening: WhitenedCSE) -> None:
        super().__init__(base)
        self.whitening = whitening

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = self.base(
            WhitenedStudent(student, self.whitening.whiten_rows), batch
        )
        return parts


def _count_groups(config: WhitenedCSEConfig, width: int) -> int:
    """Return the number of groups for embeddings of a width.

    TrainingError if it does not divide the width, or the batch is too small for a group.
    """
    if config.whitening not in GROUPED:
        return 1
    groups = config.groups or max(1, width // 2)
    if width % groups:
        raise TrainingError(
            f"groups: {groups} does not divide the {width} coordinates of {config.backbone}; "
            f"take a divisor of {width}, or null for pairs"
        )
    if config.batch_size <= width // groups:
        raise TrainingError(
            f"batch_size {config.batch_size} is too small to whiten groups of {width // groups} "
            f"coordinates; take {width // groups + 1} or more, or more groups"
        )
    return groups


@register_objective("whitenedcse", config=WhitenedCSEConfig, revision=1)
def build(config: WhitenedCSEConfig, corpus: Corpus, student: Student) -> Objective:
    own = WhitenedCSE(config, student)
    return WhitenedBase(build_base(config, corpus, student), own) if config.base else own
