"""Reads the test scores of recorded runs, and adds them to runs that are complete."""

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_platform.databases import expand_url
from cse_platform.errors import RecordingError
from cse_platform.stores.recording import fill_leaderboard, left_out_told, start_filling
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.stores import JOURNAL_FILE, import_journal, sweep_folder
from cse_platform.tracking import events
from cse_platform.tracking.history import TrialHistory
from cse_platform.tracking.journal import read_journal_id, share_journal
from cse_platform.tracking.our_names import find_task
from cse_platform.tracking.recorded_runs import (
    AVERAGE_ROUNDING,
    RecordedRuns,
    average_families,
    make_evaluation,
)


def record_scores(trial: str, scores: Mapping[str, float], *, runs: Path | str = "runs") -> None:
    """Add test scores to a complete run that `record` has recorded, from any process.

    The averages of families count the scores that the run has already; one that is given must agree
    with its tasks to 0.0001. A score that the run has is replaced. If the leaderboard
    has another sweep of the name, it leaves the scores out, and a line on stderr says so.

    Args:
        trial: the run, as SWEEP#N or by its key, `run.trial`.
        scores: the scores by task, such as `{"sts12": 0.7012}`; fractions.
        runs: the runs folder.

    Raises:
        RecordingError: if the folder has no such run, the trial is not recorded or not complete, a
            task is unknown, a score is no fraction or an average not that of its tasks; nothing is
            added then.
        JournalError: if the journal cannot be used.
    """
    recorded, run = _find_run(trial, Path(expand_url(str(runs))).absolute())
    numbers, problems = read_scores(scores, recorded.scores[run.key])
    if problems or not numbers:
        told = "; ".join(problems.values())
        raise RecordingError(told or "scores: got none, expected at least one")
    journal = recorded.journal
    with share_journal(journal) as append:
        recorded.read_on()  # others may have added scores
        append(
            make_recorded_scores(
                numbers,
                recorded.scores[run.key],
                group=read_journal_id(journal),
                sweep=journal.parent.name,
                trial=run.key,
            )
        )
    start_filling(journal)
    with left_out_told(journal):
        fill_leaderboard(journal)


def read_scores(
    scores: Mapping[str, float], earlier: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, str]]:
    """Read test scores by task, of a run with `earlier` ones.

    Returns them, and what is wrong with each of the others.
    """
    numbers, problems = dict[str, float](), dict[str, str]()
    for task, value in scores.items():
        try:
            numbers[task] = _read_score(task, value)
        except RecordingError as error:
            problems[task] = str(error)
    for average, mean in average_families({**earlier, **numbers}).items():
        if abs(numbers.get(average, mean) - mean) > AVERAGE_ROUNDING:
            problems[average] = (
                f"{average}: got {numbers.pop(average):.12g}, and its tasks' mean is {mean:.4f}"
            )
    return numbers, problems


def read_number(label: str, value: Any) -> float:
    """Read a number, also one of NumPy or torch; RecordingError if it is a truth value or text."""
    problem = RecordingError(f"{label}: got {value!r}, expected a number")
    try:
        plain = value.item() if hasattr(value, "item") else value
        number = float(plain)
    except (TypeError, ValueError, RuntimeError):
        raise problem from None
    if isinstance(plain, bool | str):
        raise problem
    return number


def make_recorded_scores(
    scores: Mapping[str, float], earlier: Mapping[str, float], **of_trial: Any
) -> events.TrialEvaluated:
    """Make the event of a recorded run's test scores, with the averages of families.

    `earlier` are the scores that it has already, and `of_trial` the other fields of the event.
    """
    averages = average_families({**earlier, **scores})
    return make_evaluation({**averages, **scores}, source=events.RECORDED, **of_trial)


def _read_score(task: str, value: Any) -> float:
    """Read the test score of a task."""
    if task not in events.TASK_METRICS:
        known = events.TASK_METRICS
        hint = did_you_mean(find_task(str(task)) or str(task), known)
        hint = hint or f"; expected one of {', '.join(known)}"
        raise RecordingError(f"scores: no task {task!r} is known{hint}")
    number = read_number(f"scores[{task!r}]", value)
    if not -1 <= number <= 1:
        hint = f"; did you mean {number / 100:.12g}?" if abs(number) <= 100 else ""
        raise RecordingError(f"{task}: got {number:.12g}, expected a fraction from -1 to 1{hint}")
    return number


def _find_run(trial: str, runs: Path) -> tuple[RecordedRuns, TrialHistory]:
    """Find a complete recorded run and those of its journal, by SWEEP#N or by its key.

    Raises RecordingError if the folder has no such trial, or it is of another kind or not complete.
    """
    sweep = trial.rpartition("#")[0]
    pattern = glob.escape(sweep) or "*"
    places = sweep_folder(Path(), pattern) / JOURNAL_FILE, import_journal(Path(), pattern)
    for journal in (journal for place in places for journal in sorted(runs.glob(str(place)))):
        if not sweep and not _has_text(journal, trial):
            continue
        recorded = RecordedRuns(journal)
        history = recorded.read_on()
        trials = {f"{sweep}#{each.number}": each for each in history.trials.values()}
        if (run := (trials | history.trials).get(trial)) is None:
            continue
        source = (history.spec or {}).get("source")
        if source == events.IMPORTED:
            raise RecordingError(
                f"{trial} was imported, expected a recorded run; import its table again, with the "
                "scores in its columns test.TASK"
            )
        if source != events.RECORDED:
            raise RecordingError(
                f"{trial} is a trial of cse-sweep, expected a recorded run; cse-evaluate {trial} "
                "scores it"
            )
        if run.state != "COMPLETE":
            why = "has not ended" if run.state == "RUNNING" else f"has failed ({run.error})"
            raise RecordingError(f"{trial} {why}, and only complete runs get test scores")
        return recorded, run
    raise RecordingError(
        f"no sweep in {runs} has a trial {trial!r}; expected SWEEP#N or the key of a recorded run, "
        "run.trial, in the folder that runs= names"
    )


def _has_text(journal: Path, text: str) -> bool:
    """Return whether a journal has a text, which takes much less time than to read its events."""
    with journal.open("rb") as file:
        return any(text.encode() in line for line in file)
