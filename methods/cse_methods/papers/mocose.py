"""MoCoSE: a sentence finds its key of a slowly moving encoder, among a queue of earlier keys.

Paper: Cao et al., Findings of ACL 2022, https://arxiv.org/abs/2202.13093.
Follows the released code: keys come through the trained encoder's own embeddings and take
gradients; the queue starts with random rows.
Departs from it: the checkpoint is picked on dev, where the code picks it on the test sets, so
expect less than the paper prints; the target's projection follows the trained one alone
(`train_target_projection: true` trains it too); the momentum stays 1 beyond its schedule. Its
perturbation of word embeddings is left out, for it is smaller than what float32 can hold; so are
its augmentations, which are off by default.
"""

import copy
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import read_pooling_layer
from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.settings import released, setting
from cse_methods.training.loop import register_objective
from cse_methods.training.momentum import KeyQueue, ema_momentum, moving_average_
from cse_methods.training.objective import Objective
from cse_methods.training.student import Batch, Student, StudentProtocol

shown = partial(setting, source="authors' slides")


class MoCoSEConfig(TrainingConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ()  # it has heads of its own

    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    queue_size: int = shown(512, "earlier keys that are negatives too", ge=1, le=8192, symbol="K")
    queue_start: int = released(128, "random rows that are negatives from the first step on", ge=0)
    ema_decay: float = shown(
        0.85, "momentum of the target branch at first; it grows to 1", ge=0, lt=1, symbol="decay"
    )
    ema_total_steps: int = released(15000, "steps until the momentum is 1", ge=1)
    prediction_layers: int = released(2, "linear layers that the query passes alone", ge=1, le=3)
    detach_keys: bool = released(
        False, "whether keys are constant; otherwise the embedding layer learns from them too"
    )
    train_target_projection: bool = released(
        False, "whether the target's projection is trained, beside following the online one"
    )


class Projection(nn.Sequential):
    """A linear layer, LayerNorm and dropout for vectors of shape (B, D)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        )


def prediction_head(width: int, layers: int, dropout: float) -> nn.Sequential:
    """Build the query's own layers: projections, then a linear layer with tanh."""
    before = [Projection(width, dropout) for _ in range(layers - 1)]
    return nn.Sequential(*before, nn.Linear(width, width), nn.Tanh())


class SharedEmbeddings(nn.Module):
    """The embedding layer of another encoder, without owning its parameters."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self._shared = [embeddings]

    def forward(self, *args: object, **named: object) -> Tensor:
        embedded: Tensor = self._shared[0](*args, **named)
        return embedded


class MoCoSE(Objective):
    """Contrasts queries from the online branch with keys from the target branch."""

    def __init__(self, config: MoCoSEConfig, student: Student) -> None:
        super().__init__()
        self.config = config
        encoder = student.encoder
        width, dropout = encoder.width, encoder.dropout
        own = read_pooling_layer(config.backbone) if encoder.pooling.pooler == "cls" else None
        # This is the pre-trained pooling layer without its tanh.
        self.pooler = own.linear if own else nn.Linear(width, width)
        self.projection = Projection(width, dropout)
        self.prediction = prediction_head(width, config.prediction_layers, dropout)
        self.target_encoder = _copy_target_encoder(encoder)
        self.target_pooler = copy.deepcopy(self.pooler).requires_grad_(False)
        self.target_projection = copy.deepcopy(self.projection).requires_grad_(
            config.train_target_projection
        )
        directions = F.normalize(torch.randn(config.queue_size, width), dim=1)
        start = config.queue_start
        self.queue = KeyQueue(directions, config.queue_size, start=start, filled=start)

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        """Update the target branch, compute the contrastive loss, and add keys to the queue."""
        config, encoder = self.config, student.encoder
        momentum = ema_momentum(
            batch.step, decay=config.ema_decay, total_steps=config.ema_total_steps
        )
        for target, online in (  # all but the embeddings, which both branches share
            (self.target_encoder.model.encoder, encoder.model.encoder),
            (self.target_pooler, self.pooler),
            (self.target_projection, self.projection),
        ):
            moving_average_(target, online, momentum=momentum)
        plain = encoder.template
        contents = student.pieces_of(batch, plain)
        (first,) = student.encode(contents, plain, head=False)
        (second,) = student.encode(contents, plain, head=False, encoder=self.target_encoder)
        queries = self.prediction(self.projection(self.pooler(first)))
        keys = self.target_projection(self.target_pooler(second))
        if config.detach_keys:
            keys = keys.detach()
        negatives = send_tensor(self.queue.negatives(), keys.device)
        contrastive = info_nce(queries, keys, temperature=config.temperature, queue=negatives)
        self.queue.add(keys)
        return {"contrastive": contrastive}

    def get_extra_state(self) -> dict[str, Tensor]:
        """Return the queue, which grows, and how many keys were added."""
        return {"queue": self.queue.rows, "counts": torch.tensor([self.queue.filled])}

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        self.queue.rows = state["queue"]
        self.queue.filled = int(state["counts"][0])


def _copy_target_encoder(encoder: Encoder) -> Encoder:
    """Copy the encoder's layers, and share its embeddings.

    TrainingError unless its model has `embeddings` and an `encoder`, as BERT has.
    """
    embeddings = getattr(encoder.model, "embeddings", None)
    if embeddings is None or not hasattr(encoder.model, "encoder"):
        kind = type(encoder.model).__name__
        raise TrainingError(f"mocose trains encoders of BERT's make, got a {kind}")
    target = copy.deepcopy(encoder).requires_grad_(False).train()
    target.model.embeddings = SharedEmbeddings(embeddings)
    return target


@register_objective("mocose", config=MoCoSEConfig, revision=2)
def build(config: MoCoSEConfig, _corpus: Corpus, student: Student) -> MoCoSE:
    return MoCoSE(config, student)
