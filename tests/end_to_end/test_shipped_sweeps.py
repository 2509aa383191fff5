"""Every sweep file that we ship runs: two steps of every choice, on encoders of the right width.

A backbone becomes a random encoder of one layer, of the same family and width; the corpus and the
dev set are the built-in ones, and the teachers such encoders, too.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cse_methods.contract import TrainingConfig
from cse_methods.registry import get_method
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.rehearsal import every_value_once
from cse_platform.sweep.spec import SweepSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
SIZES: dict[str, dict[str, int]] = {
    "base": {"hidden_size": 768, "num_attention_heads": 12},
    "large": {"hidden_size": 1024, "num_attention_heads": 16},
}
ONE_LAYER: dict[str, int] = {"num_hidden_layers": 1, "intermediate_size": 64}
# In place of what a file says, searched or fixed. A batch of 32 is enough for the widest group of
# coordinates, which is of 24; half precision takes a minute a step on a CPU.
BRIEF = {"max_steps": 2, "eval_steps": 2, "batch_size": 32, "precision": "fp32"}
SICKR = {"checkpoint": "sickr", "search": "sickr", "also": []}
"""The smaller dev set alone: encoding it is most of the time that two steps take."""


class Curve:
    """A `Run` that keeps the dev points and saves nothing."""

    seed: int = 0
    resume_from: Path | None = None

    def __init__(self) -> None:
        self.points: dict[int, Mapping[str, float]] = {}

    def report(self, *, step: int, metrics: Mapping[str, float], save: Any = None) -> None:
        del save
        self.points[step] = metrics


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of random encoders, by the names that they stand in for."""
    from cse_methods.published.released import names_of_released

    folder = tmp_path_factory.mktemp("encoders")
    made = {
        f"{family}-{size}": str(make(folder / f"{family}-{size}", sizes))
        for family, make in (("bert", _bert), ("roberta", _roberta))
        for size, sizes in SIZES.items()
    }
    taught = {f"{name}-{one}": made[one] for one in made for name in ("simcse", "diffcse")}
    taught |= {name: made[one] for one in made for name in names_of_released([one])}
    taught |= dict.fromkeys(names_of_released(["non-bert"]), str(_glove(folder / "glove")))
    best = {f"best:simcse/{name}": made[name] for name in ("bert-base", "bert-large")}
    small = ("mini", "minilm", "best:simcse/mini", "best:untrained/mini")
    return dict.fromkeys(small, "mini") | made | taught | best


def _bert(folder: Path, sizes: Mapping[str, int]) -> Path:
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    from cse_methods.encoders.backbones import resolve_backbone

    pieces = AutoTokenizer.from_pretrained(resolve_backbone("mini").model)
    pieces.save_pretrained(folder)
    config = BertConfig(vocab_size=len(pieces), **ONE_LAYER, **sizes)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def _glove(folder: Path) -> Path:
    import torch

    from cse_methods.data.builtin.pairs import builtin_corpus
    from cse_methods.encoders.static_encoder import StaticEncoder, WordTable

    words = sorted({word for sentence in builtin_corpus()[:500] for word in sentence.split()})
    vectors = torch.randn(len(words), 300, generator=torch.Generator().manual_seed(0))
    StaticEncoder(WordTable(words, vectors)).save(folder)
    return folder


def _roberta(folder: Path, sizes: Mapping[str, int]) -> Path:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizer

    from cse_methods.data.builtin.pairs import builtin_corpus

    folder.mkdir()
    pieces = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces.train_from_iterator(builtin_corpus()[:500], vocab_size=400, special_tokens=special)
    pieces.save_model(str(folder))
    vocabulary, merges = str(folder / "vocab.json"), str(folder / "merges.txt")
    RobertaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=pieces.get_vocab_size(),
        max_position_embeddings=514,
        type_vocab_size=1,
        **ONE_LAYER,
        **sizes,
    )
    RobertaForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Teachers and negations are computed once for all files, and for these tests alone."""
    import torch

    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def small(spec: SweepSpec, point: Mapping[str, Any], encoders: Mapping[str, str]) -> Any:
    """The settings of a trial with all that is large replaced."""
    settings = spec.settings(point)
    if "teachers" in settings:
        settings["teachers"] = [encoders[name] for name in settings["teachers"]]
    if issubclass(get_method(spec.method).config, TrainingConfig):
        settings |= BRIEF
    corpus = [entry | {"name": "builtin"} for entry in settings["corpus"]]
    backbone = encoders[spec.backbone]
    return settings | {"backbone": backbone, "corpus": corpus, "data": "builtin", "dev": SICKR}


def test_every_file_runs_two_steps(encoders: dict[str, str]) -> None:
    files = sorted((ROOT / "sweeps").rglob("*.yaml"))
    assert files
    for spec in (stage for file in files for stage in load_sweep(file).stages):
        method = get_method(spec.method)
        for point in every_value_once(spec):
            config, curve = method.config.model_validate(small(spec, point, encoders)), Curve()
            method.train(config, curve)
            assert list(curve.points) == ([0, 2] if isinstance(config, TrainingConfig) else [0, 1])
            metrics = [value for point in curve.points.values() for value in point.values()]
            assert all(map(math.isfinite, metrics)), (spec.sweep, point, curve.points)
