"""Compare the cost of each method's step with SimCSE's, and its growth: `make bench-costs`.

Methods run in turn, round after round, on `mini` and real Wikipedia sentences. A step is measured
in CPU time of a single thread, which other processes hardly affect; results are medians of ratios
within each round. The growth of costs is fitted by a power law. Needs the folder of data in
CSE_SHARED (default: `../shared` beside the project).

    python benchmarks/step_costs.py [--rounds 5] [--steps 10] [--json FILE]
"""

import json
import math
import statistics
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from console import options, say
from evaluation_cost import DATA
from torch.optim.optimizer import register_optimizer_step_post_hook

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.files.cache import cache_root
from cse_methods.metrics import cosines, spearman
from cse_methods.registry import get_method
from cse_methods.testing import RecordedRun
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

CORPUS = DATA / "corpus" / "wiki_sentences.txt"
SIMCSE = "simcse"
TRIPLES: dict[str, Any] = {"corpus": {"name": "nli", "columns": ["sent0", "sent1", "hard_neg"]}}
"""For methods that train on triples, which are measured on random ones."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    SIMCSE: (SIMCSE, {}),
    "rankcse, vectors of the teacher kept": ("rankcse", {"teachers": ["mini"]}),
    "esimcse": ("esimcse", {}),
    "sncse": ("sncse", {}),
    "compcse": ("compcse", {}),
    "whitenedcse, 96 groups of 192": ("whitenedcse", {"groups": 96}),
    "whitenedcse, not whitened": ("whitenedcse", {"whitening": "none"}),
    "mixcse": ("mixcse", {}),
    "simcsepp": ("simcsepp", {}),
    "focalinfonce": ("focalinfonce", {}),
    "macl": ("macl", {}),
    "arccse": ("arccse", {}),
    "mocose": ("mocose", {}),
    "dclr": ("dclr", {"complementary_model": "mini"}),
    "pcl": ("pcl", {}),
    "promptbert": ("promptbert", {}),
    "l2pcsr": ("l2pcsr", {}),
    "hicl": ("hicl", {}),
    "diffcse": ("diffcse", {"generator": "mini"}),
    "infocse": ("infocse", {"trunk_layers": 1}),
    "isbert": ("isbert", {}),
    "consert": ("consert", {}),
    "ct": ("ct", {}),
    "bertflow": ("bertflow", {}),
    "distillcse, vectors of the teacher kept": ("distillcse", {"teachers": ["mini"]}),
    "cotbert": ("cotbert", {}),
    "pna": ("pna", TRIPLES),
    "multicsr": ("multicsr", TRIPLES | {"complementary_model": "mini"}),
}
"""By label: the method, and the settings that differ from the paper's."""
MOST_RANKCSE, MOST_WHITENING = 1.05, 0.1
"""Targets: RankCSE's step relative to SimCSE's, and the share of whitening in a step."""
BATCHES, LENGTHS = (16, 32, 64, 128, 256), (16, 32, 64, 128)
SENTENCES = (2_000, 4_000, 8_000, 16_000)
"""Sizes of a teacher's corpus, and twice the numbers of pairs of a dev set."""


def main() -> None:
    """Print the results, and write them to the `--json` file."""
    parser = options("step_costs.py --rounds 3")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to measure")
    parser.add_argument("--steps", type=int, default=10, help="steps per measurement")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    say(f"the cache of this machine is used: {cache_root()}")
    found = {"methods": methods(asked), "growth": growth(asked)}
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


def methods(asked: Namespace) -> dict[str, Any]:
    """Measure each method's step relative to SimCSE's, and how often it encodes each sentence."""
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    rows: dict[str, float] = {}
    for number in range(1, asked.rounds + 1):
        say(f"round {number} of {asked.rounds}, {len(METHODS)} methods")
        for name, (method, settings) in METHODS.items():
            with counted_rows() as encoded:
                seconds[name].append(step_seconds(method, settings, steps=asked.steps))
            rows[name] = sum(encoded) / (2 * asked.steps * 64)
    ratios = {name: over(found, seconds[SIMCSE]) for name, found in seconds.items()}
    for name, ratio in ratios.items():
        target = f" (target {MOST_RANKCSE})" if name.startswith("rankcse") else ""
        say(f"{name}: {ratio:.2f} of a SimCSE step{target}; {rows[name]:.2f} encodings a sentence")
    whitened, plain = [name for name in METHODS if name.startswith("whitenedcse")]
    share = 1 - over(seconds[plain], seconds[whitened])
    say(f"whitening: {share:.2f} of the step (target {MOST_WHITENING})")
    return {"ratios": ratios, "encodings": rows, "whitening": share}


def over(these: list[float], those: list[float]) -> float:
    """Compute the median of the pairwise ratios."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))


def step_seconds(
    method: str,
    settings: Mapping[str, Any],
    *,
    steps: int,
    batch: int = 64,
    length: int = 32,
    texts: Corpus | None = None,
) -> float:
    """Measure the CPU seconds of a step: the median over the second half of the steps."""
    found = get_method(method)
    asked = {"backbone": "mini", "corpus": str(CORPUS), "batch_size": batch, "max_length": length}
    config = found.config.model_validate({**asked, **settings})
    some = texts or (triples() if config.corpus[0].columns else corpus())
    with TemporaryDirectory() as folder, step_ends() as ends:
        rows = write_first_rows(some, batch * 2 * steps, Path(folder) / "some.jsonl")
        changes = {"corpus": (rows,), "data": "builtin", "dev": DevSelection(also=())}
        changes |= {"max_steps": 2 * steps, "eval_steps": 2 * steps}
        run = RecordedRun(Path(folder), seed=0)
        found.train(config.model_copy(update=changes), run)
    (moments,) = [each for each in ends.values() if len(each) == 2 * steps]
    return float(np.median(np.diff(moments[steps - 1 :])))


def triples() -> Corpus:
    """Return the corpus with three of its sentences a row; what they say costs nothing."""
    sentences = corpus().sentences
    columns = tuple(sentences[first::3] for first in range(3))
    return Corpus("triples", columns[0], corpus().sha256, columns)


def write_first_rows(corpus: Corpus, number: int, file: Path) -> CorpusSpec:
    """Write the first rows of a corpus to a file, as a corpus of its own."""
    columns = corpus.columns or (corpus.sentences,)
    names = [str(index) for index in range(len(columns))]
    rows = zip(*(column[:number] for column in columns), strict=True)
    file.write_text("".join(f"{json.dumps(dict(zip(names, row, strict=True)))}\n" for row in rows))
    named = {"columns": tuple(names)} if corpus.columns else {"column": names[0]}
    return CorpusSpec(name=str(file), **named)


@contextmanager
def step_ends() -> Iterator[dict[int, list[float]]]:
    """Record the CPU time of this process after each optimiser step, by optimiser."""
    ends: dict[int, list[float]] = defaultdict(list)

    def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        ends[id(optimizer)].append(time.process_time())

    hook = register_optimizer_step_post_hook(note)
    try:
        yield ends
    finally:
        hook.remove()


@contextmanager
def counted_rows() -> Iterator[list[int]]:
    """Record the number of rows of every batch that an encoder encodes in training mode."""
    rows: list[int] = []

    def count(module: torch.nn.Module, inputs: Any) -> None:
        if isinstance(module, Encoder) and module.training:
            rows.append(len(inputs[0]["input_ids"]))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        yield rows
    finally:
        hook.remove()


def growth(asked: Namespace) -> dict[str, Any]:
    """Measure CPU seconds for growing sizes, with the exponent of the fitted power law."""
    few = max(3, asked.steps // 2)
    found = {
        "a step, by batch": {b: step_seconds(SIMCSE, {}, steps=few, batch=b) for b in BATCHES},
        "a step, by length of long texts": {n: long_step(n, few) for n in LENGTHS},
        "vectors of a teacher, by sentences": {n: teacher_seconds(n) for n in SENTENCES},
        "a dev evaluation, by pairs": {n // 2: dev_seconds(n // 2) for n in SENTENCES},
    }
    fitted = {}
    for what, seconds in found.items():
        fitted[what] = {"seconds": seconds, "exponent": exponent(seconds)}
        points = ", ".join(f"{taken:.3f} at {size:,}" for size, taken in seconds.items())
        say(f"{what}: {points}; exponent {fitted[what]['exponent']:.2f}")
    return fitted


def exponent(seconds: Mapping[int, float]) -> float:
    """Fit a line to the logarithms, and return its slope."""
    sizes, taken = zip(*seconds.items(), strict=True)
    return float(np.polyfit([math.log(n) for n in sizes], [math.log(s) for s in taken], 1)[0])


def long_step(length: int, steps: int) -> float:
    """Measure a step on texts that fill rows of `length` word pieces."""
    words = " ".join(corpus().sentences[:4_000]).split()
    texts = [" ".join(words[n : n + length]) for n in range(0, len(words) - length, length)]
    long = Corpus(f"texts of {length} words", texts, sha256=str(length))
    return step_seconds(SIMCSE, {}, steps=steps, batch=16, length=length, texts=long)


def teacher_seconds(sentences: int) -> float:
    """Measure the CPU seconds in which a teacher encodes a corpus for the first time."""
    whole = corpus()
    some = Corpus(f"first {sentences}", whole.sentences[:sentences], sha256=str(sentences))
    with TemporaryDirectory() as folder:
        started = time.process_time()
        teacher_vectors(TeacherSpec(model="mini"), some, max_length=32, cache=Path(folder))
        return time.process_time() - started


def dev_seconds(pairs: int) -> float:
    """Measure the CPU seconds of encoding `pairs` distinct pairs and computing Spearman."""
    encoder, sentences = load_encoder("mini").eval(), corpus().sentences[: 2 * pairs]
    gold = torch.arange(pairs, dtype=torch.float64)
    started = time.process_time()
    vectors = encoder.encode(sentences)
    spearman(cosines(vectors[:pairs], vectors[pairs:]), gold)
    return time.process_time() - started


def corpus() -> Corpus:
    """Load the corpus of real Wikipedia sentences."""
    return load_corpus(get_method(SIMCSE).config.model_validate(ORIGIN).corpus, None)


ORIGIN = {"backbone": "mini", "corpus": str(CORPUS)}


if __name__ == "__main__":
    main()
