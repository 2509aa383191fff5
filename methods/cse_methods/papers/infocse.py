"""InfoCSE: SimCSE whose vectors also help two further layers to guess hidden word pieces.

Paper: Wu et al., EMNLP 2022, https://arxiv.org/abs/2210.06432.
Follows the released code: a frozen lower part of the start reads a sentence with hidden pieces, and
the trained encoder's vector takes the place of its first piece; the gradient of the guesses reaches
the encoder through that vector alone.
Departs from it: the start is the backbone, where its authors start from Condenser's checkpoints
(for BERT-base `Luyu/condenser` on the hub, not tried here), so expect other numbers than they
print; the further layers start random, as there unless a folder brings their weights.
Where it is silent: poolers other than cls are read as in SimCSE, and their vector takes that place.
The text of the paper was not compared. Its numbers stand in no table of this package.
"""

import copy
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel

from cse_methods.augmentation.replaced_pieces import hide_pieces
from cse_methods.config import Above, Conditions, TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import computing_in, send_tensor
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.masked_lm import load_masked_lm
from cse_methods.encoders.packing import spread_mask
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import BatchNormHead
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.masked_pieces import UNLABELLED, masked_piece_loss
from cse_methods.losses.replaced_pieces import replace_first_embedding
from cse_methods.settings import setting
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol

released = partial(setting, source="released scripts")


class InfoCSEConfig(TwoViewConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()  # it has a head of its own
    loss_of_prefixes: ClassVar[bool] = False
    conditions: ClassVar[Conditions] = {
        name: {"mlm_weight": Above(0)}
        for name in ("mlm_probability", "head_layers", "trunk_layers", "trunk_dropout")
    }

    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    mlm_weight: float = released(
        1e-5, "weight of the guesses of hidden word pieces; 0 leaves them out", ge=0
    )
    mlm_probability: float = released(
        0.4, "share of the word pieces that are to be guessed", gt=0, lt=1
    )
    head_layers: int = released(
        2, "trained layers between the frozen part and the guesses", ge=0, le=12
    )
    trunk_layers: int = released(
        6, "layers of the frozen part; at most those of the backbone", ge=0, symbol="skip_from"
    )
    trunk_dropout: bool = released(False, "whether the frozen part drops out")


class InfoCSE(TwoViewObjective):
    """Contrast of two dropout views; the vector of each helps to predict masked word pieces."""

    def __init__(self, config: InfoCSEConfig, student: Student) -> None:
        super().__init__()
        self.config = config
        encoder = student.encoder
        self.projection = BatchNormHead(encoder.width)
        self.trunk: FrozenModule[Encoder] | None = None
        if config.mlm_weight:
            self.trunk = FrozenModule(
                _copy_lower_layers(encoder, config.trunk_layers), dropout=config.trunk_dropout
            )
            # Layers of the backbone's architecture, randomly initialised, for padded rows.
            auto: Any = AutoModel
            settings = copy.deepcopy(encoder.model.config)
            settings.num_hidden_layers = config.head_layers
            made = auto.from_config(settings, attn_implementation="sdpa", **encoder.family.options)
            self.layers = made.encoder.layer.train()
            # The backbone's own head for masked language modelling, to be trained.
            model = load_masked_lm(config.backbone).model
            head: nn.Module = model.cls if hasattr(model, "cls") else model.lm_head
            self.guesser = copy.deepcopy(head).requires_grad_(True).train()

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *_: Tensor,
        views: TwoViews,
        student: StudentProtocol,
        **__: Any,
    ) -> dict[str, Tensor]:
        pooled = torch.cat([first, second])
        projected = self.projection(pooled)
        contrastive = info_nce(*projected.chunk(2), temperature=self.config.temperature)
        if self.trunk is None:
            return {"contrastive": contrastive}
        rows = [template(row) for template in views.templates for row in views.contents]
        guesses = self._guess_hidden(rows, pooled, student, self.trunk.module)
        return {"contrastive": contrastive, "mlm": self.config.mlm_weight * guesses}

    def _guess_hidden(
        self, rows: list[list[int]], condition: Tensor, student: StudentProtocol, trunk: Encoder
    ) -> Tensor:
        """Mask pieces of each row; compute the loss of predicting them with the row's vector."""
        hidden, labels = _hide_pieces(rows, student.encoder.tokenizer, self.config.mlm_probability)
        with torch.no_grad():
            tokens = student.encode_tokens(hidden, list, encoder=trunk)
        states, mask = replace_first_embedding(tokens.vectors, condition), spread_mask(tokens.mask)
        # This is done on the CPU so that the host need not wait for a GPU.
        hidden_at = labels.flatten().ne(UNLABELLED).nonzero().squeeze(1)
        with computing_in(self.config.arithmetic, condition.device):
            for layer in self.layers:
                states = layer(states, attention_mask=mask)
            read = states.flatten(0, 1).index_select(0, send_tensor(hidden_at, condition.device))
            logits = self.guesser(read)
        return masked_piece_loss(
            logits.float(), send_tensor(labels.flatten()[hidden_at], condition.device)
        )


def _hide_pieces(
    rows: list[list[int]], tokenizer: Any, rate: float
) -> tuple[list[list[int]], Tensor]:
    """Mask pieces of rows, with torch's random generator.

    Returns:
        The rows with masked pieces, and labels of shape (B, L), on the CPU.
    """
    padding = int(tokenizer.pad_token_id)
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding)
    hidden, chosen = hide_pieces(ids, tokenizer, rate=rate)
    cut = [whole[: len(row)] for whole, row in zip(hidden.tolist(), rows, strict=True)]
    return cut, torch.where(chosen, ids, UNLABELLED)


def _copy_lower_layers(encoder: Encoder, count: int) -> Encoder:
    """Copy the first layers of the backbone; TrainingError unless it is built like BERT."""
    if not encoder.family.bert_layers:
        raise TrainingError(
            f"infocse trains encoders of BERT's make, got a {type(encoder.model).__name__}"
        )
    lower = copy.deepcopy(encoder).with_pooler("cls")
    lower.model.encoder.layer = lower.model.encoder.layer[:count]
    lower.model.config.num_hidden_layers = len(lower.model.encoder.layer)
    return lower


@register_objective("infocse", config=InfoCSEConfig, revision=1)
def build(config: InfoCSEConfig, _: Corpus, student: Student) -> InfoCSE:
    return InfoCSE(config, student)
