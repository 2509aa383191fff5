"""Every general part of the loop in one method, which keeps the contract of all methods."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cse_methods.contract import BEST_FOLDER, Method, Paper, Run, TrainingConfig
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.edits import Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.losses.info_nce import info_nce
from cse_methods.settings import record_reads
from cse_methods.testing import (
    CHECKS,
    RecordedRun,
    TrainedOnce,
    differs_with_another_seed,
    repeats_with_one_seed,
)
from cse_methods.training.frozen import FrozenModule
from cse_methods.training.loop import train
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, Student, StudentProtocol


def add_noise(vectors: Tensor, mask: Tensor) -> Tensor:
    return vectors + 0.1 * torch.randn_like(vectors) * mask.unsqueeze(-1)


class Everything(Objective):
    """A convolution kept at test, a frozen guide, a learned scale, edited views, a schedule."""

    def __init__(self, student: Student, guide: str) -> None:
        super().__init__()
        self.convolution = TokenConvolution(student.encoder.width, 8, (1, 3))
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.guide: FrozenModule[Encoder] = FrozenModule(load_encoder(guide))

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        plain = student.encoder.template
        encoder = student.encoder.with_token_layers(self.convolution)
        contents = student.pieces_of(batch, plain)
        first = student.encode_tokens(contents, plain, encoder=encoder).pooled
        turned = [list(range(len(plain(content))))[::-1] for content in contents]
        edits = Edits(embeddings=add_noise, positions=turned, dropout=False)
        (second,) = student.encode(contents, plain, head=False, encoder=encoder, edits=edits)
        (guide,) = student.encode(contents, plain, head=False, encoder=self.guide.module)
        contrastive = self.scale * info_nce(first, second, temperature=0.05)
        share = batch.step / batch.total_steps
        return {"contrastive": contrastive, "guide": share * (first.mean() - guide.mean()).square()}

    def parameter_groups(self, student: Student) -> list[ParameterGroup]:
        return [ParameterGroup([self.convolution], learning_rate_factor=10)]

    def metrics(self) -> dict[str, float]:
        return {"scale": self.scale.item()}

    def evaluation_encoder(self, student: Student) -> Encoder:
        return student.encoder.with_token_layers(self.convolution)


def train_everything(config: TrainingConfig, run: Run) -> dict[str, float]:
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    guide = config.backbone
    return train(config, run, corpus=corpus, objective=lambda student: Everything(student, guide))


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedOnce:
    places = {"corpus": {"name": "builtin", "first": 60}, "data": "builtin"}
    dev = {"checkpoint": "sickr", "search": "sickr", "also": []}
    steps = {"batch_size": 8, "max_steps": 5, "eval_steps": 2, "gradient_accumulation": 2}
    rates = {"warmup_ratio": 0.4, "learning_rate_schedule": "constant", "weight_decay": 0.01}
    optimizer = {"optimizer": "adamw_without_bias_correction", "pooler": "avg"}
    backbone = {"backbone": str(tiny_bert), "dev": dev}
    config = TrainingConfig.model_validate(backbone | places | steps | rates | optimizer)
    paper = Paper("Everything", "https://example.org", 2026)
    method = Method("everything", TrainingConfig, paper, 1, train_everything)
    run = RecordedRun(tmp_path_factory.mktemp("everything"), seed=1)
    recorded, read = record_reads(config)
    return TrainedOnce(method, config, run, train_everything(recorded, run), frozenset(read))


def test_the_contract(trained: TrainedOnce) -> None:
    # Repetition and the seed are the loop's, and are tried with other methods.
    for check in CHECKS:
        if check not in (repeats_with_one_seed, differs_with_another_seed):
            check(trained)


def test_what_was_trained_is_kept(trained: TrainedOnce) -> None:
    kept = load_encoder(str(trained.run.folder / "5" / BEST_FOLDER))
    (layer,) = kept.token_layers
    assert isinstance(layer, TokenConvolution)
    assert kept.width == 16
    scales = [point["train/scale"] for step, point in trained.run.curve.items() if step]
    assert len(set(scales)) == len(scales)
