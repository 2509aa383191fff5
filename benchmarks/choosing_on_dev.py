"""Measure whether selection on a dev set inflates test sets that share its pairs.

Launch: make bench-choosing. Trains configurations of SimCSE and RankCSE on `mini` with several
seeds each, and stores the cosines of STS-B dev, of the rows of STS12 to STS16 that are also in it,
and of a sample of the other rows. Then, treating each seed as a search, it prints the gain of the
selected configuration over the mean one: selected on all of STS-B dev, on its pairs that are also
in a test set, and on the others. Finally it halves the shared pairs repeatedly, selects on one
half, and compares the gain on that half, which stands for test rows that took part in the
selection, with the gain on the other half, which stands for equally good rows that did not.

Needs real data and the encoder minilm. After a kill, stored configurations are not trained again.

    python benchmarks/choosing_on_dev.py FOLDER [--data DIR] [--seeds 5] [--steps 10]
"""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from console import options, say
from evaluation_cost import DATA
from numpy.typing import NDArray
from scipy.stats import rankdata

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.overlap import pair_key
from cse_methods.data.pairs import PairSet
from cse_methods.data.shared_sentences import Groups, group_by_sentence
from cse_methods.evaluation.models import open_model
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.registry import get_method
from cse_methods.tasks import STS_TASKS
from cse_methods.testing import RecordedRun

CONFIGURATIONS = 20
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16")
OTHERS = 80
"""The size of the sample of a task's rows that are not in dev."""
FEWEST = 50
"""The fewest shared rows of a task whose correlation counts."""
SENTENCES = 2000
"""The number of sentences of the training corpus."""
FIXED = {"backbone": "mini", "pooler": "avg_first_last", "batch_size": 32, "max_length": 16}
RANKCSE = {"teachers": "minilm", "contrastive_weight": 0, "beta": 0, "dropout": 0}
SPLITS, RESAMPLES = 20, 100
TAILS = (0.025, 0.975)

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Pairs that every encoder is scored on."""

    first: list[str]
    second: list[str]
    gold: Floats
    shared: NDArray[np.bool_]
    """Whether each pair is shared: a dev pair that a test set has too, or a test pair of dev."""
    groups: Groups

    @classmethod
    def of(cls, pairs: PairSet, shared: NDArray[np.bool_], rows: NDArray[np.intp]) -> "Rows":
        """Select rows of a set."""
        first, second = [pairs.first[row] for row in rows], [pairs.second[row] for row in rows]
        gold = np.array(pairs.gold)[rows]
        return cls(first, second, gold, shared[rows], group_by_sentence(first, second))


def read_rows(data: str) -> dict[str, Rows]:
    """Read STS-B dev and the rows of the test sets, by name; the sample is always the same."""
    dev = load_dev_pairs(DevSelection(), "stsb", data)
    keys = {"dev": list(map(pair_key, dev.first, dev.second))}
    sets = {task: load_pair_set(task, data) for task in STS_TASKS}
    keys |= {task: list(map(pair_key, own.first, own.second)) for task, own in sets.items()}
    tested = {key for task in STS_TASKS for key in keys[task]}
    in_test = np.array([key in tested for key in keys["dev"]])
    rows, rng = {"dev": Rows.of(dev, in_test, np.arange(len(in_test)))}, np.random.default_rng(0)
    in_dev = set(keys["dev"])
    for task in TASKS:
        shared = np.array([key in in_dev for key in keys[task]])
        others = rng.permutation(np.flatnonzero(~shared))[:OTHERS]
        places = np.sort(np.concatenate([np.flatnonzero(shared), others]))
        rows[task] = Rows.of(sets[task], shared, places)
    return rows


def draw_configurations() -> dict[str, list[dict[str, Any]]]:
    """Draw random configurations of both methods, always the same ones."""
    rng = np.random.default_rng(42)

    def draw(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    drawn: dict[str, list[dict[str, Any]]] = {"simcse": [], "rankcse": []}
    for _ in range(CONFIGURATIONS):
        rate = draw(1e-5, 1e-3)
        settings = {"learning_rate": rate, "temperature": draw(0.02, 0.2)}
        drawn["simcse"].append({**settings, "dropout": float(rng.uniform(0, 0.3))})
        lists = {"neighbours": int(rng.choice([0, 1, 3]))}
        lists |= {"tau2": draw(0.0125, 0.1), "tau3": draw(0.0125, 0.1)}
        drawn["rankcse"].append({**lists, "learning_rate": draw(2e-4, 1.5e-3), **RANKCSE})
    return drawn


def train(
    method: str, settings: Mapping[str, Any], seed: int, *, steps: int, folder: Path, data: str
) -> Path:
    """Train a configuration on a small corpus. Returns the folder of its model."""
    corpus, unseen = folder / "corpus.txt", folder / "unseen.tsv"
    with (Path(data) / "corpus" / "wiki_sentences.txt").open(encoding="utf-8") as lines:
        corpus.write_text("".join(line for _, line in zip(range(SENTENCES), lines, strict=False)))
    unseen.write_text("a man eats .\ta man is eating .\t5\na man eats .\ta dog runs .\t0\n")
    config = get_method(method).config(
        **FIXED, **settings, corpus=str(corpus), data=data, max_steps=steps, eval_steps=steps,
        dev={"checkpoint": str(unseen), "search": str(unseen)},
    )  # fmt: skip
    get_method(method).train(config, RecordedRun(folder, seed=seed))
    return folder / str(steps) / "best"


def compute_cosines(model: str, rows: Mapping[str, Rows]) -> dict[str, NDArray[np.float32]]:
    """Compute the cosine of every pair in bfloat16, encoding each distinct sentence once."""
    sentences = {text for own in rows.values() for text in (*own.first, *own.second)}
    texts = sorted(sentences, key=lambda text: (len(text), text))
    place = {text: number for number, text in enumerate(texts)}
    opened = open_model(model, pooler="avg_first_last")
    vectors = torch.empty(len(texts), opened.width)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for places, batch in opened.batches(texts):
            vectors[places] = batch.float()
    vectors = torch.nn.functional.normalize(vectors)

    def pick(sentences: Sequence[str]) -> torch.Tensor:
        return vectors[[place[text] for text in sentences]]

    return {
        name: (pick(own.first) * pick(own.second)).sum(dim=1).numpy() for name, own in rows.items()
    }


def correlate(cosines: NDArray[Any], gold: Floats) -> Floats:
    """Compute the Spearman correlation of each row of cosines, (encoders, pairs), with gold."""
    ranks, by_gold = rankdata(cosines, axis=1), rankdata(gold)
    ranks, by_gold = ranks - ranks.mean(axis=1, keepdims=True), by_gold - by_gold.mean()
    spread = np.sqrt((ranks**2).sum(axis=1) * (by_gold**2).sum())
    return np.asarray(ranks @ by_gold / spread, dtype=np.float64)


def gain(scores: Floats, by: Floats) -> float:
    """Compute the score of the encoder that is best by `by`, less the mean score, x 100."""
    return 100 * float(scores[by.argmax()] - scores.mean())


def split_gains(
    cosines: NDArray[Any], rows: Rows, rng: np.random.Generator, *, resample: bool
) -> tuple[float, float]:
    """Halve the shared pairs by groups. Returns the mean gains on the selecting and other half.

    With `resample`, the groups are first drawn with replacement.
    """
    shared = np.flatnonzero(rows.shared)
    groups = [shared[rows.groups[shared] == group] for group in np.unique(rows.groups[shared])]
    if resample:
        groups = [groups[place] for place in rng.integers(0, len(groups), len(groups))]
    gains = []
    for _ in range(SPLITS):
        order = [groups[place] for place in rng.permutation(len(groups))]
        ends = np.cumsum([len(group) for group in order])
        cut = int(np.searchsorted(ends, ends[-1] / 2)) + 1
        halves = [np.concatenate(order[:cut]), np.concatenate(order[cut:])]
        one, other = (correlate(cosines[:, half], rows.gold[half]) for half in halves)
        gains += [(gain(one, one), gain(other, one)), (gain(other, other), gain(one, other))]
    inside, outside = np.mean(gains, axis=0)
    return float(inside), float(outside)


def describe_search(cosines: Mapping[str, NDArray[Any]], rows: Mapping[str, Rows]) -> Iterator[str]:
    """Describe the gains of one search, given cosines of shape (configurations, pairs) by set."""
    dev, own = rows["dev"], cosines["dev"]
    tasks = [task for task in TASKS if rows[task].shared.sum() >= FEWEST]

    def score(*, shared: bool) -> Floats:
        masks = {task: rows[task].shared == shared for task in tasks}
        per_task = [correlate(cosines[t][:, m], rows[t].gold[m]) for t, m in masks.items()]
        return np.asarray(np.mean(per_task, axis=0))

    shared, others = score(shared=True), score(shared=False)
    for name, mask in {
        "all of dev": np.ones(len(dev.gold), np.bool_),
        "its shared pairs": dev.shared,
        "its other pairs": ~dev.shared,
    }.items():
        by = correlate(own[:, mask], dev.gold[mask])
        yield (
            f"  chosen on {name}: {gain(by, by):+.2f} there, {gain(shared, by):+.2f} on shared "
            f"rows, {gain(others, by):+.2f} on others"
        )


def describe_halves(searches: Sequence[NDArray[Any]], rows: Rows) -> str:
    """Describe the gains by halves over all searches, with a bootstrap interval over groups.

    The error of a half about all pairs has the variance of the error of all pairs about the truth,
    and the two halves err in opposite directions. So half of the difference between the halves is
    how much selection on all pairs overstates the gain on these pairs, compared with new ones.
    """
    rng = np.random.default_rng(0)
    found = np.mean([split_gains(own, rows, rng, resample=False) for own in searches], axis=0)
    drawn = []
    for number in range(RESAMPLES):
        seeds = [np.random.default_rng([1, number]) for _ in searches]
        gains = [
            split_gains(own, rows, seed, resample=True)
            for own, seed in zip(searches, seeds, strict=True)
        ]
        drawn.append(np.mean(gains, axis=0))
    apart = np.subtract(*np.transpose(drawn))
    low, high = np.quantile(apart, TAILS)
    return (
        f"  chosen on half of the shared pairs: {found[0]:+.2f} on it, {found[1]:+.2f} on the "
        f"other half; half of what they are apart, which choosing on all of them gains too much: "
        f"{(found[0] - found[1]) / 2:+.2f} [{low / 2:+.2f}, {high / 2:+.2f}]"
    )


def parse_options() -> Namespace:
    """Parse the command line."""
    parser = options("choosing_on_dev.py runs/choosing --seeds 1")
    parser.add_argument("folder", type=Path, help="where cosines are stored")
    parser.add_argument(
        "--data",
        default=os.environ.get("CSE_DATA", str(DATA)),
        help="data folder in the SentEval layout",
    )
    parser.add_argument("--seeds", type=int, default=5, help="seeds per configuration")
    parser.add_argument("--steps", type=int, default=10, help="training steps of a seed")
    return parser.parse_args()


def main() -> None:
    """Train configurations that are not stored yet, and print the gains."""
    options = parse_options()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows, configurations = read_rows(options.data), draw_configurations()
    for seed in range(options.seeds):
        for number in range(CONFIGURATIONS):
            for method, settings in configurations.items():
                kept = options.folder / f"{method}-{number}-{seed}.npz"
                if kept.is_file():
                    continue
                with TemporaryDirectory() as folder:
                    where = {"folder": Path(folder), "data": options.data}
                    model = train(method, settings[number], seed, steps=options.steps, **where)
                    np.savez(kept, **compute_cosines(str(model), rows))
    for method in configurations:
        searches = []
        for seed in range(options.seeds):
            files = [
                options.folder / f"{method}-{number}-{seed}.npz" for number in range(CONFIGURATIONS)
            ]
            loaded = [np.load(file) for file in files]
            cosines = {name: np.stack([one[name] for one in loaded]) for name in rows}
            searches.append(cosines["dev"])
            say(f"{method}, seed {seed}")
            for line in describe_search(cosines, rows):
                say(line)
        say(f"{method}, {options.seeds} seeds")
        say(describe_halves(searches, rows["dev"]))


if __name__ == "__main__":
    main()
