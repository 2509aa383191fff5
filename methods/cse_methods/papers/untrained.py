"""Untrained: the backbone's own vectors by a pooler, whitened afterwards or not.

Paper: Su et al., 2021, https://arxiv.org/abs/2103.15316, whose whitening is the option; the poolers
are the baselines that every paper of the field prints.
Static word vectors, such as GloVe's, are a backbone with one pooler, the mean of the words (avg);
what sentence-transformers reads, such as decoders, is one with the pooling of its folder.
Departs from it: the statistics come from training sentences, not from those that are scored.
Step 0 of the dev curve is the plain pooler, step 1 what is kept.
"""

from typing import ClassVar

import torch

from cse_methods.config import Conditions, MethodConfig
from cse_methods.contract import BEST_FOLDER, Run
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.loading import SentenceEncoder, load_sentence_encoder
from cse_methods.encoders.post_pooling import Dense
from cse_methods.encoders.reading import asked_pooler
from cse_methods.encoders.whitening import principal_axes, statistics
from cse_methods.errors import TrainingError
from cse_methods.registry import register
from cse_methods.settings import setting
from cse_methods.training.dev_evaluation import DevSuite


class UntrainedConfig(MethodConfig):
    conditions: ClassVar[Conditions] = {
        "dimensions": {"whitening": (True,)},
        "whitening_sentences": {"whitening": (True,)},
    }

    whitening: bool = setting(
        False, "whiten the vectors by statistics of the corpus", source="section 3.2"
    )
    dimensions: int | None = setting(
        None, "principal axes kept at most; null keeps all", ge=1, symbol="k", source="section 3.3"
    )
    head: bool | None = setting(
        None,
        "whether the dense layer that the weights have on [CLS] follows the pooler, as "
        "in supervised SimCSE; null: as its authors read it",
    )
    whitening_sentences: int = setting(
        3000, "sentences drawn from the corpus to compute the statistics", ge=2
    )


@register("untrained", config=UntrainedConfig, revision=1)
def train(config: UntrainedConfig, run: Run) -> dict[str, float]:
    """Score the backbone unchanged, then as it is saved; return the latter's dev metrics."""
    dev = DevSuite(config.dev, data=config.data)
    if run.resume_from is not None:
        kept = load_sentence_encoder(str(run.resume_from / BEST_FOLDER))
        return dev.evaluate(kept.to(default_device()))
    encoder = load_sentence_encoder(
        config.backbone,
        pooler=asked_pooler(config.backbone, config.pooler),
        first_layer=config.first_layer,
        prompt=config.prompt,
        head=config.head,
        max_length=config.max_length,
        attention=config.attention,
    ).to(default_device())
    run.report(step=0, metrics=dev.evaluate(encoder))
    kept = _add_whitening(encoder, config, run.seed) if config.whitening else encoder
    metrics = {"train/progress": 1.0} | dev.evaluate(kept)
    run.report(step=1, metrics=metrics, save=lambda folder: kept.save(folder / BEST_FOLDER))
    return metrics


def _add_whitening(encoder: SentenceEncoder, config: UntrainedConfig, seed: int) -> SentenceEncoder:
    """Add a dense layer that whitens the encoder's vectors."""
    sentences = load_corpus(config.corpus, config.data, backbone=config.backbone).sentences
    drawn = torch.randperm(len(sentences), generator=torch.Generator().manual_seed(seed))
    chosen = [sentences[row] for row in drawn[: config.whitening_sentences].tolist()]
    mean, covariance = statistics(encoder.encode(chosen, max_length=config.max_length))
    try:
        weight = principal_axes(covariance, most=config.dimensions)
    except ValueError as problem:  # for example, the corpus has one sentence
        raise TrainingError(
            f"the vectors of {len(chosen)} sentences cannot be whitened: {problem}"
        ) from problem
    return encoder.with_post_pooling(Dense.affine(weight, -mean @ weight)).to(encoder.device)
