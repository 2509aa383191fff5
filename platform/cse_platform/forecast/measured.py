"""Measures the duration of a trial from one optimiser step."""

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from cse_methods.contract import Method, Run, TrainingConfig
from cse_methods.data.corpora import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection

STEPS = 2
"""The first step warms up, the second is measured."""


def measured_seconds(
    method: Method, config: TrainingConfig, *, corpus: Corpus, steps: int, threads: int
) -> float:
    """Train two steps on part of the corpus. Returns the estimated seconds of a trial of `steps`.

    Dev evaluations are timed on the built-in dev set, whatever the configuration's is; the start of
    a worker is taken to need the CPU time that this process has used so far. Raises what the method
    raises.
    """
    before, started_by = torch.get_num_threads(), time.process_time()
    watch = _Stopwatch()
    try:
        torch.set_num_threads(threads)
        train_some(method, config, watch, corpus=corpus, steps=STEPS, eval_steps=1)
    finally:
        torch.set_num_threads(before)
    step = config.batch_size / watch.speed
    point = max(watch.seconds[2] - watch.seconds[1] - step, 0.0)
    start = started_by + watch.seconds[0] - point
    return start + steps * step + (math.ceil(steps / config.eval_steps) + 1) * point


def train_some(
    method: Method, config: TrainingConfig, run: Run, *, corpus: Corpus, steps: int, eval_steps: int
) -> None:
    """Train `steps` steps on as many rows of the corpus as they need, with the built-in dev set."""
    with TemporaryDirectory(prefix="cse-measure-") as folder:
        changes = {
            "corpus": (
                _write_first_rows(corpus, config.batch_size * steps, Path(folder) / "some.jsonl"),
            ),
            "data": "builtin",
            "dev": DevSelection(also=()),
            "max_steps": steps,
            "eval_steps": eval_steps,
        }
        method.train(config.model_copy(update=changes), run)


def _write_first_rows(corpus: Corpus, number: int, file: Path) -> CorpusSpec:
    """Write the first rows of a corpus to a file, as a corpus of its own."""
    columns = corpus.columns or (corpus.sentences,)
    names = [str(index) for index in range(len(columns))]
    rows = zip(*(column[:number] for column in columns), strict=True)
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if corpus.columns:
        return CorpusSpec(name=str(file), columns=tuple(names))
    return CorpusSpec(name=str(file), column=names[0])


class _Stopwatch:
    """A `Run` that records the time of each report, and the speed in the last one."""

    def __init__(self) -> None:
        self.seed = 0
        self.resume_from: Path | None = None
        self.seconds: dict[int, float] = {}
        """Seconds from the start to each report, by step."""
        self.speed = math.nan
        """Sentences per second in the last step."""
        self._started = time.perf_counter()

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        del save
        self.seconds[step] = time.perf_counter() - self._started
        self.speed = metrics.get("perf/sentences_per_second", self.speed)
