"""Count the sentences of test and dev sets that an encoder was trained on or selected by.

Only an evaluation counts them, because a trial cannot open a test set.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from cse_methods.data.corpora import KNOWN, load_corpus, missing_corpora
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.overlap import TrainingData, sentence_key
from cse_methods.errors import DataError
from cse_methods.evaluation.results import Split
from cse_methods.published.released import declared_training
from cse_methods.referenced_tasks.dev_set import ReferencedSet
from cse_methods.tasks import CONTAMINATION_METRICS

_log = logging.getLogger(__name__)

SetName = tuple[Split, str]
"""The split and the task of a data set."""

_IN_CORPUS, _IN_TEACHERS, _IN_DEV = CONTAMINATION_METRICS


class CountedSet(NamedTuple):
    """The sentences of a test set, and the data that they are of."""

    sentences: Iterable[str]
    data_sha256: str
    """As in the settings of its score."""
    own: bool = False
    """Whether it is a lab's own file."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The part of a score's settings that says which data it is on."""
        return {"data_sha256": self.data_sha256} | ({"source": "file"} if self.own else {})


class Contamination(NamedTuple):
    """How many sentences of a set are in other data, compared as in `cse_methods.data.overlap`."""

    task: str
    split: Split
    metric: str
    """One of `CONTAMINATION_METRICS`."""
    found: int
    """Number of distinct sentences of the set that are in the other data."""
    settings: Mapping[str, Any]
    """What was counted: `in`, the names of corpora or files; `sentences`, the number of distinct
    sentences in the set; `sentences_sha256`, the checksum of their letters and digits; of a test
    set also `data_sha256`, and `source` of a lab's own file, as in the settings of its score."""

    @property
    def share(self) -> float:
        """The fraction of the set's distinct sentences that were found."""
        sentences: int = self.settings["sentences"]
        return self.found / max(1, sentences)


def count_contamination(
    tests: Mapping[str, CountedSet], training: TrainingData
) -> Iterator[Contamination]:
    """Count which sentences of test sets, and of dev sets in use, an encoder has seen.

    Both kinds of sets are compared with the training corpus and the corpora that its teachers
    declare, and test sets also with a lab's own dev files. Whole sentences are compared, as they
    were before long ones were cut. What cannot be read again, or would have to be downloaded, is
    not counted, with a warning.

    Args:
        tests: the test sets, by task.
        training: what the encoder was trained on and selected by.
    """
    of_tests: dict[SetName, set[str]] = {
        ("test", task): {*map(sentence_key, test.sentences)} - {""} for task, test in tests.items()
    }
    for counted in _count_sets(of_tests, training):
        of_data = tests[counted.task].settings if counted.split == "test" else {}
        yield counted._replace(settings={**counted.settings, **of_data})


def _count_sets(
    of_tests: Mapping[SetName, set[str]], training: TrainingData
) -> Iterator[Contamination]:
    dev = dict[str, set[str]]()
    for name in training.dev.tasks:
        if name != "transfer_dev":
            try:
                texts = _list_dev_texts(training, name)
            except DataError as problem:
                _log.warning("sentences of the dev set %s are not counted: %s", name, problem)
            else:
                dev[name] = {*map(sentence_key, texts)} - {""}
    wanted = {**of_tests} | {("dev", name): keys for name, keys in dev.items()}
    yield from _count_in_corpora(_IN_CORPUS, training.corpora, training, wanted)
    declared = [declared_training(teacher) for teacher in training.teachers]
    known = dict.fromkeys(one.corpus for one in declared if one and one.corpus)
    taught = tuple(CorpusSpec(name=name, columns=KNOWN[name].columns) for name in known)
    yield from _count_in_corpora(_IN_TEACHERS, taught, training, wanted)
    own = sorted(name for name in training.dev.tasks if name in training.dev.files)
    if own and dev.keys() >= set(own):
        yield from _count_seen_sentences(
            _IN_DEV, own, set().union(*(dev[name] for name in own)), of_tests
        )


def _list_dev_texts(training: TrainingData, name: str) -> list[str]:
    if reference := training.dev.references.get(name):
        return ReferencedSet(reference).texts
    pairs = load_dev_pairs(training.dev, name, training.data)
    return [*pairs.first, *pairs.second]


def _count_in_corpora(
    metric: str,
    corpora: tuple[CorpusSpec, ...],
    training: TrainingData,
    wanted: Mapping[SetName, set[str]],
) -> Iterator[Contamination]:
    """Count in these corpora together; count nothing if one of them cannot be read here."""
    if not corpora:
        return
    whole = tuple(spec.model_copy(update={"split_at": None}) for spec in corpora)
    names = [spec.short_name for spec in corpora]
    everything, seen = set().union(*wanted.values()), set[str]()
    try:
        if missing := missing_corpora(whole, training.data):
            raise DataError(f"{'; '.join(missing)} is not here; `cse-data fetch` gets it")
        for spec in whole:  # separately, because those of teachers can differ in their columns
            corpus = load_corpus([spec], training.data)
            texts = chain.from_iterable(corpus.columns or (corpus.sentences,))
            # A corpus can have a million keys, so only those of the sets are kept.
            seen |= {key for text in texts if (key := sentence_key(text)) in everything}
    except DataError as problem:
        _log.warning("test and dev sentences in %s are not counted: %s", "+".join(names), problem)
        return
    yield from _count_seen_sentences(metric, names, seen, wanted)


def _count_seen_sentences(
    metric: str, names: list[str], seen: AbstractSet[str], wanted: Mapping[SetName, set[str]]
) -> Iterator[Contamination]:
    for (split, task), keys in wanted.items():
        settings = {
            "task": task,
            "protocol": {"share of": "different sentences, by their letters and digits"},
            "in": names,
            "sentences": len(keys),
            "sentences_sha256": sha256("\n".join(sorted(keys)).encode()).hexdigest(),
        }
        yield Contamination(task, split, metric, len(keys & seen), settings)
