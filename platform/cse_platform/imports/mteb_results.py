"""Attaches files of results that mteb has written to a trial, as scores of their own identity."""

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from cse_methods.errors import EvaluationError
from cse_methods.referenced_tasks.library import find_test_splits, import_mteb, make_task
from cse_methods.task_reference import parse_reference
from cse_methods.tasks import MAIN_SCORE
from cse_platform.databases import expand_url
from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.records import CLAIMED
from cse_platform.leaderboard.trials import find_one_trial
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import joined_problems, problems_in
from cse_platform.sweep.stores import evaluations_journal
from cse_platform.tracking.events import IMPORTED, TrialEvaluated, TrialScore
from cse_platform.tracking.journal import Journal, read_journal

_BESIDE = "model_meta.json"
"""The file beside results that describes the model."""


def import_mteb_results(
    results: Path, *, trial: str, runs: Path, store: str
) -> tuple[int, int, bool]:
    """Attach the results of one revision of a model to a trial.

    They are marked as claimed unless their revision is the trial's key, as in results that were
    exported. A second import adds only what is new.

    Args:
        results: the folder of one revision, or one above it.
        trial: as `find_one_trial` takes it.
        runs: the runs folder that gets them in the trial's journal of evaluations.
        store: the URL of the leaderboard.

    Returns:
        How many scores are new, how many were known, and whether they are claimed.

    Raises:
        ImportRefusedError: if there is no such folder, or it has no results, or those of several
            revisions, or a file is none of mteb's, or not about test splits of a task that mteb
            knows.
        EvaluationError: if mteb is not installed.
    """
    import_mteb()
    if not results.is_dir():
        raise ImportRefusedError(f"{results}: there is no such folder")
    files = sorted(file for file in results.rglob("*.json") if file.name != _BESIDE)
    folders = sorted({str(file.parent) for file in files})
    if len(folders) != 1:
        got = f"those of several: {', '.join(folders)}" if folders else "none"
        raise ImportRefusedError(
            f"{results}: expected the results of one revision of a model, got {got}"
        )
    with open_store(expand_url(store), create=False) as board:
        with board.session() as session:
            target = find_one_trial(session, trial)
        is_claimed = Path(folders[0]).name != target.key
        source = CLAIMED if is_claimed else IMPORTED
        read = [_read_result(file, source) for file in files]
        journal = evaluations_journal(runs.absolute(), target.key)
        earlier = [event for _, event in read_journal(journal)] if journal.exists() else []
        known = {
            (score.identity, score.value)
            for event in earlier
            if isinstance(event, TrialEvaluated) and event.trial == target.key
            for score in event.scores
        }
        new = [result for result in read if (result[0].identity, result[0].value) not in known]
        if new:
            event = TrialEvaluated(
                sweep=target.sweep,
                trial=target.key,
                tasks=tuple(sorted(score.task for score, _ in new)),
                settings=source,
                source=source,
                scores=tuple(score for score, _ in new),
                examples=(),
                identities={score.identity: settings for score, settings in new},
                seconds={},
            )
            with Journal(journal) as written:
                written.append(event)
        if journal.exists():
            apply_journal(LeaderboardSink(board), journal)
    return len(new), len(read) - len(new), is_claimed


def _read_result(file: Path, source: str) -> tuple[TrialScore, dict[str, Any]]:
    """Read a file of results: the score on the task's test splits, and the settings behind it."""
    from mteb.results import TaskResult

    try:
        result = TaskResult.from_disk(file)
        task = make_task(parse_reference(f"mteb:{result.task_name}"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EvaluationError) as error:
        reason = str(error).partition(os.linesep)[0]
        if isinstance(error, KeyError | ValidationError):
            data = json.loads(file.read_bytes())
            try:  # KeyErrors are of the older form, which mteb tries where this one does not fit
                TaskResult.model_validate(data)
            except ValidationError as misfit:
                reason = joined_problems(problems_in(misfit, data))
        raise ImportRefusedError(f"{file}: not a result of a task of mteb: {reason}") from error
    splits = [split for split in find_test_splits(task) if split in result.scores]
    entries = [entry for split in splits for entry in result.scores[split]]
    values = [float(entry["main_score"]) for entry in entries]
    if not values or not all(-1 <= value <= 1 for value in values):
        raise ImportRefusedError(
            f"{file}: expected scores from -1 to 1 on {', '.join(find_test_splits(task))}, got "
            f"{', '.join(map(str, values)) or 'none'}"
        )
    subsets = sorted({entry["hf_subset"] for entry in entries})
    name = f"mteb:{result.task_name}"
    if set(subsets) != set(task.metadata.hf_subsets):
        name = "/".join((name, *subsets))
    settings = {
        "task": name,
        "source": source,
        "protocol": {"metric": task.metadata.main_score, "subsets": subsets, "read": splits},
        "data set": result.dataset_revision,
        "versions": {"mteb": str(result.mteb_version)},
    }
    own = {"task": name, "split": "test", "metric": MAIN_SCORE, "value": fmean(values)}
    return TrialScore.model_validate({**own, "identity": canonical_hash(settings)}), settings
