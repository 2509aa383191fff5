"""CompCSE: a sentence's positive is composed of the embeddings of its parts.

Paper: Chanchani and Huang, ACL 2023, https://aclanthology.org/2023.acl-long.882.
Departs from its text, with figure 1 and the released code: parts are aggregated before the head
(`aggregate_after_head` is the text's order).
Departs from both: word pieces of the whole sentence are split into parts of equal length, the first
longer; phrases come from a rule-based splitter or a file, where the paper has a discourse parser.
"""

from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator
from torch import Tensor, nn

from cse_methods.config import Conditions, TrainingConfig
from cse_methods.contract import Run
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.language.phrases import Subsampling, composition_examples
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.word_pieces import cut_parts
from cse_methods.errors import SettingError, TrainingError
from cse_methods.files.text import sha256_of
from cse_methods.losses.composition import Aggregation, aggregate
from cse_methods.losses.info_nce import info_nce
from cse_methods.registry import register
from cse_methods.settings import setting
from cse_methods.training import loop as training
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol


class CompCSEConfig(TrainingConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls", "avg", "avg_top2", "avg_first_last")
    conditions: ClassVar[Conditions] = {
        "phrases": {"subsampling": ("adjacent", "overlapping", "subsuming")},
        "partitions": {"subsampling": ("none",)},
    }

    temperature: float = setting(0.05, "divides cosines", gt=0, symbol="τ", source="eq. 1")
    partitions: int = setting(
        2, "parts that a sentence is split into", ge=2, le=4, source="table 5"
    )
    compose: Literal["z", "z+", "both"] = setting(
        "z+", "the anchor, the positive, or both are composed", source="table 4"
    )
    aggregation: Aggregation = setting(
        "average", "how the embeddings of parts become one", source="table 3"
    )
    aggregate_after_head: bool = setting(
        False, "aggregate what the head gives, not what it gets", source="section 3"
    )
    d0: int | None = setting(
        None, "leading coordinates in the loss; null is all", ge=1, symbol="d0", source="table 6"
    )
    subsampling: Subsampling = setting(
        "none", "spans of phrases added to the corpus as sentences", source="section 3, table 2"
    )
    phrases: str | None = setting(
        None,
        "file of phrases, a sentence a line, a tab between phrases; null splits clauses by rule",
    )

    @model_validator(mode="after")
    def _refuse_what_compares_two_parts(self) -> Self:
        if self.aggregation == "concat-absdiff-project" and self.partitions != 2:
            raise SettingError(
                "partitions",
                f"concat-absdiff-project compares two parts, got partitions={self.partitions}",
            )
        return self

    def files(self) -> tuple[str, ...]:
        return (self.phrases,) if self.phrases else ()

    def check_width(self, width: int) -> None:
        """Raise TrainingError unless the embeddings have `d0` coordinates."""
        if self.d0 is not None and self.d0 > width:
            raise TrainingError(
                f"d0 is {self.d0}, and the embeddings of {self.backbone} have {width} "
                "coordinates; take fewer, or null for all"
            )


class CompCSE(Objective):
    """Contrasts each sentence with compositions of parts; its own composition is the positive.

    Args:
        config: the settings.
        student: what is trained.
        examples: for each row of the corpus only the sentence, or the phrases it consists of.
    """

    def __init__(
        self, config: CompCSEConfig, student: Student, examples: list[tuple[str, ...]]
    ) -> None:
        super().__init__()
        width = student.encoder.width
        config.check_width(width)
        self.config = config
        self.examples = examples
        texts = [text for own in examples for text in own]
        self.texts = Corpus("parts", texts, sha256_of(texts))
        self.starts = np.cumsum([0, *map(len, examples)])
        projected = {"concat-project": config.partitions, "concat-absdiff-project": 3}
        read = projected.get(config.aggregation, 0)
        self.projection = nn.Linear(read * width, width, bias=False) if read else None

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        compose, d0 = self.config.compose, self.config.d0
        anchors = self._encode_view(student, batch, composed=compose != "z+")
        positives = self._encode_view(student, batch, composed=compose != "z")
        contrastive = info_nce(
            anchors[:, :d0], positives[:, :d0], temperature=self.config.temperature
        )
        return {"contrastive": contrastive}

    def _encode_view(self, student: StudentProtocol, batch: Batch, *, composed: bool) -> Tensor:
        """Encode each sentence whole, or compose its embedding of those of its parts."""
        plain, after = student.encoder.template, self.config.aggregate_after_head
        if not composed:
            return student.encode(student.pieces_of(batch, plain), plain)[0]
        part_rows = np.concatenate([np.arange(*self.starts[row : row + 2]) for row in batch.rows])
        cut = iter(student.pieces_at(part_rows, self.texts, plain, whole=True))
        own = [list(islice(cut, len(self.examples[row]))) for row in batch.rows]
        parts = [each if each[1:] else cut_parts(each[0], self.config.partitions) for each in own]
        room = self.config.max_length - len(plain)  # every part is truncated separately
        # The rows are ordered by part: all first parts, then all second ones.
        contents = [part[:room] for position in zip(*parts, strict=True) for part in position]
        (encoded,) = student.encode(contents, plain, head=after)
        aggregated = aggregate(
            encoded.chunk(self.config.partitions),
            aggregation=self.config.aggregation,
            projection=self.projection.weight if self.projection else None,
        )
        if after:
            return aggregated
        embeddings: Tensor = student.head(aggregated)
        return embeddings


@register("compcse", config=CompCSEConfig, revision=1)
def train(config: CompCSEConfig, run: Run) -> dict[str, float]:
    corpus, examples = composition_examples(
        load_corpus(config.corpus, config.data, backbone=config.backbone),
        config.subsampling,
        Path(config.phrases) if config.phrases else None,
    )
    return training.train(
        config, run, corpus=corpus, objective=lambda student: CompCSE(config, student, examples)
    )
