"""Records the trial of somebody's own script in a journal, as a sweep records its trials.

Several processes can record into one sweep at once: each appends under the journal's lock. The
stores are filled from the journal by one process beside them (`stores/recording.py`). A run holds a
lock of its own as long as its process lives, so others can tell a killed one.
"""

import hashlib
import json
import math
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from cse_methods.data.dev_selection import DEV_TASKS, dev_metric
from cse_platform.databases import expand_url
from cse_platform.errors import RecordingError
from cse_platform.numbers import percent
from cse_platform.secrets import mask_text
from cse_platform.standard_streams import echo
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import first_problem, format_value
from cse_platform.sweep.stores import JOURNAL_FILE, sweep_folder
from cse_platform.tracking import events
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import read_journal, refuse_older_copy, share_journal
from cse_platform.tracking.provenance import code_diffs, installed_packages, sweep_provenance

STORES_LOCK = "stores.lock"
"""The file beside the journal that the process which fills the stores has locked."""
STORES_LOG = "stores.log"
"""The file beside the journal with what that process logs."""

_METRIC = re.compile(r"(dev|train|perf)/[\w.-]+")
_SLUG: TypeAdapter[str] = TypeAdapter(Slug)
_SEED_LIMIT = 2**63


@dataclass
class Recording:
    """A run that is being recorded; also a `Run` of cse_methods, so a method can train in it."""

    seed: int
    trial: str
    """The key of its trial."""
    sweep: str
    journal: Path
    dev: str
    """The name of the metric that counts, such as `dev/stsb_spearman`."""
    points: dict[int, dict[str, float]] = field(default_factory=dict)
    """The metrics of each reported step."""
    resume_from: Path | None = None
    """Always None: a script keeps its own checkpoints."""

    def report(
        self,
        *,
        step: int,
        metrics: Mapping[str, float],
        save: Callable[[Path], None] | None = None,
    ) -> None:
        """Record one dev point, which then survives a kill of the process.

        Args:
            step: optimiser steps so far; larger than at the last report. 0 is before the training.
            metrics: dev scores (`dev/stsb_spearman`, from -1 to 1), losses (`train/loss`) and
                costs (`perf/...`), by name. The score of the run's dev set must be among them; a
                point where it is NaN cannot be the best one, which stderr says at the first.
            save: what a method gives to write a checkpoint; it is not called.

        Raises:
            RecordingError: if a step or a metric is invalid; nothing is recorded then.
        """
        values = {
            name: _read_number(f"metrics[{name!r}]", value) for name, value in metrics.items()
        }
        if wrong := [name for name in values if not _METRIC.fullmatch(name)]:
            raise RecordingError(
                f"metrics: got {wrong[0]!r}, expected names such as {self.dev}, train/loss or "
                "perf/sentences_per_second"
            )
        if self.dev not in values:
            raise RecordingError(
                f"metrics: {self.dev} is missing, the dev score that counts; name another dev set "
                "with record(dev=...), and report losses together with a dev score"
            )
        last = max(self.points, default=-1)
        if isinstance(step, bool) or not isinstance(step, int) or step <= last:
            raise RecordingError(f"step: got {step!r}, expected a whole number above {last}")
        try:
            point = events.TrialPoint(
                sweep=self.sweep,
                trial=self.trial,
                step=step,
                value=values[self.dev],
                metrics=values,
            )
        except ValidationError as error:
            raise RecordingError(f"{self.dev}: {first_problem(error)}") from None
        self._append_event(point)
        before = [metrics[self.dev] for metrics in self.points.values()]
        if math.isnan(values[self.dev]) and not any(map(math.isnan, before)):
            echo(f"{self.dev} is not a number at step {step}; this point is left out", err=True)
        self.points[step] = values

    def record_scores(self, scores: Mapping[str, float]) -> None:
        """Record test scores of the run's best checkpoint by task, such as `{"sts12": 0.7012}`.

        They are fractions: Spearman's correlation, or accuracy for transfer tasks. Raises
        RecordingError for an unknown task or another number; nothing is recorded then.
        """
        numbers = {}
        for task, value in scores.items():
            if task not in events.TASK_METRICS:
                expected = ", ".join(events.TASK_METRICS)
                raise RecordingError(f"scores: got {task!r}, expected tasks out of {expected}")
            number = _read_number(f"scores[{task!r}]", value)
            if not -1 <= number <= 1:
                raise RecordingError(f"{task}: got {number:g}, expected a fraction from -1 to 1")
            numbers[task] = number
        self._append_event(
            make_evaluation(numbers, source=events.RECORDED, sweep=self.sweep, trial=self.trial)
        )

    def _append_event(self, event: events.Event) -> None:
        with share_journal(self.journal) as append:
            append(event)


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

    Trials of one source, dev set and `group` are comparable, and no others.
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


def make_evaluation(
    scores: Mapping[str, float], *, source: str, **of_trial: Any
) -> events.TrialEvaluated:
    """Make the event of test scores by task that were measured elsewhere.

    `source` is how they came, `recorded` or `imported`; scores of one source are comparable.
    `of_trial` are the fields that the event shares with others of its trial.
    """
    identity = canonical_hash([source, "test"])
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


@contextmanager
def record(
    *,
    method: str,
    backbone: str,
    seed: int,
    hyperparameters: Mapping[str, Any],
    sweep: str | None = None,
    dev: str = "stsb",
    code: Path | str | None = None,
    runs: Path | str = "runs",
) -> Iterator[Recording]:
    """Record a training run of your own script as a trial, without Ray.

    The trial is complete when the block ends, and failed if it raises or its process is killed.
    The leaderboard, the page and MLflow show it while it runs. Any number of processes can record
    at once; of a distributed training, only the first process does.

    Args:
        method: the name of what is trained.
        backbone: the encoder that it begins with.
        seed: the run's seed. Runs that differ in it alone are one configuration.
        hyperparameters: values by name, as JSON has them.
        sweep: the name that the run is grouped under; default: METHOD-BACKBONE-recorded.
        dev: the dev set whose Spearman correlation counts: `dev/NAME_spearman` in the reports.
        code: a file or a folder whose Python sources the trial's key contains, so that a changed
            script makes a new trial.
        runs: the runs folder.

    Raises:
        RecordingError: if a value is invalid, the name belongs to another sweep, or the run is
            complete already or being recorded by another process.
        JournalError: if the journal cannot be used.
    """
    name = sweep or re.sub(r"[^A-Za-z0-9_.-]", "-", f"{method}-{backbone}-recorded")
    values = {str(key): _read_value(str(key), value) for key, value in hyperparameters.items()}
    try:
        _SLUG.validate_python(name)
    except ValidationError as error:
        raise RecordingError(f"sweep: {first_problem(error)}, got {name!r}") from None
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < _SEED_LIMIT:
        raise RecordingError(f"seed: got {seed!r}, expected a whole number from 0")
    journal = sweep_folder(Path(expand_url(str(runs))).absolute(), name) / JOURNAL_FILE
    code_sha256 = None if code is None else _hash_code(Path(expand_url(str(code))))
    identity = {"method": method, "backbone": backbone}
    configuration = canonical_hash([events.RECORDED, name, identity, values, dev, code_sha256])
    trial = canonical_hash([events.RECORDED, configuration, seed])
    run = Recording(seed, trial, name, journal, dev_metric(dev))
    recorded = RecordedRuns(journal)
    started = events.now()
    with ExitStack() as locks:
        with share_journal(journal) as append:
            lock = _lock_run(journal, trial)
            if lock is None:
                raise RecordingError(
                    f"seed {seed} of these hyperparameters is being recorded by another process in "
                    f"sweep {name!r}; give each process its own seed or hyperparameters"
                )
            locks.callback(lock.release)
            history = recorded.read_on()
            _refuse_other_sweep(history, name, identity, dev, journal)
            known = history.trials.get(trial)
            if known is not None and known.state == "COMPLETE":
                raise RecordingError(
                    f"seed {seed} of these hyperparameters is complete in sweep {name!r} (trial "
                    f"{trial[:8]}, dev {percent(known.best_value)}); record another seed, name "
                    "what has changed as a hyperparameter or by code=__file__, or give sweep= "
                    "another name"
                )
            if history.spec is None or history.complete:
                script = Path(sys.argv[0]).name or "an interpreter"
                append(
                    make_sweep_start(
                        sweep=name,
                        **identity,
                        source=events.RECORDED,
                        dev=dev,
                        time=started,
                        provenance={**sweep_provenance(), events.RECORDED_FROM: script},
                        packages=installed_packages(),
                        diffs=code_diffs(),
                    )
                )
            append(
                make_trial_start(
                    sweep=name,
                    trial=trial,
                    **identity,
                    seed=seed,
                    time=started,
                    number=known.number if known is not None else len(history.trials),
                    configuration=configuration,
                    code=code_sha256,
                    values=values,
                    source=events.RECORDED,
                    dev=dev,
                    group=name,
                )
            )
            recorded.end_dead(append)
        _fill_stores(journal)
        try:
            yield run
        except BaseException as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            by_person = isinstance(error, KeyboardInterrupt)
            cause = "person" if by_person else "error"
            _end_run(run, recorded, error=mask_text(reason), cause=cause)
            raise
        _end_run(run, recorded)


class RecordedRuns:
    """The runs of a journal, each event of which is read once; used under the journal's lock."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.offset = 0
        """The offset in the journal up to which it was read."""
        self._history = History()

    def read_on(self) -> History:
        """Read what was appended since the last call. Returns the state of the sweep.

        Raises JournalError if another journal has taken the place of the one that was read.
        """
        refuse_older_copy(self.journal, self.offset)
        for end, event in read_journal(self.journal, offset=self.offset):
            self._history.apply(event)
            self.offset = end
        return self._history

    def end_dead(self, append: Callable[[events.Event], None]) -> int:
        """End the runs whose processes have died, and the sweep if none lives.

        A run that its process still holds is left alone. Returns how many live.
        """
        history, sweep = self.read_on(), self.journal.parent.name
        for trial in history.unfinished():
            lock = _lock_run(self.journal, trial.key)
            if lock is not None:
                lock.release()
                append(
                    _make_end(
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


def _end_run(run: Recording, recorded: RecordedRuns, **failure: Any) -> None:
    """Record the end of a run, and of its sweep if no other run of it lives."""
    trained = [step for step in run.points if step > 0]
    if not failure and all(math.isnan(run.points[step][run.dev]) for step in trained):
        error = "nothing was reported of a step above 0"
        if trained:
            error = f"{run.dev} is not a number at step {trained[-1]}"
        failure = {"error": error, "cause": "trial"}
        echo(f"the trial of seed {run.seed} counts as failed: {error}", err=True)
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_initialized()
    gpu = {"gpu": torch.cuda.get_device_name()} if torch is not None and on_gpu else {}
    with share_journal(run.journal) as append:
        history = recorded.read_on()
        append(
            _make_end(
                history,
                history.trials[run.trial],
                run.sweep,
                time=events.now(),
                state="FAIL" if failure else "COMPLETE",
                gpus=1.0 if on_gpu else 0.0,
                provenance={"host": socket.gethostname(), "pid": str(os.getpid()), **gpu},
                **failure,
            )
        )
        recorded.end_dead(append)


def _make_end(
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


def _refuse_other_sweep(
    history: History, sweep: str, identity: Mapping[str, str], dev: str, journal: Path
) -> None:
    """Raise RecordingError if a name belongs to another sweep."""
    if history.spec is None:
        return
    if history.spec.get("source") != events.RECORDED:
        raise RecordingError(
            f"sweep {sweep!r} is one of cse-sweep ({journal}); give the recorded runs another "
            "name: record(sweep=...)"
        )
    known = {name: history.spec.get(name) for name in identity}
    known["dev set"] = history.dev.search_name
    for name, value in {**identity, "dev set": dev}.items():
        if known[name] != value:
            raise RecordingError(
                f"sweep {sweep!r} has {name} {known[name]}, and this run {value}; give it a sweep "
                "of its own: record(sweep=...)"
            )


def _lock_run(journal: Path, trial: str) -> FileLock | None:
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


def _read_value(name: str, value: Any) -> Any:
    """Read a hyperparameter as JSON; a number of NumPy or torch becomes one of Python."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise RecordingError(
            f"hyperparameters[{name!r}]: got {format_value(value)}, expected what JSON has: a "
            "number, a text, true or false, null, a list or a mapping"
        ) from None


def _read_number(label: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise RecordingError(f"{label}: got {value!r}, expected a number") from None


def _hash_code(path: Path) -> str:
    """Hash a Python file, or those below a folder by their paths."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    hashes = {}
    for file in files:
        try:
            sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise RecordingError(f"code: cannot read {file}: {error.strerror}") from None
        hashes[file.relative_to(path).as_posix() if path.is_dir() else ""] = sha256
    if not hashes:
        raise RecordingError(f"code: there is no Python file in {path}")
    return canonical_hash(hashes)


def _fill_stores(journal: Path) -> None:
    """Start the process that fills the stores from a journal, unless one runs."""
    if (lock := try_lock(journal.with_name(STORES_LOCK))) is None:
        return
    lock.release()
    with (journal.with_name(STORES_LOG)).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "cse_platform.stores.recording", str(journal)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
