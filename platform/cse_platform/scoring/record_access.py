"""Test sets opened for a trial outside its sweep: on record before they are, with scores after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cse_methods.data.source import source_name
from cse_methods.tasks import Tasks
from cse_platform.errors import StoreDownError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store.opening import Store
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.tracking.events import TestAccessed
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.mlflow.mirror import MLflowMirror
from cse_platform.tracking.packing import accessed_source, evaluation_event
from cse_platform.tracking.provenance import user_and_host
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder, Sink, SinkHealth

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Evaluation


@contextmanager
def record_test_access(
    trial: TrialSummary,
    tasks: Tasks,
    *,
    data: str | None,
    leaderboard: Store,
    mlflow: MLflowMirror | None,
    journal: Path,
) -> "Iterator[Callable[[Evaluation], list[SinkHealth]]]":
    """Record that test sets are opened for a trial; inside, they may be.

    `data` is the setting: where the package's sets are read from. What is yielded records the
    scores, and returns the stores that lack them yet; these get them from the journal at the next
    evaluation.
    StoreDownError if the opening cannot be recorded, JournalError if another evaluation writes to
    the journal now.
    """
    sinks: list[Sink] = [LeaderboardSink(leaderboard), *([mlflow] if mlflow is not None else [])]
    with Journal(journal) as log, Recorder(log, sinks) as recorder:
        if tasks.opens_tests:
            recorder.record(
                TestAccessed(
                    sweep=trial.sweep,
                    trial=trial.key,
                    tasks=tasks.names,
                    source=accessed_source(tasks, data),
                    who=user_and_host(),
                    command="cse-evaluate",
                )
            )
            _refuse_unrecorded(recorder.flush(FLUSH_SECONDS, only=LeaderboardSink.name))

        def record(evaluation: "Evaluation") -> list[SinkHealth]:
            of = {"sweep": trial.sweep, "trial": trial.key, "source": source_name(data)}
            recorder.record(evaluation_event(**of, evaluation=evaluation))
            return [sink for sink in recorder.flush(FLUSH_SECONDS) if sink.behind]

        yield record


def _refuse_unrecorded(health: list[SinkHealth]) -> None:
    for sink in health:
        if sink.name == LeaderboardSink.name and sink.behind:
            raise StoreDownError(
                f"the leaderboard does not record that test sets are opened ({sink.error}); "
                "they stay shut until it does"
            )
