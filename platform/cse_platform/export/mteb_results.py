"""Writes a trial's scores on tasks of mteb as files of results, which mteb's own cache loads."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cse_methods.referenced_tasks.library import make_task
from cse_methods.referenced_tasks.scoring import compute_statistic
from cse_methods.task_reference import is_reference, parse_reference
from cse_platform.errors import NotFoundError, QueryError
from cse_platform.export.folders import make_empty
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.numbers import HASH_DIGITS
from cse_platform.tracking.events import TrialScore


def write_mteb_results(
    url: str, trial: str, folder: Path, *, model: str
) -> tuple[list[str], list[str]]:
    """Write the test scores of a trial on tasks of mteb into a new or empty folder.

    mteb.ResultCache(folder) loads them, under the trial's key as the model's revision.

    Args:
        url: of the leaderboard.
        trial: as `find_one_trial` takes it.
        folder: the cache folder; the files go below `results/` there.
        model: the model's name, such as `my-lab/simcse-mini`.

    Returns:
        The tasks that are written, and those that are left out: of several subsets or splits,
        their mean alone is stored.

    Raises:
        EvaluationError: if mteb is not installed, or lacks a task.
        NotFoundError: if the trial has no such scores.
        OutputError: if the folder is not empty.
    """
    by_task: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    left_out = []
    with open_leaderboard(url) as board:
        details = board.trial(trial)
        scores = {s.task: s for s in details.scores if s.split == "test" and is_reference(s.task)}
        settings = board.settings([score.identity for score in scores.values()])
        for task, score in scores.items():
            protocol = settings[score.identity]["protocol"]
            if "splits" in protocol:
                values = dict(_split_score(board, details.key, score, protocol))
                for (split, subset), value in values.items():
                    named = {"main_score": value, protocol["metric"]: value}
                    by_task[parse_reference(task).name][split][subset] = named
                left_out += [] if values else [task]
    if not by_task:
        key = details.key[:HASH_DIGITS]
        raise NotFoundError(
            f"trial {key} has no scores of single tasks of mteb; cse-evaluate {key} --tasks "
            "mteb:NAME adds some"
        )
    tasks = {name: make_task(parse_reference(f"mteb:{name}")) for name in by_task}
    from mteb.cache import ResultCache
    from mteb.models.model_meta import ModelMeta
    from mteb.results import TaskResult

    make_empty(folder)
    meta = ModelMeta.create_empty({"name": model, "revision": details.key})
    for name, parts in by_task.items():
        result = TaskResult.from_task_results(tasks[name], parts, evaluation_time=None)
        ResultCache(folder).save_to_cache(result, meta)
    return list(by_task), left_out


def _split_score(
    board: Leaderboard, trial: str, score: TrialScore, protocol: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the score of each split and subset; nothing if their mean alone is stored."""
    splits, subsets = protocol["splits"], protocol["subsets"]
    if len(splits) == len(subsets) == 1:
        yield (splits[0], subsets[0]), score.value
        return
    try:
        examples = board.examples(trial, score.task, score.identity)
    except QueryError:
        return
    ends = np.cumsum([*examples.subsets.values()])[:-1]
    golds: Any = [None] * len(examples.subsets)
    golds = golds if examples.gold is None else np.split(examples.gold, ends)
    values = np.split(examples.values, ends)
    for name, own, gold in zip(examples.subsets, values, golds, strict=True):
        split, _, subset = name.partition("/")
        yield (split, subset), compute_statistic(examples.statistic, own, gold)
