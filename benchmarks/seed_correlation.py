"""Measure how much the scores of two configurations correlate over equal seeds.

Launch: make bench-seeds. Equal seeds mean the same order of the corpus and, as long as the batches
have the same shape, the same dropout. The script trains `mini` for one epoch with SimCSE, with
another temperature, batch size or learning rate, and with RankCSE, which a whitened `mini` teaches.
It scores the trained models on STS-B dev and the seven STS test sets. For each contrast it prints
Pearson's r over the seeds with a 95 % interval (Fisher's z), and the ratio of the standard error of
the difference when paired by seed to that when not.

Then it prints, for simulated normal scores, how often the interval over seeds covers the truth when
both sides are equal, and how often it excludes zero when they differ by one or three standard
deviations of a seed, not paired and paired; and how often the interval of `compare` over pairs and
seeds covers the truth when the seeds are paired.

Needs real data and 30 minutes of a core. After a kill, stored runs are not trained again.

    python benchmarks/seed_correlation.py FOLDER [--data DIR] [--seeds 10] [--steps 40]
"""

import json
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import chain
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from console import options, say
from evaluation_cost import DATA
from numpy.typing import NDArray
from scipy.special import stdtrit

from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.models import open_model
from cse_methods.metrics import spearman
from cse_methods.registry import get_method
from cse_methods.tasks import AVG_STS, parse_tasks
from cse_methods.testing import RecordedRun
from cse_platform.leaderboard.statistics.compare import compare
from cse_platform.leaderboard.statistics.intervals import Contender, freedom_of_difference

BATCH = 64
FIXED = {
    "backbone": "mini",
    "pooler": "avg",
    "max_length": 16,
    "precision": "bf16",
    "dev": {"checkpoint": "stsb", "search": "stsb"},
}
SIMCSE = {"temperature": 0.05, "batch_size": BATCH, "learning_rate": 1e-4}
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "simcse": ("simcse", SIMCSE),
    "temperature 0.1": ("simcse", {**SIMCSE, "temperature": 0.1}),
    "batches of 32": ("simcse", {**SIMCSE, "batch_size": BATCH // 2}),
    "learning rate 3e-4": ("simcse", {**SIMCSE, "learning_rate": 3e-4}),
    "rankcse": ("rankcse", {"batch_size": BATCH, "learning_rate": 3e-4}),
}
CONTRASTS = (
    ("simcse", "temperature 0.1"),
    ("simcse", "batches of 32"),
    ("simcse", "learning rate 3e-4"),
    ("simcse", "rankcse"),
    ("learning rate 3e-4", "rankcse"),
)
MEASURES = {"dev": "STS-B dev", "test": "STS test average"}
SIMULATIONS, SIMULATIONS_OVER_PAIRS = 40_000, 1000
DEVIATIONS = (1, 3)
"""True differences, in standard deviations of a seed."""
PAIRS, RESAMPLES = 200, 400
SEEDS, CORRELATIONS = (3, 5, 10), (-0.5, 0.0, 0.3, 0.6)

Floats = NDArray[np.float64]


def select_corpus(data: str, steps: int) -> dict[str, Any]:
    """Select as many sentences as one epoch of `steps` batches of 64 reads."""
    return {"name": str(Path(data) / "corpus" / "wiki1m_slice.txt"), "first": BATCH * steps}


def whiten_mini(folder: Path, *, data: str, steps: int) -> str:
    """Save `mini` whitened on the corpus. Returns the folder of the model."""
    method, fixed = get_method("untrained"), {**FIXED}
    del fixed["precision"]
    config = method.config(**fixed, whitening=True, corpus=select_corpus(data, steps), data=data)
    method.train(config, RecordedRun(folder))
    return str(folder / "1" / "best")


def train(name: str, seed: int, *, teacher: str, data: str, steps: int) -> dict[str, float]:
    """Train a configuration for one epoch. Returns its scores on dev and test, in [-1, 1]."""
    method, settings = CONFIGURATIONS[name]
    settings = dict(settings) | ({"teachers": [teacher]} if method == "rankcse" else {})
    total = steps * BATCH // settings["batch_size"]
    config = get_method(method).config(
        **FIXED, **settings, corpus=select_corpus(data, steps), data=data,
        max_steps=total, eval_steps=total,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        run = RecordedRun(Path(folder), seed=seed)
        dev = get_method(method).train(config, run)["dev/stsb_spearman"]
        model = open_model(str(Path(folder) / str(total) / "best"))
        with torch.autocast("cpu", torch.bfloat16):
            scores = evaluate(model, parse_tasks(["sts"]), data=data).scores
    test = next(s.value for s in scores if s.task == AVG_STS and s.metric == "spearman")
    return {"dev": dev, "test": test}


def describe_contrast(a: Floats, b: Floats) -> str:
    """Describe how much the scores of the same seeds, each of shape (seeds,), correlate."""
    r = float(np.corrcoef(a, b)[0, 1])
    reach = 1.96 / sqrt(len(a) - 3)
    low, high = np.tanh(np.arctanh(r) + np.array([-reach, reach]))
    ratio = float((a - b).std(ddof=1)) / sqrt(a.var(ddof=1) + b.var(ddof=1))
    return (
        f"r {r:+.2f} [{low:+.2f}, {high:+.2f}], paired to unpaired error {ratio:.2f}; means x 100 "
        f"{100 * a.mean():.2f} and {100 * b.mean():.2f}, deviations {100 * a.std(ddof=1):.2f} and "
        f"{100 * b.std(ddof=1):.2f}"
    )


def find_difference(a: Floats, b: Floats, *, paired: bool) -> tuple[Floats, Floats]:
    """Compute the differences of means and the reach of their 95 % intervals over seeds.

    `a` and `b` have the shape (simulations, seeds). Paired by seed, the interval is Student's of
    the differences; otherwise that of `compare`.
    """
    n, effect = a.shape[1], a.mean(axis=1) - b.mean(axis=1)
    if paired:
        variance, freedom = (a - b).var(axis=1, ddof=1) / n, n - 1
    else:
        sides = a.var(axis=1, ddof=1) / n, b.var(axis=1, ddof=1) / n
        variance, freedom = sum(sides), freedom_of_difference(sides, (n - 1, n - 1), 1.0)
    return effect, stdtrit(freedom, 0.975) * np.sqrt(variance)


def describe_error_rates() -> Iterator[str]:
    """Describe coverage and power of the interval over seeds, paired and not, by correlation."""
    rng = np.random.default_rng(0)
    for n in SEEDS:
        for r in CORRELATIONS:
            a, b = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], (SIMULATIONS, n)).T
            for paired in (False, True):
                effect, reach = find_difference(a.T, b.T, paired=paired)
                covered = (abs(effect) <= reach).mean()
                found = [100 * (abs(effect + apart) > reach).mean() for apart in DEVIATIONS]
                yield (
                    f"{n} seeds, correlation {r}, {'paired' if paired else 'not paired'}: covers "
                    f"{100 * covered:.1f} %, finds {DEVIATIONS[0]} deviation in {found[0]:.0f} %, "
                    f"{DEVIATIONS[1]} in {found[1]:.0f} %"
                )


def draw_alike(r: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw standard normal values of two sides that correlate by r, of shape (2, *shape)."""
    shared, own = rng.standard_normal(shape), rng.standard_normal((2, *shape))
    return np.asarray(sqrt(r) * shared + sqrt(1 - r) * own)


def covers_over_pairs(n: int, r: float, quality: float, rng: np.random.Generator) -> bool:
    """Whether the interval of `compare` between two equal methods with n equal seeds covers 0.

    Half of the variance of a cosine's error is the method's and half is the seed's, which correlate
    by r between the methods, as the logarithm of the errors' size over the seeds does, of which
    `quality` is the deviation.
    """
    gold = rng.standard_normal(PAIRS)
    errors = (draw_alike(0, (1, PAIRS), rng) + draw_alike(r, (n, PAIRS), rng)) / sqrt(2)
    cosines = gold + np.exp(quality * draw_alike(r, (n, 1), rng)) * errors
    sides = [
        Contender(
            name,
            {"stsb": [spearman(one, gold) for one in own]},
            {"stsb": own},
            {"stsb": gold},
            design=("", "", tuple(range(n))),
        )
        for name, own in zip("ab", cosines, strict=True)
    ]
    seed = int(rng.integers(2**32))
    compared = compare(*sides, tasks=["stsb"], average=None, resamples=RESAMPLES, seed=seed)
    interval = compared.tasks[0].interval
    return interval is not None and interval.low <= 0 <= interval.high


def describe_coverage_over_pairs() -> Iterator[str]:
    """Describe the coverage of `compare` with equal seeds, by correlation and by what varies."""
    rng = np.random.default_rng(0)
    for n in SEEDS[:2]:
        for r in CORRELATIONS[1:]:
            for quality in (0.0, 0.1):
                drawn = (
                    covers_over_pairs(n, r, quality, rng) for _ in range(SIMULATIONS_OVER_PAIRS)
                )
                covered = 100 * sum(drawn) / SIMULATIONS_OVER_PAIRS
                yield (
                    f"{n} seeds, correlation {r}, deviation of quality {quality}: over pairs and "
                    f"seeds, compare covers {covered:.1f} %"
                )


def parse_options() -> Namespace:
    """Parse the command line."""
    parser = options("seed_correlation.py runs/seeds --seeds 4")
    parser.add_argument("folder", type=Path, help="where scores are stored")
    parser.add_argument(
        "--data",
        default=os.environ.get("CSE_DATA", str(DATA)),
        help="data folder in the SentEval layout",
    )
    parser.add_argument("--seeds", type=int, default=10, help="seeds per configuration")
    parser.add_argument("--steps", type=int, default=40, help="batches of 64 in the epoch")
    return parser.parse_args()


def main() -> None:
    """Train the runs that are not stored yet, and print correlations and error rates."""
    options = parse_options()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    known: Mapping[str, list[dict[str, float]]] = {name: [] for name in CONFIGURATIONS}
    with TemporaryDirectory() as folder:
        where = {"data": options.data, "steps": options.steps}
        teacher = whiten_mini(Path(folder), **where)
        for seed in range(options.seeds):
            for number, (name, scores) in enumerate(known.items()):
                kept = options.folder / f"{number}-{seed}.json"
                if not kept.is_file():
                    kept.write_text(json.dumps(train(name, seed, teacher=teacher, **where)))
                scores.append(json.loads(kept.read_text()))
    for a, b in CONTRASTS:
        for key, measure in MEASURES.items():
            sides = (np.array([scores[key] for scores in known[name]]) for name in (a, b))
            say(f"{a} against {b}, {measure}: {describe_contrast(*sides)}")
    for line in chain(describe_error_rates(), describe_coverage_over_pairs()):
        say(line)


if __name__ == "__main__":
    main()
