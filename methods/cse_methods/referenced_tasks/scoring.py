"""Scores an encoder on a task of mteb, and gives the values by example behind its main score."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.metrics import spearman
from cse_methods.referenced_tasks.adapter import TaskEncoder, progress_hidden, streams_kept
from cse_methods.tasks import Statistic

_SAME = 1e-4
"""mteb rounds the means of retrieval to five digits; below this difference two scores are one."""
_PER_QUERY = {
    **{"ndcg_at_": "ndcg_cut_", "map_at_": "map_cut_", "recall_at_": "recall_"},
    **{"precision_at_": "P_", "hit_rate_at_": "success_"},
}
"""The names of trec_eval's metrics of a query, by those of mteb's means."""
_SOURCES = {"similarity_scores": 1, "cosine_scores": 1, "dot_scores": 1}
_SOURCES |= {"manhattan_distances": -1, "euclidean_distances": -1}
"""What ranks the pairs of a pair classification, the largest average precision of which is its
score; the signs of similarities and distances."""

_Values = tuple[Statistic, NDArray[np.float32], NDArray[np.float64] | None]
"""A statistic, the values of which it is one, and their gold scores or labels."""


@dataclass(frozen=True, eq=False)
class ExampleValues:
    """A value for every example of a task; the attributes are those of `Examples`."""

    statistic: Statistic
    values: NDArray[np.float32]
    gold: NDArray[np.float64] | None
    subsets: Mapping[str, int]


def score_task(
    task: Any, encoder: TaskEncoder, splits: Sequence[str]
) -> tuple[float, ExampleValues | None]:
    """Score an encoder on splits of a task whose data is loaded. Changes no random stream.

    Args:
        task: a task object of mteb that has scored nothing yet; a second score can differ.
        encoder: the encoder.
        splits: the splits to score, mostly one.

    Returns:
        The mean of the task's main score over splits and subsets, as mteb's; and the values by
        example, if their statistic is that score. Clustering has none, nor has a task with subsets
        of unlike sizes.

    Raises:
        EvaluationError: if a vector is not finite.
    """
    from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining

    together = isinstance(task, AbsTaskBitextMining)  # its subsets share sentences
    batches = [task.hf_subsets] if together else [[subset] for subset in task.hf_subsets]
    scores, parts = list[float](), dict[str, _Values | None]()
    options = {"show_progress_bar": False}
    with streams_kept(), progress_hidden():
        for split, subsets in product(splits, batches):
            values_of = _record_values(task)
            scored = task.evaluate(encoder, split, subsets_to_run=subsets, encode_kwargs=options)
            scores += [float(each["main_score"]) for each in scored.values()]
            parts["/".join((split, *subsets))] = values_of()
    value = float(np.mean(scores))
    return value, _join(parts, value)


def _record_values(task: Any) -> Callable[[], _Values | None]:
    """Make the task record what it scores next. Returns a function that gives the values."""
    from mteb.abstasks import (
        AbsTaskClassification,
        AbsTaskPairClassification,
        AbsTaskRetrieval,
        AbsTaskSTS,
    )

    metric = task.metadata.main_score
    seen = defaultdict[str, list[Any]](list)

    def record(method: str) -> None:
        original = getattr(type(task), method).__get__(task)

        def call(*arguments: Any, **named: Any) -> Any:
            seen[method].append(arguments)
            return original(*arguments, **named)

        setattr(task, method, call)

    if isinstance(task, AbsTaskRetrieval):
        record("task_specific_scores")

        def values() -> _Values | None:
            [(by_query, *_)] = seen["task_specific_scores"]
            start, _, depth = metric.rpartition("_")
            name = f"{_PER_QUERY.get(f'{start}_')}{depth}"
            known = [scores.get(name) for _, scores in sorted(by_query.items())]
            return None if None in known else ("mean", np.array(known, np.float32), None)

    elif isinstance(task, AbsTaskSTS) and metric == "cosine_spearman":
        record("_calculate_scores")

        def values() -> _Values | None:
            [(scores, normalized)] = seen["_calculate_scores"]
            gold = task.min_score + np.array(normalized) * (task.max_score - task.min_score)
            return "spearman", np.array(scores["cosine_scores"], np.float32), gold

    elif isinstance(task, AbsTaskPairClassification) and metric.endswith("_ap"):
        record("_compute_metrics")

        def values() -> _Values | None:
            [(scores, labels)] = seen["_compute_metrics"]
            gold = np.array(labels, np.float64)
            ranked = [np.array(scores[name], np.float32) * sign for name, sign in _SOURCES.items()]
            best = max(ranked, key=lambda each: _compute("average_precision", each, gold))
            return "average_precision", best, gold

    elif isinstance(task, AbsTaskClassification) and metric == "accuracy":
        record("_calculate_scores")

        def values() -> _Values | None:
            if task.is_cross_validation:
                return None  # the texts of each fold are others
            right = [np.equal(labels, guesses) for labels, guesses in seen["_calculate_scores"]]
            return "mean", np.mean(right, axis=0, dtype=np.float32), None

    else:

        def values() -> _Values | None:
            return None

    return values


def _join(parts: Mapping[str, _Values | None], value: float) -> ExampleValues | None:
    """Join the values of all subsets; None if one has none, or their statistic is another score."""
    known = [part for part in parts.values() if part is not None]
    if len(known) < len(parts):
        return None
    statistic = known[0][0]
    values = np.concatenate([values for _, values, _ in known])
    golds = [gold for _, _, gold in known if gold is not None]
    gold = np.concatenate(golds) if golds else None
    if not abs(_compute(statistic, values, gold) - value) <= _SAME:
        return None
    sizes = {name: len(part[1]) for name, part in zip(parts, known, strict=True)}
    return ExampleValues(statistic, values, gold, sizes)


def _compute(
    statistic: Statistic, values: NDArray[np.float32], gold: NDArray[np.float64] | None
) -> float:
    if gold is None:
        return float(np.mean(values, dtype=np.float64))
    if statistic == "spearman":
        return spearman(values, gold)
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(gold, values))
