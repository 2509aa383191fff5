"""Compare the method `st` on a GPU with a plain script of sentence-transformers: `make bench-st`.

The encoder has the sizes of Qwen3-0.6B, random weights and the word pieces of `mini`, so that
nothing is downloaded. Both train it in bf16, whole and with LoRA, on the same rows with the same
seeds, in turn in one process. Before that, a resumed trial is compared with the whole one. It uses
one GPU, planned for four minutes, and ends with a message if there is none; `--rehearse` runs
everything small on the CPU.

    python benchmarks/st_on_gpu.py [--rehearse] [--json FILE]
"""

import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from console import options, say
from gpu_speed import describe_device, wait_for_device

from cse_methods.data.builtin.pairs import builtin_corpus, builtin_pairs
from cse_methods.encoders.devices import default_device
from cse_methods.registry import get_method

RATES = {"whole": 1e-4, "lora": 1e-3}
"""The learning rate of each way to train."""
RANK, ALPHA = 8, 16
"""Of LoRA."""
SENTENCES_A_TEXT = 6
RESUMED_AT = 5
"""The step of the checkpoint that a trial of twice as many steps is resumed from."""


@dataclass(frozen=True)
class Scale:
    """The sizes of everything, on a GPU or in a rehearsal."""

    encoder: Mapping[str, int]
    batch: int
    pieces: int
    """The most of a text."""
    steps: int
    """Of a warm-up, and again of what is timed."""
    seeds: int


ON_GPU = Scale(
    {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
    },
    batch=64,
    pieces=64,
    steps=40,
    seeds=3,
)
REHEARSED = Scale(
    {
        "vocab_size": 30_522,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "intermediate_size": 128,
    },
    batch=8,
    pieces=64,
    steps=5,
    seeds=2,
)


@dataclass
class ReportedRun:
    """A `Run` that keeps the dev points in memory, and the checkpoint of one step."""

    seed: int
    folder: Path
    save_at: int | None = None
    resume_from: Path | None = None
    curve: dict[int, dict[str, float]] = field(default_factory=dict)

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        """Keep a dev point."""
        self.curve[step] = dict(metrics)
        if save is not None and step == self.save_at:
            save(self.folder)


@dataclass(frozen=True)
class Trained:
    """What is measured of one training."""

    spearman: float
    """On the built-in dev set after the last step."""
    seconds: float
    """A step."""
    gibibytes: float
    """The most that tensors took on the GPU."""


def main() -> None:
    """Measure, print a line for each result, and write all results to the `--json` file."""
    parser = options("st_on_gpu.py --rehearse")
    parser.add_argument("--rehearse", action="store_true", help="run everything small, on the CPU")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    asked = parser.parse_args()
    if not torch.cuda.is_available() and not asked.rehearse:
        say("no GPU is seen here; --rehearse runs everything small on the CPU")
        return
    scale = REHEARSED if asked.rehearse else ON_GPU
    found: dict[str, Any] = {"device": describe_device(), "resumed": {}, "trained": {}}
    say(found["device"])
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_files(folder, scale)
        for way in RATES:
            found["resumed"][way] = same = compare_resumed(way, folder, scale)
            say(f"{way}: {2 * RESUMED_AT} steps, stopped after {RESUMED_AT} and resumed: {same}")
        measured: dict[str, list[tuple[Trained, Trained]]] = {way: [] for way in RATES}
        for seed in range(scale.seeds):
            for way, pairs in measured.items():
                pairs.append(
                    (
                        measure_training(train_by_st, way, folder, scale, seed),
                        measure_training(train_by_script, way, folder, scale, seed),
                    )
                )
                say(f"{way}, seed {seed}: {describe_pair(*pairs[-1])}")
    for way, pairs in measured.items():
        found["trained"][way] = [[vars(one) for one in pair] for pair in pairs]
        say(f"{way}: {compare_pairs(pairs)}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


def write_files(folder: Path, scale: Scale) -> None:
    """Write a random encoder, and rows of two texts that hold the same sentences, half of them cut.

    The second text has the sentences in another order, and each of its words with a chance of half.
    """
    from transformers import AutoConfig, AutoModel

    from cse_methods.encoders.loading import load_encoder

    tokenizer = load_encoder("mini").tokenizer
    config = AutoConfig.for_model("qwen3", pad_token_id=tokenizer.pad_token_id, **scale.encoder)
    torch.manual_seed(0)
    with default_device():
        AutoModel.from_config(config).save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    rng, rows = Random(0), ["anchor\tpositive"]
    for _ in range(2 * scale.steps * scale.batch):
        sentences = rng.sample(builtin_corpus(), SENTENCES_A_TEXT)
        words = " ".join(rng.sample(sentences, SENTENCES_A_TEXT)).split()
        kept = [word for word in words if rng.random() < 0.5]
        rows.append(f"{' '.join(sentences)}\t{' '.join(kept)}")
    (folder / "rows.tsv").write_text("".join(f"{row}\n" for row in rows), "utf-8")


def configured(way: str, folder: Path, scale: Scale, **others: Any) -> Any:
    """Build the configuration of `st`."""
    settings: dict[str, Any] = {
        "backbone": str(folder / "encoder"),
        "corpus": {"name": str(folder / "rows.tsv"), "columns": ["anchor", "positive"]},
        "data": "builtin",
        "dev": {"checkpoint": "stsb", "search": "stsb", "also": []},
        "pooler": "lasttoken",
        "precision": "bf16",
        "batch_size": scale.batch,
        "max_length": scale.pieces,
        "learning_rate": RATES[way],
        "warmup_ratio": 0.1,
        "max_steps": 2 * scale.steps,
        "eval_steps": scale.steps,
    }
    if way == "lora":
        settings["lora"] = {"rank": RANK, "alpha": ALPHA}
    return get_method("st").config.model_validate(settings | others)


def compare_resumed(way: str, folder: Path, scale: Scale) -> str:
    """Return `equal` if a resumed trial equals the whole one, else how much the numbers differ."""
    config = configured(
        way, folder, scale, max_steps=2 * RESUMED_AT, eval_steps=RESUMED_AT, deterministic=True
    )
    with TemporaryDirectory() as place:
        checkpoint = Path(place) / "checkpoint"
        whole = ReportedRun(1, checkpoint, save_at=RESUMED_AT)
        resumed = ReportedRun(1, checkpoint, resume_from=checkpoint)
        for run in (whole, resumed):
            get_method("st").train(config, run)
            release_memory()
    apart = {
        name: abs(value - resumed.curve[2 * RESUMED_AT][name])
        for name, value in whole.curve[2 * RESUMED_AT].items()
        if not name.startswith("perf/")
    }
    unequal = [f"{name} differs by {value:.1e}" for name, value in apart.items() if value]
    return ", ".join(unequal) or "equal"


def measure_training(
    train: Callable[[str, Path, Scale, int], tuple[float, float]],
    way: str,
    folder: Path,
    scale: Scale,
    seed: int,
) -> Trained:
    """Train, and measure the memory that it takes, of which nothing is left afterwards."""
    seen = torch.cuda.is_available()
    if seen:
        torch.cuda.reset_peak_memory_stats()
    spearman, seconds = train(way, folder, scale, seed)
    peak = torch.cuda.max_memory_allocated() if seen else 0
    release_memory()
    return Trained(spearman, seconds, peak / 2**30)


def release_memory() -> None:
    """Free the memory of a training that is over, whose objects refer to each other."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def train_by_st(way: str, folder: Path, scale: Scale, seed: int) -> tuple[float, float]:
    """Train by the method `st`. Returns the dev Spearman and the seconds of a step."""
    run = ReportedRun(seed, folder)
    get_method("st").train(configured(way, folder, scale), run)
    last = run.curve[2 * scale.steps]
    return last["dev/stsb_spearman"], scale.batch / last["perf/sentences_per_second"]


def train_by_script(way: str, folder: Path, scale: Scale, seed: int) -> tuple[float, float]:
    """Train by a plain script with the same settings. Returns what `train_by_st` does."""
    from datasets import Dataset
    from peft import LoraConfig, TaskType
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback

    class Clock(TrainerCallback):  # type: ignore[misc]
        """Reads the time in the middle and at the end."""

        def __init__(self) -> None:
            self.times = list[float]()

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step % scale.steps == 0:
                wait_for_device()
                self.times.append(time.perf_counter())

    config, device = configured(way, folder, scale), default_device()
    torch.manual_seed(seed)
    layers = Transformer(config.backbone, max_seq_length=scale.pieces)
    pooling = Pooling(scale.encoder["hidden_size"], "lasttoken")
    model = SentenceTransformer(modules=[layers, pooling], device=str(device))
    if way == "lora":
        model.add_adapter(
            LoraConfig(
                task_type=TaskType.FEATURE_EXTRACTION,
                r=RANK,
                lora_alpha=ALPHA,
                target_modules="all-linear",
            )
        )
    lines = (folder / "rows.tsv").read_text("utf-8").splitlines()
    first, second = zip(*(line.split("\t") for line in lines[1:]), strict=True)
    columns = {"anchor": list(first), "positive": list(second)}
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "output"),
        seed=seed,
        use_cpu=device.type == "cpu",
        max_steps=config.max_steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        warmup_steps=int(config.warmup_ratio * config.max_steps),
        bf16=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    trainer = SentenceTransformerTrainer(
        model,
        arguments,
        train_dataset={"rows": Dataset.from_dict(columns)},  # a dict, as st has, for equal batches
        loss={"rows": MultipleNegativesRankingLoss(model)},
    )
    trainer.remove_callback(PrinterCallback)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    first, second, gold = zip(*builtin_pairs("stsb"), strict=True)
    evaluator = EmbeddingSimilarityEvaluator(first, second, gold, main_similarity="cosine")
    with torch.autocast(device.type, dtype=torch.bfloat16):
        spearman = evaluator(model)["spearman_cosine"]
    return spearman, (clock.times[1] - clock.times[0]) / scale.steps


def describe_pair(ours: Trained, script: Trained) -> str:
    """Format what `st` and the script did with one seed."""
    return (
        f"dev Spearman {ours.spearman:.4f}, the script's {script.spearman:.4f}; a step "
        f"{ours.seconds:.4f} and {script.seconds:.4f} s, ratio {ours.seconds / script.seconds:.3f};"
        f" peak memory {ours.gibibytes:.1f} and {script.gibibytes:.1f} GiB"
    )


def compare_pairs(pairs: list[tuple[Trained, Trained]]) -> str:
    """Format how the two compare over all seeds."""
    ours, script = ([one.spearman for one in side] for side in zip(*pairs, strict=True))
    spread = max(max(side) - min(side) for side in (ours, script))
    apart = statistics.mean(ours) - statistics.mean(script)
    ratio = statistics.median(one.seconds / other.seconds for one, other in pairs)
    return (
        f"means differ by {apart:+.4f}, {'inside' if abs(apart) <= spread else 'outside'} the "
        f"spread between seeds, {spread:.4f}; a step takes {ratio:.3f} of the script's seconds"
    )


if __name__ == "__main__":
    main()
