"""Measure training on a GPU: speed, share of the GPU's peak, and whether resuming is exact.

Launch: make bench-gpu. The encoders have BERT's sizes, random weights and a vocabulary of the
built-in corpus, so that nothing is downloaded. It uses one GPU for at most eight minutes, and ends
with a message if there is none; `--rehearse` runs everything small on the CPU instead.

    python benchmarks/gpu_speed.py [--rehearse] [--json FILE]
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from console import options, say

from cse_methods.config import TrainingConfig
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.corpora import load_corpus
from cse_methods.registry import available_methods, get_method
from cse_methods.testing import RecordedRun
from cse_methods.training.loop import start, train_until
from cse_methods.training.objective import Objective
from cse_methods.training.schedule import Schedule

BUDGET = 8 * 60
"""Seconds after which no further measurement starts; skipped ones are reported."""
NEEDS: dict[str, dict[str, Any]] = {
    "rankcse": {"teachers": ["TEACHER"]},
    "dclr": {"complementary_model": "TEACHER"},
    "sncse": {"negations": "NEGATIONS"},
    "diffcse": {"generator": "MASKED"},
    "infocse": {"backbone": "MASKED"},
    "distillcse": {"teachers": ["TEACHER"]},
    "pna": {"corpus": "TRIPLES"},
    "multicsr": {"corpus": "TRIPLES", "complementary_model": "TEACHER"},
}
"""Settings that a method needs; names in capitals are replaced by files."""


@dataclass(frozen=True)
class Scale:
    """The sizes of everything, on a GPU or in a rehearsal."""

    layers: int
    width: int
    sizes: tuple[tuple[str, str, int, int], ...]
    """Name, method, batch size and maximum length of each measurement."""
    steps: int
    words: tuple[int, ...]
    """The lengths of the corpus's texts, in words."""
    texts: int
    multiply: int
    """The side of the square matrices whose product measures the device's peak."""


ON_GPU = Scale(
    *(12, 768),
    sizes=(
        ("SimCSE 64 x 32", "simcse", 64, 32),
        ("SimCSE 512 x 32", "simcse", 512, 32),
        ("HiCL 64 x 512", "hicl", 64, 512),
        ("RankCSE 128 x 32", "rankcse", 128, 32),
    ),
    steps=100,
    words=(16, 32, 400),
    texts=20_000,
    multiply=8192,
)
REHEARSED = Scale(
    *(2, 64),
    sizes=(("SimCSE 8 x 32", "simcse", 8, 32), ("HiCL 4 x 64", "hicl", 4, 64)),
    steps=3,
    words=(8, 16, 40),
    texts=100,
    multiply=512,
)


def main() -> None:
    """Measure, print a line for each result, and write all results to the `--json` file."""
    parser = options("gpu_speed.py --rehearse")
    parser.add_argument("--rehearse", action="store_true", help="run everything small, on the CPU")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    asked = parser.parse_args()
    if not torch.cuda.is_available() and not asked.rehearse:
        say("no GPU is seen here; --rehearse runs everything small on the CPU")
        return
    began, scale = time.perf_counter(), REHEARSED if asked.rehearse else ON_GPU
    found: dict[str, Any] = {"device": describe_device()}
    say(found["device"])
    with TemporaryDirectory() as folder:
        places = write_files(Path(folder), scale)
        peak = found["bf16_flops"] = measure_peak(scale.multiply)
        say(f"bf16 products of {scale.multiply} x {scale.multiply}: {peak / 1e12:.1f} TFLOP/s")
        for name, method, batch, length in scale.sizes:
            settings = places | {"batch_size": batch, "max_length": length, "precision": "bf16"}
            speed, share = measure_training(method, settings, scale, peak)
            found[name] = {"sentences_per_second": speed, "share_of_peak": share}
            say(f"{name}: {speed:,.0f} sentences/s, {share:.1%} of the peak")
        if (peer := measure_peer(places, scale)) is not None:
            name = scale.sizes[0][0]
            ratio = found[name]["sentences_per_second"] / peer
            found["peer"] = {"sentences_per_second": peer, "ratio": ratio}
            say(f"sentence-transformers, as {name}: {peer:,.0f} sentences/s; ours {ratio:.2f} x")
        found["resumed"] = {}
        for method in trained_methods():
            if time.perf_counter() - began > BUDGET:
                say(f"{method}: left out, the time is over")
                continue
            found["resumed"][method] = same = compare_resumed(method, places, Path(folder))
            say(f"{method}: 20 steps, stopped after 10 and resumed: {same}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


def describe_device() -> str:
    """Format the name of the device and torch's version."""
    seen = torch.cuda.is_available()
    return f"{torch.cuda.get_device_name() if seen else 'CPU'}, torch {torch.__version__}"


def wait_for_device() -> None:
    """Wait until the GPU, if there is one, has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_peak(side: int) -> float:
    """Measure the FLOP/s of bf16 products of square matrices, the best of five runs."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    first, second = torch.randn(2, side, side, device=device, dtype=torch.bfloat16)
    best = 0.0
    for _ in range(5):
        wait_for_device()
        started = time.perf_counter()
        for _ in range(10):
            first @ second
        wait_for_device()
        best = max(best, 10 * 2 * side**3 / (time.perf_counter() - started))
    return best


def write_files(folder: Path, scale: Scale) -> dict[str, str]:
    """Write an encoder with random weights, also as a masked language model, a corpus of long and
    short texts, and negations.
    """
    from transformers import BertConfig, BertForMaskedLM

    from cse_methods.encoders.loading import load_encoder

    tokenizer = load_encoder("mini").tokenizer
    config = BertConfig(
        vocab_size=30522,
        hidden_size=scale.width,
        num_hidden_layers=scale.layers,
        num_attention_heads=max(1, scale.width // 64),
        intermediate_size=4 * scale.width,
    )
    torch.manual_seed(0)
    masked = BertForMaskedLM(config)
    for name, model in (("encoder", masked.bert), ("masked", masked)):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    rng, words = Random(0), [word for one in builtin_corpus() for word in one.split()]
    texts = [" ".join(rng.choices(words, k=rng.choice(scale.words))) for _ in range(scale.texts)]
    texts = list(dict.fromkeys(texts))
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    (folder / "negations.tsv").write_text("".join(f"{t}\tNot {t}\n" for t in texts), "utf-8")
    triples = "".join(f"{t}\tIndeed {t}\tNot {t}\n" for t in texts)
    (folder / "triples.tsv").write_text(f"a\tb\tc\n{triples}", "utf-8")
    return {"backbone": str(folder / "encoder"), "corpus": str(folder / "corpus.txt")}


def configured(method: str, settings: dict[str, Any]) -> TrainingConfig:
    """Build a method's configuration, including settings without a default."""
    folder = Path(settings["corpus"]).parent
    files: dict[str, Any] = {
        "TEACHER": settings["backbone"],
        "MASKED": str(folder / "masked"),
        "NEGATIONS": str(folder / "negations.tsv"),
        "TRIPLES": {"name": str(folder / "triples.tsv"), "columns": ["a", "b", "c"]},
    }
    own: dict[str, Any] = {}
    for name, value in NEEDS.get(method, {}).items():
        own[name] = [files[one] for one in value] if isinstance(value, list) else files[value]
    config = get_method(method).config.model_validate({"data": "builtin"} | settings | own)
    assert isinstance(config, TrainingConfig)
    return config


def measure_training(
    method: str, settings: dict[str, Any], scale: Scale, peak: float
) -> tuple[float, float]:
    """Measure sentences per second of a method's steps, and their share of the peak.

    The share counts the matrix products of the layers over real word pieces, once forward and twice
    backward, for two views of each sentence; attention's products and the losses are not counted.
    """
    config = configured(method, settings)
    corpus = load_corpus(config.corpus, config.data)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    state = start(config, 0, schedule, lambda student: objective_of(method, config, student))
    warm = max(2, scale.steps // 10)
    train_until(warm, state, corpus)
    wait_for_device()
    started = time.perf_counter()
    train_until(warm + scale.steps, state, corpus)
    wait_for_device()
    seconds = time.perf_counter() - started
    speed = scale.steps * config.batch_size / seconds
    encoder = state.student.encoder
    sample = encoder.rows(corpus.sentences[:1000], max_length=config.max_length)
    pieces = sum(map(len, sample)) / len(sample)
    layers = sum(p.numel() for p in encoder.model.encoder.parameters())
    return speed, speed * pieces * 2 * 3 * 2 * layers / peak


def objective_of(method: str, config: TrainingConfig, student: Any) -> Objective:
    """Build the objective of a timed method."""
    build: Any = get_method(method).build
    objective: Objective = build(config, load_corpus(config.corpus, config.data), student)
    return objective


def measure_peer(places: dict[str, str], scale: Scale) -> float | None:
    """Measure sentences per second of sentence-transformers' loss with AdamW in bf16.

    Returns None if it is not installed. Its trainer would add a data loader, which is left out in
    its favour.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:
        return None
    _, _, batch, length = scale.sizes[0]
    layers = Transformer(places["backbone"], max_seq_length=length)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = SentenceTransformer(modules=[layers, Pooling(scale.width)], device=device).train()
    loss = MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    texts = Path(places["corpus"]).read_text("utf-8").splitlines()
    began, count = 0.0, 0
    for step, part in enumerate(batches_of(texts, batch)):
        if step == 2:
            wait_for_device()
            began = time.perf_counter()
        if step == 2 + scale.steps:
            break
        cut = model.preprocess(part)
        inputs = {name: one.to(device) for name, one in cut.items() if hasattr(one, "to")}
        views = [dict(inputs) for _ in range(2)]
        with torch.autocast(device, dtype=torch.bfloat16):
            torch.autograd.backward(loss(views, torch.empty(0)))
        optimizer.step()
        optimizer.zero_grad()
        count += batch if step >= 2 else 0
    wait_for_device()
    return count / (time.perf_counter() - began)


def batches_of(texts: list[str], size: int) -> Iterator[list[str]]:
    """Yield batches in an endless loop."""
    while True:
        for first in range(0, len(texts) - size + 1, size):
            yield texts[first : first + size]


def trained_methods() -> list[str]:
    """List the methods that take optimiser steps."""
    names = available_methods()
    return [name for name in names if issubclass(get_method(name).config, TrainingConfig)]


def compare_resumed(method: str, places: dict[str, str], folder: Path) -> str:
    """Return `equal` if a resumed trial equals the whole one, else how much the losses differ."""
    dev, texts = folder / "graded.tsv", builtin_corpus()
    pairs = zip(texts[:40], texts[40:80], strict=True)
    dev.write_text("".join(f"{a}\t{b}\t{n % 6}\n" for n, (a, b) in enumerate(pairs)), "utf-8")
    settings = places | {
        "dev": {"checkpoint": str(dev), "search": str(dev), "also": []},
        **{"batch_size": 8, "max_length": 32, "max_steps": 20, "eval_steps": 10},
        **{"precision": "bf16", "deterministic": True},
    }
    config = configured(method, settings)
    with TemporaryDirectory(dir=folder) as own:  # all checkpoints together would fill a disk
        whole_run = RecordedRun(Path(own) / "whole", 1)
        resumed_run = RecordedRun(Path(own) / "resumed", 1, whole_run.folder / "10")
        for run in (whole_run, resumed_run):
            get_method(method).train(config, run)
    whole, resumed = whole_run.curve[20], resumed_run.curve[20]
    if whole == resumed:
        return "equal"
    return f"losses differ by {abs(whole['train/loss'] - resumed['train/loss']):.1e}"


if __name__ == "__main__":
    main()
