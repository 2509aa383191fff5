"""Scores an encoder on a task of mteb, and gives the values by example behind its main score."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.metrics import spearman
from cse_methods.referenced_tasks.adapter import TaskEncoder, progress_hidden, streams_kept
from cse_methods.referenced_tasks.ranking import find_measure
from cse_methods.tasks import Statistic

_SAME = 1e-4
"""mteb rounds the means of retrieval to five digits; below this difference two scores are one."""

_Gold = NDArray[np.float64] | None
_Values = tuple[NDArray[np.float32], _Gold]
"""The values of a subset's examples, and their gold scores or labels."""


ExampleValues = tuple[Statistic, NDArray[np.float32], _Gold, Mapping[str, int]]
"""A value for every example of a task: the statistic, values, gold and subsets of `Examples`."""


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
        example, if their statistic is that score. Clustering has none, nor has a mean of
        correlations or of subsets of unlike sizes.

    Raises:
        EvaluationError: if a vector is not finite.
    """
    ancestors = [ancestor.__name__ for ancestor in type(task).__mro__]
    known = next((_RECORDED[name] for name in ancestors if name in _RECORDED), None)
    together = "AbsTaskBitextMining" in ancestors  # its subsets share sentences
    batches = [task.hf_subsets] if together else [[subset] for subset in task.hf_subsets]
    scores, parts = list[float](), dict[str, _Values | None]()
    options = {"show_progress_bar": False}
    with streams_kept(), progress_hidden():
        for split, subsets in product(splits, batches):
            calls = _record_calls(task, known[1]) if known else []
            scored = task.evaluate(encoder, split, subsets_to_run=subsets, encode_kwargs=options)
            scores += [float(each["main_score"]) for each in scored.values()]
            parts["/".join((split, *subsets))] = known[2](task, calls) if known else None
    value = float(np.mean(scores))
    if known is None or None in parts.values():
        return value, None
    found = {name: part for name, part in parts.items() if part is not None}
    values = np.concatenate([values for values, _ in found.values()])
    golds = [gold for _, gold in found.values() if gold is not None]
    gold = np.concatenate(golds) if golds else None
    if not abs(compute_statistic(known[0], values, gold) - value) <= _SAME:
        return value, None
    sizes = {name: len(part[0]) for name, part in found.items()}
    return value, (known[0], values, gold, sizes)


def _record_calls(task: Any, method: str) -> list[tuple[Any, ...]]:
    """Make a task record the arguments of a method of its class. Returns the growing list."""
    original, calls = getattr(type(task), method).__get__(task), list[tuple[Any, ...]]()

    def record(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return original(*arguments, **named)

    setattr(task, method, record)
    return calls


def _read_queries(task: Any, calls: Any) -> _Values | None:
    """Read the main score of each query; None if trec_eval does not compute it for one."""
    measure = find_measure(task.metadata.main_score)
    if measure is None:
        return None
    [(by_query, *_)] = calls
    found = [scores["_".join(map(str, measure))] for _, scores in sorted(by_query.items())]
    return np.array(found, np.float32), None


def _read_pairs(task: Any, calls: Any) -> _Values:
    """Read the cosine and the gold score of each pair."""
    [(scores, normalized)] = calls
    gold = task.min_score + np.array(normalized) * (task.max_score - task.min_score)
    return np.array(scores["cosine_scores"], np.float32), gold


def _read_labelled_pairs(task: Any, calls: Any) -> _Values:
    """Read the similarity of each pair by the measure with the largest average precision."""
    [(scores, labels)] = calls
    gold = np.array(labels, np.float64)
    signs = {name: -1 if name.endswith("distances") else 1 for name in scores}
    ranked = [np.array(scores[name], np.float32) * sign for name, sign in signs.items()]
    return max(ranked, key=lambda each: compute_statistic("average_precision", each, gold)), gold


def _read_guesses(task: Any, calls: Any) -> _Values | None:
    """Read the share of classifiers that are right about each text."""
    if task.is_cross_validation:
        return None  # the texts of each fold are others
    right = [np.equal(labels, guesses) for labels, guesses in calls]
    return np.mean(right, axis=0, dtype=np.float32), None


_RECORDED: dict[str, tuple[Statistic, str, Callable[[Any, Any], _Values | None]]] = {
    "AbsTaskRetrieval": ("mean", "task_specific_scores", _read_queries),
    "AbsTaskSTS": ("spearman", "_calculate_scores", _read_pairs),
    "AbsTaskPairClassification": ("average_precision", "_compute_metrics", _read_labelled_pairs),
    "AbsTaskClassification": ("mean", "_calculate_scores", _read_guesses),
}
"""The statistic of each kind of task, the method that gets the values, and how they are read."""


def compute_statistic(statistic: Statistic, values: NDArray[np.float32], gold: _Gold) -> float:
    """Compute a score from the values by example and their gold scores, which a mean lacks."""
    if gold is None:
        return float(np.mean(values, dtype=np.float64))
    if statistic == "spearman":
        return spearman(values, gold)
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(gold, values))
