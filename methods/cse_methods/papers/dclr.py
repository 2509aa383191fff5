"""DCLR: SimCSE with noise as further negatives, and without those that may be false.

Paper: Zhou et al., ACL 2022, https://arxiv.org/abs/2205.00656.
Departs from the released code: both models read attention masks, where they attend to padding
there; the complementary model drops nothing out (`complementary_dropout` is the code's); phi bounds
the cosine at every temperature, where the code compares cosine / temperature with 20 phi; noise
whose gradient is 0 stays, where it becomes 0 there; the loss is computed so that it stays finite
where a probability rounds to 1; dev embeddings are [CLS], as at test time, where the code scores
what its pooling layer gives.
Where it is silent: a complementary model without a pooling layer gives its own embeddings.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cse_methods.config import TwoViewConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.loading import load_encoder, read_pooling_layer
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.losses.debiased import (
    DebiasedForm,
    debiased_loss,
    false_negative_weights,
    noise_ascent,
    noise_logits,
)
from cse_methods.settings import released
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.student import Batch, Student, StudentProtocol


class DCLRConfig(TwoViewConfig):
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    complementary_model: str = released(
        ..., "frozen encoder that finds false negatives: short name, hub id or folder", min_length=1
    )
    phi: float = released(
        0.9, ("cosine above which a negative is false; 1 keeps all"), ge=-1, le=1, symbol="φ"
    )
    noise_times: float = released(1.0, "rows of noise for each sentence of a batch", ge=0, le=10)
    noise_steps: int = released(
        4, "steps that make the noise harder to tell from positives", ge=0, le=10
    )
    noise_step_size: float = released(1e-3, "length of such a step", ge=0)
    form: DebiasedForm = released(
        "bce", "binary cross-entropy, false negatives with logit 0, or InfoNCE without them"
    )
    complementary_dropout: bool = released(
        False, "whether the complementary model drops out, so that its two views differ"
    )
    pooling_layer: bool = released(
        True,
        "the backbone's own dense + tanh between pooler and head, in training only; "
        "one that its checkpoint lacks is drawn. With head: false it is all that follows the "
        "pooler",
    )

    def encoders(self) -> tuple[str, ...]:
        return (self.backbone, self.complementary_model)


class DCLR(TwoViewObjective):
    """Contrasts two views of each sentence, with noise and without likely false negatives."""

    def __init__(self, config: DCLRConfig, student: Student) -> None:
        super().__init__()
        self.config = config
        self.pooling_layer: nn.Module = nn.Identity()
        if config.pooling_layer:
            own = read_pooling_layer(config.backbone)
            self.pooling_layer = own or TrainingHead(student.encoder.width)
        name = config.complementary_model
        model = load_encoder(name, head=False)
        if model.pooling.pooler == "cls" and (layer := read_pooling_layer(name)):
            model = model.with_post_pooling(layer)
        self.complementary = FrozenModule(model, dropout=config.complementary_dropout)

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        encoded = student.encode(views.contents, *views.templates, head=False)
        return tuple(student.head(self.pooling_layer(view)) for view in encoded)

    def losses(
        self,
        first: Tensor,
        second: Tensor,
        *_: Tensor,
        student: StudentProtocol,
        batch: Batch,
        **__: Any,
    ) -> dict[str, Tensor]:
        config = self.config
        count = int(len(first) * config.noise_times)
        drawn = send_tensor(torch.randn(count, first.shape[1]), first.device)
        noise = noise_ascent(
            first,
            second,
            drawn,
            temperature=config.temperature,
            steps=config.noise_steps,
            step_size=config.noise_step_size,
        )
        # Two views of the complementary model; without dropout they are equal.
        model = self.complementary.module
        views = [model.template] * (2 if config.complementary_dropout else 1)
        with torch.no_grad():
            contents = student.pieces_of(batch, model.template, encoder=model)
            encoded = student.encode(contents, *views, head=False, encoder=model)
        weights = false_negative_weights(encoded[0], encoded[-1], phi=config.phi, noise=count)
        logits = noise_logits(first, second, noise, temperature=config.temperature)
        return {"contrastive": debiased_loss(logits, weights, form=config.form)}


@register_objective("dclr", config=DCLRConfig, revision=1)
def build(config: DCLRConfig, _corpus: Corpus, student: Student) -> DCLR:
    return DCLR(config, student)
