"""Score an encoder on all requested tasks, from embeddings that are computed once."""

import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.allocator import keep_freed_memory
from cse_methods.data.corpus_spec import test_sets_of
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.overlap import TrainingData, choosing_pairs
from cse_methods.data.own.reading import load_own_pairs
from cse_methods.data.pairs import PairSet
from cse_methods.data.shared_sentences import group_by_sentence, known_groups
from cse_methods.errors import DataError, EvaluationError
from cse_methods.evaluation.clean import CLEAN, clean_spearman, find_left_out
from cse_methods.evaluation.contamination import CountedSet, count_contamination
from cse_methods.evaluation.embeddings import OnProgress, StoredEmbeddings, encode_texts
from cse_methods.evaluation.identity import (
    GEOMETRY_PROTOCOL,
    RANKING_PROTOCOL,
    STS_PROTOCOL,
    TEXTS_IN_TRAINING,
    score_identity,
    settings_of,
    settings_of_clean,
    settings_of_groups,
)
from cse_methods.evaluation.measures.geometry import geometry
from cse_methods.evaluation.measures.ranking import score_rankings
from cse_methods.evaluation.measures.sts import correlations
from cse_methods.evaluation.models import Model
from cse_methods.evaluation.results import Evaluation, Examples, Score, Split
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.evaluation.test_sets.reviews import Reviews, load_reviews
from cse_methods.evaluation.test_sets.transfer import TransferTest, load_transfer_test
from cse_methods.metrics import cosines
from cse_methods.referenced_tasks.adapter import TaskEncoder
from cse_methods.referenced_tasks.dev_set import ReferencedSet
from cse_methods.referenced_tasks.library import describe_protocol, load_task
from cse_methods.referenced_tasks.scoring import score_task
from cse_methods.referenced_tasks.snapshots import with_snapshots
from cse_methods.task_reference import Reference
from cse_methods.tasks import (
    AVG_STS,
    AVG_TRANSFER,
    GEOMETRY_TASK,
    MAIN_SCORE,
    SENTENCE_GROUPS,
    STS_TASKS,
    TRANSFER_TASKS,
    Statistic,
    Tasks,
)
from cse_methods.transfer.folds import nested
from cse_methods.transfer.protocol import TEST_PROTOCOL, TransferProtocol
from cse_methods.transfer.samples import Samples

_log = logging.getLogger(__name__)


def evaluate(
    model: Model,
    tasks: Tasks,
    *,
    data: str | None = None,
    dims: Sequence[int] = (),
    protocol: TransferProtocol = TEST_PROTOCOL,
    training: TrainingData | None = None,
    progress: OnProgress = lambda what, done, total: None,
) -> Evaluation:
    """Score an encoder. Opens test sets.

    Args:
        model: the encoder.
        tasks: the requested tasks.
        data: `builtin`, `hub`, a folder in the SentEval layout, or None for CSE_DATA.
        dims: how many of the first coordinates are scored beside whole vectors (`by_width`).
        protocol: the protocol of the transfer tasks.
        training: what the encoder was trained on and selected by. Without it there are no clean
            scores, and no counts of sentences that it has seen. If a dev set or corpus cannot be
            read again, only these are missing, with a warning.
        progress: called with the number of encoded sentences, then with the number of scored
            classification tasks.

    Returns:
        Fractions, and the cosines behind them. Scores without a value are listed by name.
        `avg_sts` and `avg_transfer` are included if all seven tasks are.

    Raises:
        DataError: if a data set is missing or damaged.
        EvaluationError: if a vector is not finite.
    """
    keep_freed_memory()
    if dims and max(dims) > model.width:
        raise EvaluationError(
            f"dims {max(dims)} is above {model.width}, the width of the vectors; leave it out"
        )
    sts = [load_pair_set(each, data) for each in STS_TASKS if each in (*tasks.sts, *tasks.ranking)]
    sts += [load_own_pairs(own) for own in tasks.own]
    dev = [load_dev_set(GEOMETRY_TASK, data)] if tasks.geometry else []
    transfer = [load_transfer_test(task, data) for task in tasks.transfer]
    reviews = [load_reviews(task, data) for task in tasks.long]
    tasks = with_snapshots(tasks)
    test_sets = test_sets_of(training.corpora) if training else []
    # Scores of encoders that were trained on texts of test sets stand by themselves.
    reading = {**model.reading, **({TEXTS_IN_TRAINING: test_sets} if test_sets else {})}
    collector = _ScoreCollector(reading)
    with tempfile.TemporaryDirectory(prefix="cse-vectors-") as folder:
        with collector.timed("encoding"):
            sentences = chain(
                *((*pairs.first, *pairs.second) for pairs in (*sts, *dev)),
                *(each.sentences for each in transfer),
                *(each.texts for each in reviews),
            )
            vectors = StoredEmbeddings(model, sentences, folder=Path(folder), progress=progress)
        for pairs in sts:
            _score_pairs(collector, vectors, pairs, tasks, dims)
        if training is not None:
            _score_clean(collector, sts, tasks, training)
        for pairs in dev:
            with collector.timed("geometry"):
                first, second = vectors(pairs.first), vectors(pairs.second)
                own = collector.identify(GEOMETRY_TASK, GEOMETRY_PROTOCOL, pairs.sha256)
                similarities = cosines(first, second).numpy()
                collector.add_similarities(pairs, "dev", own, similarities)
                collector.add(GEOMETRY_TASK, "dev", own, geometry(pairs, first, second))
        classified: list[TransferTest | Reviews] = [*transfer, *reviews]
        for done, test in enumerate(classified):
            progress(test.task, done, len(classified))
            _score_classes(collector, vectors, test, protocol)
    for done, reference in enumerate(tasks.referenced):
        progress(reference.task, done, len(tasks.referenced))
        if reference.kind == "benchmark":
            continue
        with collector.timed(reference.task):
            _score_reference(collector, model, reference)
    for reference in tasks.referenced:
        collector.add_averages(reference.task, reference.members, "test")
    collector.add_averages(AVG_STS, STS_TASKS, "test")
    collector.add_averages(AVG_TRANSFER, TRANSFER_TASKS, "dev", "test")
    if training is not None:
        with collector.timed("contamination"):
            tests = _list_counted_sets(tasks, sts, transfer, reviews)
            for counted in count_contamination(tests, training):
                own = collector.add_identity(counted.settings)
                collector.add(counted.task, counted.split, own, {counted.metric: counted.share})
    return Evaluation(
        tasks=tasks.parts,
        scores=tuple(collector.scores),
        without_value=tuple(collector.without_value),
        examples=tuple(collector.examples),
        identities=collector.identities,
        by_width=collector.by_width,
        seconds=collector.seconds,
    )


def _list_counted_sets(
    tasks: Tasks,
    sts: Sequence[PairSet],
    transfer: Sequence[TransferTest],
    reviews: Sequence[Reviews],
) -> dict[str, CountedSet]:
    """List the sentences of each test set by task; of a task with folds, all are tested."""
    return {
        **{
            pairs.task: CountedSet(
                (*pairs.first, *pairs.second), pairs.sha256, pairs.task not in STS_TASKS
            )
            for pairs in sts
        },
        **{
            each.task: CountedSet((each.test or each.known.train).sentences, each.sha256)
            for each in transfer
        },
        **{each.task: CountedSet(each.texts, each.sha256) for each in reviews},
        **{
            each.task: CountedSet(ReferencedSet(each).texts, each.sha256 or "", each.is_own)
            for each in tasks.referenced
            if each.kind != "benchmark"
        },
    }


@dataclass
class _ScoreCollector:
    """Collects scores under their identities."""

    reading: Mapping[str, Any]
    scores: list[Score] = field(default_factory=list)
    without_value: list[tuple[str, Split, str]] = field(default_factory=list)
    examples: list[Examples] = field(default_factory=list)
    identities: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    by_width: dict[str, dict[int, float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def identify(
        self, task: str, protocol: Mapping[str, Any], data_sha256: str, *, own: bool = False
    ) -> str:
        """Store the settings of a score of this encoder. Returns their identity."""
        return self.add_identity(settings_of(task, self.reading, protocol, data_sha256, own=own))

    def add_similarities(
        self, pairs: PairSet, split: Split, own: str, values: NDArray[np.float32]
    ) -> None:
        kind: Statistic = "spearman"
        examples = (values, pairs.gold, pairs.subsets, pairs.sha256)
        self.examples.append(Examples(pairs.task, split, own, kind, *examples))

    def add(self, task: str, split: Split, own: str, values: Mapping[str, float]) -> None:
        for metric, value in values.items():
            if math.isfinite(value):
                self.scores.append(Score(task, split, metric, value, own))
            else:
                self.without_value.append((task, split, metric))

    def add_averages(self, task: str, members: Sequence[str], *splits: Split) -> None:
        """Add the mean of each metric that all members have; without members, nothing."""
        for split in splits:
            by_metric: dict[str, dict[str, Score]] = {}
            for score in self.scores:
                if score.split == split and score.task in members:
                    by_metric.setdefault(score.metric, {})[score.task] = score
            for metric, scores in by_metric.items():
                if len(scores) == len(members):
                    identities = sorted(score.identity for score in scores.values())
                    own = {"task": task, "protocol": {"mean over": identities}}
                    mean = float(np.mean([scores[member].value for member in members]))
                    self.add(task, split, self.add_identity(own), {metric: mean})

    def add_identity(self, settings: Mapping[str, Any]) -> str:
        """Store the settings of a score. Returns their identity."""
        own = score_identity(settings)
        self.identities[own] = settings
        return own


def _score_pairs(
    collector: _ScoreCollector,
    vectors: StoredEmbeddings,
    pairs: PairSet,
    tasks: Tasks,
    dims: Sequence[int],
) -> None:
    with collector.timed(pairs.task):
        first, second = vectors(pairs.first), vectors(pairs.second)
        for kept in dims:
            cut = cosines(first[:, :kept], second[:, :kept]).numpy()
            score = correlations(cut, pairs.gold, pairs.subsets)["spearman"]
            collector.by_width.setdefault(pairs.task, {})[kept] = score
        # Scores use the stored 32-bit cosines, so that they can be recomputed exactly.
        similarities = cosines(first, second).numpy()
        lab = pairs.source == "file"
        own = collector.identify(pairs.task, STS_PROTOCOL, pairs.sha256, own=lab)
        collector.add_similarities(pairs, "test", own, similarities)
        if known_groups(pairs.gold) is None:
            groups = group_by_sentence(pairs.first, pairs.second)
            grouped = collector.add_identity(settings_of_groups(pairs.task, pairs.sha256, groups))
            share = (int(groups.max()) + 1) / len(groups)
            collector.add(pairs.task, "test", grouped, {SENTENCE_GROUPS: share})
        if lab or pairs.task in tasks.sts:
            values = correlations(similarities, pairs.gold, pairs.subsets)
            collector.add(pairs.task, "test", own, values)
        if pairs.task in tasks.ranking:
            ranked = collector.identify(pairs.task, RANKING_PROTOCOL, pairs.sha256)
            values = score_rankings(pairs.first, pairs.second, similarities, pairs.gold)
            collector.add(pairs.task, "test", ranked, values)


def _score_clean(
    collector: _ScoreCollector, sets: Sequence[PairSet], tasks: Tasks, training: TrainingData
) -> None:
    """Add the clean scores of the tasks for which all earlier tasks are available."""
    try:
        left_out = find_left_out(sets, choosing_pairs(training))
    except DataError as problem:
        _log.warning("no clean scores: %s", problem)
        return
    for whole in collector.examples:
        rows = left_out.get(whole.task)
        if whole.split == "test" and whole.task in tasks.sts and rows is not None:
            assert whole.gold is not None  # of Spearman's statistic
            settings = settings_of_clean(collector.identities[whole.identity], whole.identity, rows)
            values = {CLEAN: clean_spearman(whole.values, whole.gold, rows)}
            collector.add(whole.task, "test", collector.add_identity(settings), values)


def _score_reference(collector: _ScoreCollector, model: Model, reference: Reference) -> None:
    """Score a task of mteb from its snapshot, or one of own files."""
    task, splits = load_task(reference)
    prompted = {side: partial(encode_texts, one) for side, one in model.prompted.items()}
    encoder = TaskEncoder(partial(encode_texts, model), prompted)
    value, found = score_task(task, encoder, splits)
    prompts = {f"{side} prompt": model.prompted[side].reading["prompt"] for side in encoder.used}
    reading, sha256 = {**collector.reading, **prompts}, reference.sha256 or ""
    protocol = describe_protocol(task, splits)
    settings = settings_of(reference.task, reading, protocol, sha256, own=reference.is_own)
    own = collector.add_identity(settings)
    if found is not None:
        collector.examples.append(Examples(reference.task, "test", own, *found, sha256))
    collector.add(reference.task, "test", own, {MAIN_SCORE: value})


def _score_classes(
    collector: _ScoreCollector,
    vectors: StoredEmbeddings,
    test: TransferTest | Reviews,
    protocol: TransferProtocol,
) -> None:
    with collector.timed(test.task):
        if isinstance(test, TransferTest):
            accuracies = test.score(vectors, protocol)
        else:  # HiCL states no protocol for reviews; nested folds are our choice
            samples = Samples(vectors(test.texts), test.labels)
            accuracies = nested(samples, protocol, test=True)
        assert accuracies.test is not None  # because the test was requested
        own = collector.identify(test.task, asdict(protocol), test.sha256)
        collector.add(test.task, "dev", own, {"accuracy": accuracies.dev})
        scores = {"accuracy": accuracies.test}
        if test.task == "mrpc" and accuracies.f1 is not None:
            scores["f1"] = accuracies.f1
        collector.add(test.task, "test", own, scores)
