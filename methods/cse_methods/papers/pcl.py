"""PCL: several augmentations of a sentence as positives, and a peer network that is taught along.

Paper: Wu et al., EMNLP 2022, https://arxiv.org/abs/2201.12093.
Departs from the released code: the peer reads attention masks, where it attends to padding there;
a fixed peer is the encoder that is named, where the code loads one and the same whatever the
backbone.
Where it is silent: a fixed peer drops nothing out.
"""

import copy
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor

from cse_methods.augmentation.registry import AugmentationName, change_pieces
from cse_methods.config import Conditions, TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder, read_pooling_layer
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.errors import SettingError, TrainingError
from cse_methods.losses.peer_contrast import peer_contrast
from cse_methods.settings import released, setting
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Student, StudentProtocol

Augmentation = Literal["sf", "rv", "de", "rp", "dp"]
"""Shuffled, reversed, with pieces deleted, with pieces repeated, or unchanged (dropout only)."""
_REGISTERED: dict[Augmentation, tuple[AugmentationName, ...]] = {
    "sf": ("shuffle",),
    "rv": ("reverse",),
    "de": ("delete",),
    "rp": ("repeat",),
    "dp": (),
}
PEERS = ("trained", "fixed")


class PCLConfig(TwoViewConfig):
    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls",)
    conditions: ClassVar[Conditions] = {
        "fixed_peer": {"peer": ("fixed",)},
        "peer_pooling": {"peer": PEERS},
        "within_weight": {"peer": PEERS},
        "cross_weight": {"peer": PEERS},
        "peer_weight": {"peer": ("trained",)},
        "positive_contrast_weight": {"positive_contrast": (True,)},
    }

    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    augmentations: Annotated[tuple[Augmentation, ...], Field(max_length=16)] = released(
        ("sf", "rv", "de", "rp", "sf", "rv", "de", "rp"),
        "views beside the sentence and its dropout copy: sf shuffled, rv reversed, "
        "de with pieces deleted, rp with pieces repeated, dp one more copy",
    )
    augmentation_rate: float = released(
        0.2, "share of the pieces that are deleted or repeated", gt=0, lt=1
    )
    peer: Literal["trained", "fixed", "none"] = released(
        "trained",
        "the second network: the backbone again, trained along; a frozen encoder; or none",
    )
    fixed_peer: str | None = released(
        None, "the frozen encoder: short name, hub id or folder", min_length=1
    )
    peer_pooling: Literal["pooler", "cls"] = released(
        "pooler",
        "what the head follows in the peer: the checkpoint's own dense + tanh, drawn "
        "where it has none, or the plain pooler",
    )
    positive_contrast: bool = released(
        True, "whether positives are told from negatives by a binary cross-entropy too"
    )
    positive_contrast_weight: float = setting(1.0, "weight of these terms", ge=0)
    within_weight: float = setting(
        1.0, "weight of the divergence of the networks' own distributions", ge=0
    )
    cross_weight: float = setting(
        1.0, "weight of the divergence of those with each other's positives", ge=0
    )
    peer_weight: float = setting(1.0, "weight of the peer's contrastive loss", ge=0)

    @model_validator(mode="after")
    def _refuse_a_fixed_peer_without_name(self) -> Self:
        if self.peer == "fixed" and self.fixed_peer is None:
            raise SettingError("fixed_peer", "peer: fixed needs the encoder's name as fixed_peer")
        return self

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, *([self.fixed_peer] if self.fixed_peer else []))


class PCL(TwoViewObjective):
    """Contrasts several views of each sentence in two networks whose rankings are to agree."""

    def __init__(self, config: PCLConfig, student: Student) -> None:
        super().__init__()
        self.config = config
        peer = None if config.peer == "none" else _make_peer(config, student.encoder)
        self.add_module("trained_peer", peer if config.peer == "trained" else None)
        self.fixed: FrozenModule[Encoder] | None = None
        if peer is not None and config.peer == "fixed":
            self.fixed = FrozenModule(peer)

    @property
    def peer(self) -> Encoder | None:
        """Return the second network without the head; None if there is no peer."""
        return self.fixed.module if self.fixed else cast(Encoder | None, self.trained_peer)

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Encode a sentence, its dropout copy and its augmentations; then the same by the peer."""
        contents, (plain, _), config = views.contents, views.templates, self.config
        longest, rate = config.max_length - len(student.encoder.template), config.augmentation_rate
        augmented = [[(name, rate) for name in _REGISTERED[kind]] for kind in config.augmentations]
        count = 2 + len(augmented)
        rows = contents * 2 + [
            change_pieces(own, view, longest=longest) for view in augmented for own in contents
        ]
        read = partial(student.encode, rows, plain)
        of_peer: tuple[Tensor, ...] = ()
        if self.peer is not None:
            (encoded,) = read(encoder=self.peer)
            of_peer = (encoded.detach() if self.fixed else encoded).chunk(count)
        (encoded,) = read()
        return (*encoded.chunk(count), *of_peer)

    def losses(
        self, first: Tensor, second: Tensor, *further: Tensor, **_: Any
    ) -> dict[str, Tensor]:
        config, count = self.config, 2 + len(self.config.augmentations)
        encoded = (first, second, *further)
        own = torch.stack(encoded[:count]).transpose(0, 1)
        peer = torch.stack(encoded[count:]).transpose(0, 1) if self.peer is not None else None
        terms = peer_contrast(own, peer, temperature=config.temperature)
        weights = {
            "infonce": 1.0,
            "peer_infonce": config.peer_weight,
            "within": config.within_weight,
            "cross": config.cross_weight,
        }
        if config.positive_contrast:
            names = ("positive_contrast", "peer_positive_contrast")
            weights |= dict.fromkeys(names, config.positive_contrast_weight)
        return {name: weights[name] * term for name, term in terms.items() if name in weights}


def _make_peer(config: PCLConfig, encoder: Encoder) -> Encoder:
    """Copy the backbone with weights of its own, or load the fixed peer; add the pooling layer.

    TrainingError if the vocabulary or the width of a fixed peer is not the backbone's.
    """
    name = config.backbone if config.peer == "trained" else str(config.fixed_peer)
    if config.peer == "trained":
        peer = copy.deepcopy(encoder)
    else:
        peer = load_encoder(name, pooler=config.pooler, head=False, max_length=config.max_length)
        vocabularies = [one.tokenizer.get_vocab() for one in (peer, encoder)]
        if peer.width != encoder.width or vocabularies[0] != vocabularies[1]:
            raise TrainingError(
                f"fixed_peer: {name} shares rows and head with {config.backbone}; take an encoder "
                f"with its vocabulary and its width, {encoder.width}"
            )
    if config.peer_pooling == "pooler":
        layer = read_pooling_layer(name) or TrainingHead(encoder.width)
        peer = peer.with_post_pooling(layer.to(peer.device))
    return peer.train()


@register_objective("pcl", config=PCLConfig, revision=1)
def build(config: PCLConfig, _corpus: Corpus, student: Student) -> PCL:
    return PCL(config, student)
