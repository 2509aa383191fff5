"""Makes the events of trials that ran elsewhere, and reads those that scripts record in a journal.

A recorded run holds a lock of its own as long as its process lives; so others can tell whether it
was killed.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from filelock import FileLock, Timeout

from cse_methods.data.dev_selection import DEV_TASKS
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, STS_TASKS, TRANSFER_TASKS
from cse_platform.sweep.identity import canonical_hash
from cse_platform.tracking import events
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import read_journal, refuse_older_copy


def make_sweep_start(
    *, sweep: str, method: str, backbone: str, source: str, dev: str, **fields: Any
) -> events.SweepStarted:
    """Make the start of a sweep whose trials ran elsewhere.

    `source` is how they came, `recorded` or `imported`, and `dev` their dev set. `fields` are the
    other fields of the event.
    """
    selection: dict[str, Any] = {"checkpoint": dev, "search": dev}
    if dev not in DEV_TASKS:
        selection["files"] = {dev: {"file": dev}}
    named = {"sweep": sweep, "method": method, "backbone": backbone}
    spec = {**named, "source": source, "dev": selection}
    return events.SweepStarted(**named, spec=spec, **fields)


def make_trial_start(
    *, values: Mapping[str, Any], source: str, dev: str, group: str, **fields: Any
) -> events.TrialStarted:
    """Make the start of a trial that ran elsewhere.

    Trials of one source, dev set and `group` are comparable on dev, and no others.
    """
    return events.TrialStarted(
        role="search",
        search_number=None,
        revision=0,
        values=values,
        searched=tuple(values),
        dev={
            "identity": canonical_hash([source, "dev", dev, group]),
            "source": source,
            "checkpoint": dev,
            "search": dev,
            "corpus": source,
        },
        **fields,
    )


AVERAGE_ROUNDING = 1e-4 + 1e-9
"""How far an average may be from that of its tasks if all are rounded to four digits."""


def average_families(scores: Mapping[str, float]) -> dict[str, float]:
    """Average the test scores of each family whose tasks all have one."""
    families = {AVG_STS: STS_TASKS, AVG_TRANSFER: TRANSFER_TASKS}
    return {
        average: fmean(scores[task] for task in tasks)
        for average, tasks in families.items()
        if scores.keys() >= {*tasks}
    }


def make_evaluation(
    scores: Mapping[str, float], *, source: str, group: str | None = None, **of_trial: Any
) -> events.TrialEvaluated:
    """Make the event of test scores by task that were measured elsewhere.

    `source` is how they came, `recorded` or `imported`; scores of one source and `group` are
    comparable. `of_trial` are the fields that the event shares with others of its
    trial.
    """
    identity = canonical_hash([source, "test", *filter(None, [group])])
    return events.TrialEvaluated(
        **of_trial,
        tasks=tuple(sorted(scores)),
        settings=source,
        source=source,
        scores=tuple(
            events.TrialScore(
                task=task,
                split="test",
                metric=events.TASK_METRICS[task],
                value=value,
                identity=identity,
            )
            for task, value in scores.items()
        ),
        examples=(),
        identities={identity: {"source": source}},
        seconds={},
    )


class RecordedRuns:
    """The runs of a journal, each event of which is read once; used under the journal's lock."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.offset = 0
        """The offset in the journal up to which it was read."""
        self.scores = defaultdict[str, dict[str, float]](dict)
        """The test scores of each run by task."""
        self._history = History()

    def read_on(self) -> History:
        """Read what was appended since the last call. Returns the state of the sweep.

        Raises JournalError if another journal has taken the place of the one that was read.
        """
        refuse_older_copy(self.journal, self.offset)
        for end, event in read_journal(self.journal, offset=self.offset):
            self._history.apply(event)
            if isinstance(event, events.TrialStarted):
                self.scores.pop(event.trial, None)
            elif isinstance(event, events.TrialEvaluated):
                self.scores[event.trial] |= {score.task: score.value for score in event.scores}
            self.offset = end
        return self._history

    def end_dead(self, append: Callable[[events.Event], None]) -> int:
        """End the runs whose processes have died, and the sweep if none lives.

        A run that its process still holds is left alone. Returns how many live.
        """
        history, sweep = self.read_on(), self.journal.parent.name
        for trial in history.unfinished():
            lock = lock_run(self.journal, trial.key)
            if lock is not None:
                lock.release()
                append(
                    make_end(
                        history,
                        trial,
                        sweep,
                        time=trial.last_heard or trial.started,
                        state="FAIL",
                        error="its process ended without a result: it was killed, or its machine "
                        "went down",
                        cause="machine",
                    )
                )
        living = len(self.read_on().unfinished())
        if not living and not history.complete and history.spec is not None:
            append(events.SweepFinished(sweep=sweep, state="COMPLETE"))
            self.read_on()
        return living


def make_end(
    history: History, trial: TrialHistory, sweep: str, *, time: datetime, **fields: Any
) -> events.TrialFinished:
    """Make the end of a run, with its best dev point."""
    best = trial.best(picked_by=history.dev.checkpoint_name)
    return events.TrialFinished(
        sweep=sweep,
        trial=trial.key,
        time=time,
        best_step=None if best is None else best.step,
        best_value=None if best is None else best.value,
        best_metrics={} if best is None else best.metrics,
        wall_seconds=(time - trial.started).total_seconds(),
        **fields,
    )


def lock_run(journal: Path, trial: str) -> FileLock | None:
    """Lock a run as its process does; None if another process holds it."""
    folder = journal.parent / "running"
    folder.mkdir(parents=True, exist_ok=True)
    return try_lock(folder / f"{trial[:16]}.lock")


def try_lock(file: Path) -> FileLock | None:
    """Lock a file; None if another process holds it."""
    lock = FileLock(file, thread_local=False, is_singleton=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock
