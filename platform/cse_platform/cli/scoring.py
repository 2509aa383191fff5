"""What `cse-evaluate` does: find the encoder, score it, and record it if it is a trial's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cse_methods.contract import Pooler
from cse_methods.evaluation.availability import missing_tests
from cse_methods.evaluation.embeddings import Progress as Told
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.models import open_model
from cse_methods.evaluation.results import Evaluation
from cse_methods.tasks import Tasks
from cse_methods.transfer.protocol import TransferProtocol
from cse_platform.cli.common import RUNS
from cse_platform.errors import NoStoreError, StoreError
from cse_platform.leaderboard.evaluations import TrialRef, find_trial, trial_of_model
from cse_platform.leaderboard.store import Leaderboard, open_leaderboard
from cse_platform.leaderboard.trials import sweep_spec
from cse_platform.releases import release
from cse_platform.sweep.stores import mlflow_uri
from cse_platform.tracking.mlflow_mirror import MLflowMirror

KEY = re.compile(r"[0-9a-f]{6,64}")
"""A trial's key, or how it begins; a folder of that name goes before."""


@dataclass(frozen=True)
class Request:
    """What is asked of which encoder."""

    model: str
    tasks: Tasks
    data: str | None
    pooler: Pooler | None
    max_length: int | None
    slicing_length: int | None
    protocol: TransferProtocol


def scored(request: Request, *, leaderboard: str, runs: Path | None) -> Evaluation:
    """Score an encoder; the test sets of a trial are opened on record.

    Args:
        request: what is asked.
        leaderboard: URL of the store that knows trials; there may be none.
        runs: folder of the journals and of an embedded MLflow store.

    Raises:
        CseError: if the encoder, the data or a store cannot be had.
    """
    for line in missing_tests(request.tasks, request.data):
        click.echo(f"to fetch: {line}", err=True)
    if (board := _known(leaderboard, request.model)) is None:
        return _score(request, request.model)
    with board:
        trial = _trial(board, request.model)
        if trial is None:
            return _score(request, request.model)
        return _score_trial(request, trial, board, runs or RUNS)


def _known(url: str, model: str) -> Leaderboard | None:
    """The leaderboard that may know this model; None where there is none to ask."""
    try:
        return open_leaderboard(url, create=False)
    except NoStoreError as problem:
        if not _is_key(model):
            return None
        raise NoStoreError(f"{model!r} is no folder; as the key of a trial: {problem}") from problem


def _is_key(model: str) -> bool:
    return bool(KEY.fullmatch(model)) and not Path(model).exists()


def _trial(board: Leaderboard, model: str) -> TrialRef | None:
    with board.session() as session:
        if _is_key(model):
            return find_trial(session, model)
        folder = Path(model).expanduser()
        return trial_of_model(session, str(folder.absolute())) if folder.is_dir() else None


def _score_trial(request: Request, trial: TrialRef, board: Leaderboard, runs: Path) -> Evaluation:
    if trial.model is None:
        raise StoreError(
            f"trial {trial.key[:16]} kept no checkpoint; only a complete trial's can be scored"
        )
    with board.session() as session:
        spec = sweep_spec(session, trial.sweep) or {}
    runs = runs.absolute()
    mirror = MLflowMirror(
        mlflow_uri(runs), experiment=spec.get("experiment", "cse"), artifacts=runs / "artifacts"
    )
    journal = runs / "evaluations" / f"{trial.key[:16]}.jsonl"
    with release(trial, request.tasks, leaderboard=board, mlflow=mirror, journal=journal) as record:
        evaluation = _score(request, trial.model)
        for sink in record(evaluation):
            click.echo(f"{sink.name} lacks the scores yet ({sink.error})", err=True)
    return evaluation


def _score(request: Request, model: str) -> Evaluation:
    opened = open_model(
        model,
        pooler=request.pooler,
        max_length=request.max_length,
        slicing_length=request.slicing_length,
    )
    with _progress() as told:
        return evaluate(
            opened, request.tasks, data=request.data, protocol=request.protocol, progress=told
        )


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    told = TextColumn("{task.description}")
    columns = (told, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("loading", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total
        )
