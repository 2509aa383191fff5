"""Record a person's note, tags and star for a trial, a configuration or a sweep.

Annotations have their own journal, `annotations/journal.jsonl` in the runs folder, from which the
leaderboard and MLflow are filled, as from a sweep's journal.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.errors import AnnotationRefusedError, JournalError, StoreDownError
from cse_platform.leaderboard.board import read_annotations
from cse_platform.leaderboard.trials import Subject, find_subject
from cse_platform.secrets import mask_text
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import AnnotationRecord, SweepTagRecord, find_sweep
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.stores import (
    JOURNAL_FILE,
    annotations_journal,
    has_mlflow,
    import_journal,
    mlflow_uri,
    mlflow_variable,
    sweep_folder,
)
from cse_platform.tracking.events import Annotatable, AnnotationWritten, now
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder, Sink, SinkHealth

NOTE_LENGTH = 4000
"""The most characters of a note."""
WAIT, MIRROR_WAIT = 20.0, 10.0
"""Seconds to wait for other writers and the leaderboard, and for MLflow, which may lag behind."""

_TAG: TypeAdapter[str] = TypeAdapter(Slug)


def annotate(
    url: str,
    runs: Path,
    reference: str,
    *,
    note: str | None = None,
    star: bool | None = None,
    tags: Mapping[str, bool] | None = None,
) -> tuple[Subject, list[str]]:
    """Annotate a subject. Returns it, and a sentence for each store that lacks the annotation yet.

    Args:
        url: the URL of the leaderboard.
        runs: the runs folder with the journal.
        reference: names the subject, as `find_subject` reads it.
        note: replaces the former note; an empty one removes it.
        star: whether to add or to remove the star; None leaves it.
        tags: maps each tag to whether it is to be present.

    Raises:
        QueryError: if the reference does not name exactly one subject.
        AnnotationRefusedError: if a note or a tag is invalid, or a tag to remove is not there, or
            is the sweep file's.
        JournalError: if the journal cannot be written.
        StoreError: if the leaderboard cannot be opened, the user must not write to it, or it does
            not accept the annotation now.
    """
    note_and_star = {"note": None if note is None else _validate_note(note), "star": star}
    try:
        words = {_TAG.validate_python(word): stands for word, stands in (tags or {}).items()}
    except ValidationError as error:
        raise AnnotationRefusedError(
            "a tag has at most 100 letters, digits, '-', '_' and '.', the first a letter or "
            f"digit, got {error.errors()[0]['input']!r}"
        ) from None
    with open_store(url, create=False) as board:
        # A refused annotation must not lie in the journal, from where others would write it.
        board.require_write_access(AnnotationRecord)
        with board.session() as session:
            subject = find_subject(session, reference)
            time = _next_time(session, subject.about, subject.name)
            written = read_annotations(session, subject.about, [subject.name])
            known = [tag for entry in written.values() for tag in entry.tag_names]
            removed = [word for word, stands in words.items() if not stands]
            _refuse_other_tags(session, subject, removed, known)
        event = AnnotationWritten(
            time=time,
            sweep=subject.sweep,
            about=subject.about,
            name=subject.name,
            who=board.name_writer(),
            tags=words,
            **note_and_star,
        )
        with _open_recorder(board, runs, subject.experiment) as recorder:
            recorder.record(event)
            _flush_to_leaderboard(recorder, runs)
            behind = [sink for sink in recorder.flush(MIRROR_WAIT) if sink.behind]
    slow = f"it took more than {MIRROR_WAIT:.0f} s"
    lag = "{} does not have it yet ({}); the next annotation will copy it"
    return subject, [lag.format(sink.name, sink.error or slow) for sink in behind]


def describe_place(runs: Path, subject: Subject) -> list[str]:
    """Say where annotations of a subject are kept, if its sweep's journal is not beside them."""
    journals = sweep_folder(runs, subject.sweep) / JOURNAL_FILE, import_journal(runs, subject.sweep)
    if any(journal.exists() for journal in journals):
        return []
    says = (
        f"it is kept in {annotations_journal(runs)}, which rebuild must read; the journal of sweep "
        f"{subject.sweep} is in another runs folder"
    )
    if mlflow_variable(runs) is None:
        says += ", whose MLflow gets it only if --runs names that folder"
    return [says]


def remove_annotations(
    board: Store, runs: Path, sweep: str, subjects: Collection[tuple[Annotatable, str]]
) -> None:
    """Remove the notes, stars and tags of what is deleted with a sweep, by kind and name.

    So a rebuilt leaderboard does not show them for a later sweep of the same name.

    Raises JournalError and StoreError as `annotate` does.
    """
    if not subjects:
        return
    with _open_recorder(board, runs, None) as recorder:
        for about, name in subjects:
            with board.session() as session:
                tags = dict.fromkeys(
                    read_annotations(session, about, [name])[name].tag_names, False
                )
                time = _next_time(session, about, name)
            event = AnnotationWritten(
                time=time,
                sweep=sweep,
                about=about,
                name=name,
                who=board.name_writer(),
                note="",
                star=False,
                tags=tags,
            )
            recorder.record(event)
        _flush_to_leaderboard(recorder, runs)


def replay_annotations(url: str, runs: Path, experiment: str) -> list[SinkHealth]:
    """Write the annotations of this runs folder to the stores that lack them.

    Returns the stores that still lack some.
    """
    if not annotations_journal(runs).exists():
        return []
    with open_store(url) as board, _open_recorder(board, runs, experiment) as recorder:
        return [sink for sink in recorder.flush(WAIT) if sink.behind]


def _refuse_other_tags(
    session: Session, subject: Subject, removed: Sequence[str], known: Sequence[str]
) -> None:
    """Raise AnnotationRefusedError if a tag to remove is none of those that annotations gave."""
    absent = next((word for word in removed if word not in known), None)
    if absent is None:
        return
    given = f"annotations gave it {', '.join(known) or 'none'}"
    of_sweep = SweepTagRecord.sweep_id == find_sweep(session, subject.sweep).id
    if absent in session.scalars(select(SweepTagRecord.tag).where(of_sweep)).all():
        raise AnnotationRefusedError(
            f"{subject} has tag {absent!r} from the file of sweep {subject.sweep}, and keeps it "
            f"until that sweep starts without it; {given}"
        )
    raise AnnotationRefusedError(
        f"{subject} has no tag {absent!r} to remove; {given}{did_you_mean(absent, known)}"
    )


def _next_time(session: Session, about: Annotatable, name: str) -> datetime:
    """Return a time after the last annotation: the latest wins, and its writer's clock may be ahead
    of ours.
    """
    query = select(func.max(AnnotationRecord.time)).where(AnnotationRecord.about == about)
    last = session.scalar(query.where(AnnotationRecord.name == name))
    return now() if last is None else max(now(), last + timedelta(microseconds=1))


def _flush_to_leaderboard(recorder: Recorder, runs: Path) -> None:
    """Wait until the leaderboard has what is recorded. Raises StoreDownError if it does not."""
    for sink in recorder.flush(WAIT, only=LeaderboardSink.name):
        if sink.name == LeaderboardSink.name and sink.behind:
            raise StoreDownError(
                f"the leaderboard cannot take it now ({sink.error}); it is saved in "
                f"{annotations_journal(runs)} and will be added with the next annotation"
            )


@contextmanager
def _open_recorder(board: Store, runs: Path, experiment: str | None) -> Iterator[Recorder]:
    """Open a recorder of the journal, after waiting for other processes that have it open.

    Without an experiment, MLflow gets what is recorded with a later annotation.
    """
    path, uri = annotations_journal(runs), mlflow_uri(runs)
    sinks: list[Sink] = [LeaderboardSink(board)]
    if experiment is not None and has_mlflow(runs):
        artifacts = runs.absolute() / "artifacts"
        sinks.append(MLflowMirror(uri, experiment=experiment, artifacts=artifacts))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        turn = FileLock(path.with_name("turn.lock")).acquire(timeout=WAIT)
    except (OSError, Timeout) as error:
        why = "another process is writing to it" if isinstance(error, Timeout) else error.strerror
        raise JournalError(f"cannot write to {path}: {why}") from error
    with turn:
        recorder = Recorder(Journal(path), sinks)
        try:
            yield recorder
        finally:
            recorder.close(0)  # the caller has waited; the journal keeps what a store lacks


def _validate_note(text: str) -> str:
    """Strip secrets and control characters from a note; refuse one that is too long."""
    lines = text.strip().replace("\r\n", "\n").split("\n")
    clean = "\n".join("".join(filter(str.isprintable, line)).rstrip() for line in lines)
    if len(clean) > NOTE_LENGTH:
        raise AnnotationRefusedError(
            f"a note has at most {NOTE_LENGTH} characters, got {len(clean)}; write a shorter one, "
            "and link to the rest"
        )
    return mask_text(clean)
