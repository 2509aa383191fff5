"""DiffCSE: SimCSE whose vectors also help to find the word pieces that a generator replaced.

Paper: Chuang et al., NAACL 2022, https://arxiv.org/abs/2204.10298.
Follows the released code: the generator's likeliest word piece is taken at every place, where the
paper draws one; its dropout is on; padding counts in the mean over word pieces. `replaced`,
`generator_dropout` and `rtd_over` turn that.
Departs from the released code: padding stays the tokenizer's own piece, where it becomes piece 0
there, which is another one for RoBERTa; backbones of every width are trained.
The printed average on STS was not reached by others with the released script; its authors call the
settings sensitive to devices and versions.
"""

import copy
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cse_methods.augmentation.replaced_pieces import Replaced, hide_pieces, replace_pieces
from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.backbones import locate_backbone, resolve_backbone
from cse_methods.encoders.devices import computing_in
from cse_methods.encoders.edits import Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.masked_lm import check_masked_lm, load_masked_lm
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import BatchNormHead, TrainingHead
from cse_methods.encoders.reading import read_tokenizer
from cse_methods.encoders.saved_layers import TokenLayer
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.replaced_pieces import (
    DetectedOver,
    replace_first_embedding,
    replaced_piece_loss,
)
from cse_methods.settings import released
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol


class DiffCSEConfig(TwoViewConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()  # it has a projection of its own
    loss_of_prefixes: ClassVar[bool] = False

    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    generator: str = released(
        ..., "frozen masked language model to replace pieces: name, hub id or folder", min_length=1
    )
    generator_dropout: bool = released(True, "whether the generator drops out")
    masking_ratio: float = released(
        0.3, "share of the word pieces that are hidden from the generator", gt=0, lt=1
    )
    replaced: Replaced = released(
        "all", "whether the generator's guess stands at every place, or at hidden ones alone"
    )
    rtd_weight: float = released(
        0.005, "weight of the detection of replaced word pieces", ge=0, symbol="λ"
    )
    rtd_over: DetectedOver = released("all", "whether padding counts in the mean over word pieces")
    projection: Literal["batchnorm", "tanh"] = released(
        "batchnorm", "follows the pooler in training: two layers with batch norm, or dense + tanh"
    )
    condition_before_projection: bool = released(
        False,
        "whether the discriminator is told a sentence's vector as it is before the projection",
    )

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, self.generator)

    def check_encoders(self) -> None:
        check_masked_lm(self.generator)
        sources = {name: resolve_backbone(name) for name in self.encoders()}
        folders = {name: locate_backbone(source) for name, source in sources.items()}
        if all(folders.values()):
            _refuse_other_pieces(self, *(read_tokenizer(f, n) for n, f in folders.items() if f))


class ReplacedPieceHead(TokenLayer):
    """Two logits per word piece: one for original pieces and one for replaced ones."""

    def __init__(self, width: int, *, reads_padding: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2)
        self.reads_padding = reads_padding

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Map vectors of shape (B, L, D) to logits of shape (B, L, 2)."""
        del mask
        logits: Tensor = self.linear(vectors)
        return logits

    @property
    def output_width(self) -> int:
        return 2


class DiffCSE(TwoViewObjective):
    """Contrast of two dropout views; from each, a discriminator detects replaced word pieces."""

    def __init__(self, config: DiffCSEConfig, student: Student) -> None:
        super().__init__()
        self.config = config
        width = student.encoder.width
        kind = BatchNormHead if config.projection == "batchnorm" else TrainingHead
        self.projection: nn.Module = kind(width)
        self.discriminator = _copy_discriminator(config, student.encoder)
        generator = load_masked_lm(config.generator)
        _refuse_other_pieces(config, student.encoder.tokenizer, generator.tokenizer)
        self.generator = FrozenModule(generator, dropout=config.generator_dropout)
        self.replaced_share = torch.zeros(())

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
        pooled = torch.cat([first, second])
        projected = self.projection(pooled)
        contrastive = info_nce(*projected.chunk(2), temperature=config.temperature)
        condition = pooled if config.condition_before_projection else projected
        rows = [template(row) for template in views.templates for row in views.contents]
        detection = self._detect_replaced(rows, condition, student)
        return {"contrastive": contrastive, "rtd": config.rtd_weight * detection}

    def metrics(self) -> dict[str, float]:
        return {"replaced_share": self.replaced_share.item()}

    def _detect_replaced(
        self, rows: list[list[int]], condition: Tensor, student: StudentProtocol
    ) -> Tensor:
        """Replace pieces of each row; compute the loss of detecting them with the row's vector."""
        inputs = student.encoder.pad(rows)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        with torch.no_grad(), computing_in(self.config.arithmetic, ids.device):
            rate = self.config.masking_ratio
            hidden, _ = hide_pieces(ids, student.encoder.tokenizer, rate=rate)
            guesses = self.generator(hidden, mask)
        guessed = None if self.config.replaced == "all" else hidden != ids
        edited, labels = replace_pieces(ids, mask, guesses, where=guessed)
        self.replaced_share = labels.sum() / mask.sum()
        contents = [row[: len(own)] for row, own in zip(edited.tolist(), rows, strict=True)]
        edits = Edits(embeddings=lambda vectors, _: replace_first_embedding(vectors, condition))
        tokens = student.encode_tokens(contents, list, encoder=self.discriminator, edits=edits)
        return replaced_piece_loss(tokens.vectors, labels, mask, over=self.config.rtd_over)


def _refuse_other_pieces(config: DiffCSEConfig, *tokenizers: Any) -> None:
    """Raise TrainingError if the tokenizers of backbone and generator have different pieces."""
    first, *others = (tokenizer.get_vocab() for tokenizer in tokenizers)
    if any(vocabulary != first for vocabulary in others):
        raise TrainingError(
            f"generator: {config.generator} does not read the word pieces of "
            f"{config.backbone}; take a masked language model with its vocabulary, such as "
            "distilbert-base for bert-base and distilroberta-base for roberta-base"
        )


def _copy_discriminator(config: DiffCSEConfig, encoder: Encoder) -> Encoder:
    """Copy the backbone to a discriminator of word pieces with weights of its own.

    TrainingError if sentence vectors and the embeddings of word pieces have different widths.
    """
    embedded = encoder.model.get_input_embeddings().weight.shape[1]
    if embedded != encoder.width:
        raise TrainingError(
            f"diffcse puts a sentence's vector where a word piece is embedded: {config.backbone} "
            f"gives a sentence {encoder.width} coordinates and a word piece {embedded}; take a "
            "backbone that gives both as many"
        )
    head = ReplacedPieceHead(encoder.width, reads_padding=config.rtd_over == "all")
    copied = copy.deepcopy(encoder).with_pooler("cls")
    return copied.with_token_layers(head.to(encoder.device)).train()


@register_objective("diffcse", config=DiffCSEConfig, revision=1)
def build(config: DiffCSEConfig, _corpus: Corpus, student: Student) -> DiffCSE:
    return DiffCSE(config, student)
