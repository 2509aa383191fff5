"""The losses of sentence-transformers that are offered: their rows, and their settings.

The settings are those that the library's signatures have; here stand what these do not say: which
rows a loss reads, and the bounds of its numbers.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic.fields import FieldInfo

from cse_methods.data.corpus import Corpus
from cse_methods.errors import DataError
from cse_methods.sentence_transformers_trainer.library import loss_parameters
from cse_methods.settings import setting

Label = Literal["score", "class", "vector", "scores"]
"""What a row has beside texts: a number, a class from 0 on, its teacher's vector, or a list of
numbers."""


@dataclass(frozen=True)
class LossRows:
    """The class of a loss, and the rows that it reads."""

    library_class: str
    fewest: int
    """Texts a row."""
    most: int | None
    """Texts a row; None has no limit."""
    label: Label | None = None
    by_label: bool = False
    """Whether a batch needs several texts of each of some classes."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class that make it this loss."""

    @property
    def takes_views(self) -> bool:
        """Whether a text that stands alone can be its own partner, apart by dropout."""
        return self.label is None and self.fewest == 2 and self.library_class not in _NO_VIEWS

    def describe(self) -> str:
        """Describe the rows, as the end of a sentence."""
        texts = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} or more"
        if self.most is not None and self.most > self.fewest:
            texts = f"{self.fewest} or {self.most}"
        labels = {
            None: "no label",
            "score": "a label that is a number",
            "class": "a label that is a class from 0 on",
            "vector": "the vectors of a `teacher`, no label",
            "scores": "a label that is a list of numbers",
        }
        return f"{texts} text{'s' * (texts != '1')} a row and {labels[self.label]}"


_NO_VIEWS = {"GlobalOrthogonalRegularizationLoss", "MegaBatchMarginLoss"}
"""Losses that have no use for two views of one text."""
_SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
"""As the library's own symmetric classes do, which it has deprecated."""
LOSSES: Mapping[str, LossRows] = {
    "multiple_negatives": LossRows("MultipleNegativesRankingLoss", 2, None),
    "multiple_negatives_symmetric": LossRows(
        "MultipleNegativesRankingLoss", 2, None, fixed=_SYMMETRIC
    ),
    "cached_multiple_negatives": LossRows("CachedMultipleNegativesRankingLoss", 2, None),
    "cached_multiple_negatives_symmetric": LossRows(
        "CachedMultipleNegativesRankingLoss", 2, None, fixed=_SYMMETRIC
    ),
    "gist": LossRows("GISTEmbedLoss", 2, 3),
    "cached_gist": LossRows("CachedGISTEmbedLoss", 2, None),
    "global_orthogonal": LossRows("GlobalOrthogonalRegularizationLoss", 2, None),
    "mega_batch_margin": LossRows("MegaBatchMarginLoss", 2, 2),
    "contrastive_tension_in_batch": LossRows("ContrastiveTensionLossInBatchNegatives", 2, 2),
    "triplet": LossRows("TripletLoss", 3, 3),
    "cosine_similarity": LossRows("CosineSimilarityLoss", 2, 2, "score"),
    "cosent": LossRows("CoSENTLoss", 2, 2, "score"),
    "angle": LossRows("AnglELoss", 2, 2, "score"),
    "contrastive": LossRows("ContrastiveLoss", 2, 2, "class"),
    "online_contrastive": LossRows("OnlineContrastiveLoss", 2, 2, "class"),
    "softmax": LossRows("SoftmaxLoss", 2, 2, "class"),
    "contrastive_tension": LossRows("ContrastiveTensionLoss", 2, 2, "class"),
    "batch_all_triplet": LossRows("BatchAllTripletLoss", 1, 1, "class", by_label=True),
    "batch_hard_triplet": LossRows("BatchHardTripletLoss", 1, 1, "class", by_label=True),
    "batch_hard_soft_margin_triplet": LossRows(
        "BatchHardSoftMarginTripletLoss", 1, 1, "class", by_label=True
    ),
    "batch_semi_hard_triplet": LossRows("BatchSemiHardTripletLoss", 1, 1, "class", by_label=True),
    "mse": LossRows("MSELoss", 1, 1, "vector"),
    "embed_distill": LossRows("EmbedDistillLoss", 1, 1, "vector"),
    "margin_mse": LossRows("MarginMSELoss", 3, 3, "score"),
    "distill_kl_div": LossRows("DistillKLDivLoss", 3, None, "scores"),
}
if TYPE_CHECKING:
    LossName = str
else:
    LossName = Literal[tuple(LOSSES)]
PREFIX = "loss_"
_MOST_CLASSES = 1_000_000
_LEFT_OUT = {"show_progress_bar", "gather_across_devices"}
"""What no number depends on with one process."""
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"gt": 0} for name in ("scale", "temperature")},
    **{name: {"gt": 0} for name in ("student_temperature", "teacher_temperature")},
    **{name: {"ge": 0} for name in ("margin", "triplet_margin", "hardness_strength")},
    **{name: {"ge": 0} for name in ("mean_weight", "second_moment_weight")},
    **{name: {"ge": -1, "le": 1} for name in ("positive_margin", "negative_margin")},
    **{name: {"ge": 1} for name in ("mini_batch_size", "mini_batch_num_tokens", "projection_dim")},
}


def settings_of(loss: LossName) -> dict[str, Any]:
    """Return the settings that a loss takes, without the prefix, with the library's defaults."""
    parameters = loss_parameters()[LOSSES[loss].library_class].items()
    left_out = _LEFT_OUT | LOSSES[loss].fixed.keys()
    return {name: each.default for name, each in parameters if name not in left_out}


def losses_with(name: str) -> tuple[LossName, ...]:
    """Return the losses that take a setting, which is named without the prefix."""
    return tuple(loss for loss in LOSSES if name in settings_of(loss))


def loss_fields() -> dict[str, tuple[Any, FieldInfo]]:
    """Make the field of each setting that a loss takes; null is the loss's own default.

    TypeError if two losses take different kinds of values under one name.
    """
    fields = dict[str, tuple[Any, FieldInfo]]()
    kinds = dict[str, Any]()
    for loss in LOSSES:
        parameters = loss_parameters()[LOSSES[loss].library_class]
        for name in settings_of(loss):
            kind = kinds.setdefault(name, parameters[name].kind)
            if parameters[name].kind != kind:
                raise TypeError(f"{loss} takes another kind of {name} than the losses before it")
            described = setting(None, _describe_defaults(name), **_BOUNDS.get(name, {}))
            fields[PREFIX + name] = (kind | None, described)
    return fields


def _describe_defaults(name: str) -> str:
    """Say what null is: the library's default, by loss where they differ."""
    defaults = {loss: settings_of(loss)[name] for loss in losses_with(name)}
    values = list(dict.fromkeys(map(str, defaults.values())))
    if len(values) == 1:
        text = values[0]
    else:
        text = ", ".join(f"{value} of {loss}" for loss, value in defaults.items())
    return f"`{name}` of the library's loss; null: {text}"


def read_labels(corpus: Corpus, loss: LossName) -> list[Any]:
    """Read the labels of a corpus as a loss takes them: numbers, whole numbers or lists.

    DataError if one is of another kind, or classes are too few or too rare for batches by label.
    """
    kind, labels, texts = LOSSES[loss].label, list[Any](), max(1, len(corpus.columns))
    for row, label in enumerate(corpus.labels, start=1):
        numbers = list(label) if isinstance(label, tuple) else [label]
        if kind == "scores":
            fits, expected = len(numbers) == texts - 1, f"a list of {texts - 1} numbers"
            labels.append(numbers)
        elif kind == "class":
            fits, expected = label in range(_MOST_CLASSES), "a class, which is 0, 1, …"
            labels.append(int(numbers[0]))
        else:
            fits, expected = not isinstance(label, tuple), "a number"
            labels.append(label)
        if not fits:
            raise DataError(
                f"corpus {corpus.name}, row {row}: label {label!r}, and loss {loss} reads "
                f"{expected}"
            )
    if LOSSES[loss].by_label and sum(n > 1 for n in Counter(labels).values()) < 2:
        raise DataError(
            f"corpus {corpus.name}: loss {loss} compares texts of one class with those of another, "
            "and fewer than two classes have two texts; take another column as label"
        )
    return labels
