"""Fill the leaderboard and MLflow from all journals of a runs folder, each from its cursor.

A driver does this for its own sweep. This module is for stores that were restored from an older
copy, and sweeps that are never started again. A search store is filled when its sweep is started.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cse_platform.control.annotations import annotations_journal, replay_annotations
from cse_platform.errors import JournalError, NotFoundError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import Store, open_store
from cse_platform.leaderboard.stored_sweeps import find_sweep
from cse_platform.recompute import JOURNAL
from cse_platform.sweep.stores import JOURNAL_FILE, has_mlflow, mlflow_uri
from cse_platform.tracking.events import SweepStarted
from cse_platform.tracking.journal import (
    Journal,
    compressed_journal,
    has_journal,
    is_archived,
    read_journal,
    read_journal_id,
)
from cse_platform.tracking.mlflow.mirror import MLflowMirror
from cse_platform.tracking.recorder import Recorder, Sink, SinkHealth

EXPERIMENT = "cse"
PATIENCE = 10.0
"""Seconds between two checks of whether the stores make progress."""


def catch_up(
    url: str, runs: Path, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[str]:
    """Apply to the stores what they lack of each journal. Returns a line for each that still lags.

    A journal that a driver has open is left to that driver.

    Args:
        url: the URL of the leaderboard, which is created if it does not exist.
        runs: the folder whose journals are read.
        progress: called with the number of journals done, and the total.

    Raises:
        StoreError: if the leaderboard cannot be opened.
    """
    lines: list[str] = []
    with open_store(url) as board:
        paths = [*_list_journals(runs)]
        experiments = set()
        for number, path in enumerate(paths):
            progress(number, len(paths))
            try:
                experiment = _find_experiment(board, path)
                experiments.add(experiment)
                if is_archived(path):
                    lines += _check_archived(board, path)
                    continue
                is_alone = path.name == JOURNAL or path.parent.name == "imports"
                mirror = [] if is_alone else _open_mirror(runs, experiment)
                lines += _apply_journal(path, [LeaderboardSink(board), *mirror])
            except JournalError as error:
                lines.append(str(error))
        progress(len(paths), len(paths))
    for experiment in sorted(experiments):
        try:
            behind = replay_annotations(url, runs, experiment)
        except JournalError as error:
            lines.append(str(error))
        else:
            lines += _describe_behind(annotations_journal(runs), behind)
    return lines


def _list_journals(runs: Path) -> Iterator[Path]:
    """Yield the journals of sweeps, then those of evaluations, which refer to trials of sweeps."""
    places = (folder / JOURNAL_FILE for folder in sorted(runs.glob("sweeps/*")))
    yield from filter(has_journal, places)
    yield from sorted(runs.glob("imports/*.jsonl"))
    yield from sorted(runs.glob("evaluations/*.jsonl"))


def _check_archived(board: Store, path: Path) -> list[str]:
    """Say what to do if the leaderboard lacks events of an archived sweep."""
    position = LeaderboardSink(board).position(read_journal_id(path))
    lacking = sum(1 for _ in read_journal(path, offset=position))
    if not lacking:
        return []
    return [
        f"{compressed_journal(path)}: leaderboard lacks {lacking} events (its sweep is archived); "
        "uncompress it by gunzip, give this command again, and archive the sweep again"
    ]


def _find_experiment(board: Store, path: Path) -> str:
    """Find the MLflow experiment of the sweep in a journal."""
    for _, event in read_journal(path):
        if isinstance(event, SweepStarted):
            return str(event.spec.get("experiment", EXPERIMENT))
        with suppress(NotFoundError), board.session() as session:
            return str(find_sweep(session, event.sweep).spec.get("experiment", EXPERIMENT))
    return EXPERIMENT


def _open_mirror(runs: Path, experiment: str) -> list[Sink]:
    """Open the MLflow store that the environment names or that is in the folder, if any."""
    if not has_mlflow(runs):
        return []
    artifacts = runs.absolute() / "artifacts"
    return [MLflowMirror(mlflow_uri(runs), experiment=experiment, artifacts=artifacts)]


def _apply_journal(path: Path, sinks: Sequence[Sink]) -> list[str]:
    """Apply a journal to the stores for as long as one of them makes progress."""
    recorder = Recorder(Journal(path), sinks)
    try:
        before: list[SinkHealth] = []
        while (behind := _find_behind(recorder)) and behind != before:
            if all(sink.error for sink in behind):
                break
            before = behind
    finally:
        recorder.close(0)
    return _describe_behind(path, behind)


def _describe_behind(path: Path, behind: Sequence[SinkHealth]) -> list[str]:
    return [f"{path}: {sink.name} lacks {sink.behind} events ({sink.error})" for sink in behind]


def _find_behind(recorder: Recorder) -> list[SinkHealth]:
    return [sink for sink in recorder.flush(PATIENCE) if sink.behind]
