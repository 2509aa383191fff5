"""Scores encoders during training on a task named by a reference, from its snapshot or own files.

Ranked documents are scored here, because mteb takes longer to score a few than an encoder to read
them; all else is scored by mteb.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cse_methods.referenced_tasks.adapter import TaskEncoder
from cse_methods.referenced_tasks.library import load_task, make_task
from cse_methods.referenced_tasks.own_files import OWN_METRICS
from cse_methods.referenced_tasks.ranking import Embed, RankedDocuments, find_measure
from cse_methods.referenced_tasks.scoring import score_task
from cse_methods.referenced_tasks.snapshots import read_rows, with_snapshot
from cse_methods.task_reference import Reference

_TEXT_COLUMNS = ("sentence1", "sentence2", "sentences", "text")
"""Columns whose texts are encoded together with those of all dev sets; others are, when asked."""


class ReferencedSet:
    """The rows of a task to develop on, read once. Changes no random stream.

    DataError if they are not here, or have another checksum than the reference.
    """

    def __init__(self, reference: Reference) -> None:
        self.task, self._reference = reference.task, with_snapshot(reference)
        self._rows = read_rows(self._reference)
        self._ranked = tuple(_list_ranked_documents(reference, self._rows))

    @property
    def texts(self) -> list[str]:
        """The known texts that an encoder reads, each once."""
        ranked = [text for one in self._ranked for text in one.texts]
        return list(dict.fromkeys(ranked or _iterate_texts(self._rows)))

    def score(self, embed: Embed) -> float:
        """Compute the task's main score, the mean over subsets.

        It is nan if vectors of ranked texts are not finite; of others, that is an EvaluationError.
        """
        if self._ranked:
            return sum(one.score(embed) for one in self._ranked) / len(self._ranked)
        task, splits = load_task(self._reference, self._rows)
        return score_task(task, TaskEncoder(embed), splits)[0]


def _list_ranked_documents(
    reference: Reference, rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[RankedDocuments]:
    """Yield the documents of each subset, if the task is one that ranks single texts."""
    folders = [name.removesuffix("/corpus") for name in rows if name.endswith("/corpus")]
    if not folders:
        return
    metric, ignore = OWN_METRICS.get(reference.kind, ""), False
    if not reference.is_own:
        task = make_task(reference)
        metric, ignore = task.metadata.main_score, task.ignore_identical_ids
        if task.skip_first_result or "instruction" in rows[f"{folders[0]}/queries"][0]:
            return
    measure = find_measure(metric)
    if measure is None:
        return
    for folder in folders:
        corpus, queries, relevant = (
            rows[f"{folder}/{part}"] for part in ("corpus", "queries", "relevant_docs")
        )
        candidates = rows.get(f"{folder}/top_ranked")
        yield RankedDocuments(
            corpus, queries, relevant, candidates, measure, ignore_identical=ignore
        )


def _iterate_texts(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for row in (row for of_part in rows.values() for row in of_part):
        for name in _TEXT_COLUMNS:
            value = row.get(name, ())
            yield from [value] if isinstance(value, str) else value
