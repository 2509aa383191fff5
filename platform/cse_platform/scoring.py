"""Find an encoder and score it, and record the scores if it is a trial's, for `cse-evaluate`."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cse_methods.data.overlap import TrainingData
from cse_methods.data.own.reading import refuse_dev_as_test, with_checksum
from cse_methods.data.source import source_name
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.errors import BackboneError, UnknownModelError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.models import Model, open_model
from cse_methods.evaluation.results import Evaluation
from cse_methods.evaluation.test_sets.availability import missing_tests
from cse_methods.files.named import expand, nearest_file_hint
from cse_methods.referenced_tasks.library import fetch_references
from cse_methods.referenced_tasks.snapshots import missing_references, with_snapshots
from cse_methods.tasks import OwnSet, Tasks
from cse_methods.transfer.protocol import TransferProtocol
from cse_platform.errors import NoStoreError, NotFoundError, StoreDownError
from cse_platform.kept_models import local_copy, trial_in
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trials import find_one_trial, is_trial_reference, trial_of_key
from cse_platform.numbers import HASH_DIGITS
from cse_platform.presentation.terminal import progress_lines
from cse_platform.presentation.trial import explain_missing_model, explain_reproduction
from cse_platform.standard_streams import echo
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import find_sweep
from cse_platform.sweep.identity import training_data
from cse_platform.sweep.stores import evaluations_journal, has_mlflow, mlflow_uri
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.packing import evaluation_event, make_test_accesses
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder, Sink, SinkHealth


@contextmanager
def record_test_access(
    trial: Trial,
    tasks: Tasks,
    *,
    data: str | None,
    leaderboard: Store,
    mlflow: MLflowMirror | None,
    journal: Path,
) -> Iterator[Callable[[Evaluation], list[SinkHealth]]]:
    """Record that a trial's test sets are about to be opened; open them only inside the context.

    `data` says where the package's sets are read. The context yields a function that records the
    scores and returns the stores that lack them; these get them from the journal at the next
    evaluation. Raises StoreDownError if the opening cannot be recorded, and JournalError if another
    evaluation is writing to the journal.
    """
    sinks: list[Sink] = [LeaderboardSink(leaderboard)]
    if mlflow is not None:
        sinks.append(mlflow)
    with Journal(journal) as log, Recorder(log, sinks) as recorder:
        accesses = make_test_accesses(
            tasks, data, sweep=trial.sweep, trial=trial.key, command="cse-evaluate"
        )
        for access in accesses:
            recorder.record(access)
        if accesses:
            for sink in recorder.flush(FLUSH_SECONDS, only=LeaderboardSink.name):
                if sink.name == LeaderboardSink.name and sink.behind:
                    raise StoreDownError(
                        "the leaderboard cannot record that test sets are opened "
                        f"({sink.error}); they stay closed until it can"
                    )

        def record(evaluation: Evaluation) -> list[SinkHealth]:
            fields = {"sweep": trial.sweep, "trial": trial.key, "source": source_name(data)}
            recorder.record(evaluation_event(**fields, evaluation=evaluation))
            return [sink for sink in recorder.flush(FLUSH_SECONDS) if sink.behind]

        yield record


@dataclass(frozen=True)
class ScoringRequest:
    """An encoder to score, and how to score it."""

    model: str
    tasks: Tasks
    data: str | None
    reading: Mapping[str, Any]
    """How the encoder is opened: options of `open_model`."""
    dims: tuple[int, ...]
    protocol: TransferProtocol


def score_model(request: ScoringRequest, *, leaderboard: str, runs: Path) -> Evaluation:
    """Score an encoder on test sets; for a trial, its test access is recorded before.

    The scores are recorded only if the trial is named by its key or number, not by the folder of
    its model.

    Args:
        request: what is scored, and on which tasks.
        leaderboard: URL of the leaderboard that knows the trial; only read if the model is one.
        runs: the folder with the journals and, unless MLflow is a server, its database.

    Raises:
        NoStoreError: if the model is a trial's and the leaderboard does not exist.
    """
    own_sets = tuple(with_checksum(own) for own in request.tasks.own)
    missing = missing_references(request.tasks.referenced)
    for line in missing:
        echo(f"to fetch: {line}", err=True)
    if missing:
        fetch_references(request.tasks.referenced)
    request = replace(request, tasks=with_snapshots(replace(request.tasks, own=own_sets)))
    key = _find_reference(request.model, leaderboard)
    if key is None:
        return _run_evaluation(request, open_model(request.model, **request.reading))
    try:
        board = open_store(leaderboard, create=False)
    except NoStoreError as problem:
        raise NoStoreError(
            f"{_explain_missing_leaderboard(request.model, key)}: {problem}"
        ) from problem
    with board:
        with board.session() as session:
            if not Path(expand(request.model)).is_dir():
                trial = find_one_trial(session, key)
            elif (known := trial_of_key(session, key)) is not None:
                trial = known
            else:
                raise NotFoundError(
                    f"{_explain_missing_leaderboard(request.model, key)}, which this one does not "
                    "know"
                )
        return _score_trial(request, trial, board, runs)


def _find_reference(model: str, leaderboard: str) -> str | None:
    """Find what names the model's trial on the leaderboard; None if it is not a trial's.

    Raises BackboneError if it is neither a trial nor an encoder.
    """
    folder = Path(expand(model))
    if folder.is_dir():
        return trial_in(folder)
    if is_trial_reference(model):
        return model
    try:
        resolve_backbone(model)
    except UnknownModelError:
        pass  # sentence-transformers may load it
    except BackboneError as error:
        if "/" in model:
            raise
        with (
            suppress(NoStoreError, NotFoundError),
            open_store(leaderboard, create=False) as board,
            board.session() as session,
        ):
            return find_one_trial(session, model).key
        near = nearest_file_hint(folder.absolute())
        raise BackboneError(f"{model!r} is neither a folder nor a trial: {error}{near}") from None
    return None


def _explain_missing_leaderboard(model: str, key: str) -> str:
    if model == key:
        return f"{model!r} is not a folder; to find it as a trial, name a leaderboard"
    return (
        f"{model} is the model of trial {key[:16]}; name its leaderboard with --runs or "
        "--store, which records that test sets are opened"
    )


def _score_trial(request: ScoringRequest, trial: Trial, board: Store, runs: Path) -> Evaluation:
    folder = Path(expand(request.model))
    is_named = not folder.is_dir()
    if not is_named:
        echo(
            f"{request.model} is the model of trial {trial.key[:8]}: it is recorded that its test "
            f"sets are opened; its scores are recorded by `cse-evaluate {trial.key[:8]}` alone",
            err=True,
        )
    elif trial.model is None:
        details = Leaderboard(board).trial(trial.key)
        raise NotFoundError(
            f"trial {trial.key[:16]} has no model: {explain_missing_model(details)}; "
            f"{explain_reproduction(details)}"
        )
    else:
        for line in _name_trial(request.model, trial, board):
            echo(line, err=True)
    with board.session() as session:
        spec = find_sweep(session, trial.sweep).spec
        training = training_data(spec, trial.hyperparameters)
    of_sweep, named = spec.get("data"), os.environ.get("CSE_DATA")
    if request.data is None and named and of_sweep not in (None, named):
        echo(f"reading {of_sweep}, the data of its sweep, not CSE_DATA; --data names it", err=True)
    request = replace(request, data=request.data or of_sweep)
    tests: list[OwnSet] = [*request.tasks.own, *request.tasks.referenced]
    refuse_dev_as_test(training.dev.files.values(), tests)
    journal = evaluations_journal(runs.absolute(), trial.key)
    mirror = _open_mirror(spec, runs.absolute()) if is_named else None
    with local_copy(trial.model or "", trial.key) if is_named else nullcontext(folder) as model:
        opened = open_model(
            str(model), **request.reading
        )  # nothing is on record of an unreadable model
        with record_test_access(
            trial,
            request.tasks,
            data=request.data,
            leaderboard=board,
            mlflow=mirror,
            journal=journal,
        ) as record:
            evaluation = _run_evaluation(request, opened, training)
            for sink in record(evaluation) if is_named else ():
                echo(f"{sink.name} does not have the scores yet ({sink.error})", err=True)
    return evaluation


def _name_trial(model: str, trial: Trial, board: Store) -> Iterator[str]:
    """Name the trial that a reference means; if that names a sweep or a configuration, also the
    other seeds that can be scored.
    """
    digits = trial.key[:HASH_DIGITS]
    yield f"scoring trial {digits}, {trial.sweep}#{trial.number}, seed {trial.seed}"
    if is_trial_reference(model):
        return
    siblings = Leaderboard(board).trial(trial.key).siblings
    if kept := [each for each in siblings if each.state == "COMPLETE" and each.model is not None]:
        named = ", ".join(f"{each.key[:HASH_DIGITS]} (seed {each.seed})" for each in kept)
        yield f"cse-evaluate KEY scores the other seeds of its configuration: {named}"


def _open_mirror(spec: Mapping[str, Any], runs: Path) -> MLflowMirror | None:
    """Open the MLflow store of a trial's sweep; None, with a message, if there is none."""
    if not has_mlflow(runs):
        echo(
            "the scores go to no MLflow store, because there is none here; name one with "
            "CSE_MLFLOW_URI",
            err=True,
        )
        return None
    experiment, artifacts = spec.get("experiment", "cse"), runs / "artifacts"
    return MLflowMirror(mlflow_uri(runs), experiment=experiment, artifacts=artifacts)


def _run_evaluation(
    request: ScoringRequest, opened: Model, training: TrainingData | None = None
) -> Evaluation:
    for line in missing_tests(request.tasks, request.data):
        echo(f"to fetch: {line}", err=True)
    with progress_lines("loading") as move:
        return evaluate(
            opened,
            request.tasks,
            data=request.data,
            dims=request.dims,
            protocol=request.protocol,
            training=training,
            progress=lambda what, done, total: move(description=what, completed=done, total=total),
        )
