"""Records the trial of somebody's own script in a journal, as a sweep records its trials.

Several processes can record into one sweep at once: each appends under the journal's lock. The
stores are filled from the journal by one process beside them (`stores/recording.py`).
"""

import hashlib
import json
import math
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cse_methods.data.dev_selection import dev_metric
from cse_platform.databases import expand_url
from cse_platform.errors import OtherSweepError, RecordingError, StoreError
from cse_platform.numbers import percent
from cse_platform.recorded_scores import make_recorded_scores, read_number, read_scores
from cse_platform.secrets import mask_text
from cse_platform.standard_streams import echo
from cse_platform.stores.recording import (
    fill_leaderboard,
    has_sweep,
    left_out_told,
    start_filling,
)
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import first_problem, format_value
from cse_platform.sweep.stores import JOURNAL_FILE, sweep_folder
from cse_platform.tracking import events
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal_id, share_journal
from cse_platform.tracking.our_names import find_task, refuse_other_spelling
from cse_platform.tracking.provenance import code_diffs, installed_packages, sweep_provenance
from cse_platform.tracking.recorded_runs import (
    RecordedRuns,
    lock_run,
    make_end,
    make_sweep_start,
    make_trial_start,
)

_METRIC = re.compile(r"(dev|train|perf)/[\w.-]+")
_SLUG: TypeAdapter[str] = TypeAdapter(Slug)
_SEED_LIMIT = 2**63


@dataclass
class Recording:
    """A run that is being recorded; also a `Run` of cse_methods, so a method can train in it."""

    seed: int
    trial: str
    """The key of its trial."""
    number: int
    """The number of its trial, which SWEEP#N names."""
    sweep: str
    journal: Path
    group: str
    """What its scores are comparable within: the id of the journal."""
    dev: str
    """The name of the metric that counts, such as `dev/stsb_spearman`."""
    points: dict[int, dict[str, float]] = field(default_factory=dict)
    """The metrics of each reported step."""
    scores: dict[str, float] = field(default_factory=dict)
    """The test scores that were recorded, by task."""
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
        values = {name: read_number(f"metrics[{name!r}]", value) for name, value in metrics.items()}
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

        They are fractions: Spearman's correlation, or accuracy for transfer tasks; the average of a
        family is added when all its tasks have one. The score of an unknown task, or another
        number, is left out, which stderr says: the run is trained by then. The function
        `record_scores` adds that of a known task when the run is complete.
        """
        numbers, problems = read_scores(scores, self.scores)
        for problem in problems.values():
            echo(f"{problem} (this score is left out)", err=True)
        if any(find_task(str(task)) for task in problems):
            echo(
                "when the run is complete, "
                f"cse_platform.record_scores('{self.sweep}#{self.number}', {{task: score}}, "
                f"runs={str(self.journal.parents[2])!r}) adds scores",
                err=True,
            )
        if numbers:
            of_trial = {"group": self.group, "sweep": self.sweep, "trial": self.trial}
            self._append_event(make_recorded_scores(numbers, self.scores, **of_trial))
            self.scores |= numbers

    def _append_event(self, event: events.Event) -> None:
        with share_journal(self.journal) as append:
            append(event)


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
        method: the name of what is trained; our name, if it is a method of ours.
        backbone: the encoder that it begins with, likewise.
        seed: the run's seed. Runs that differ in it alone are one configuration.
        hyperparameters: values by name, as JSON has them.
        sweep: the name that the run is grouped under, which belongs to one runs folder also on a
            shared leaderboard; default: METHOD-BACKBONE-recorded.
        dev: the dev set whose Spearman correlation counts: `dev/NAME_spearman` in the reports.
        code: a file or a folder whose Python sources the trial's key contains, so that a changed
            script makes a new trial.
        runs: the runs folder.

    Raises:
        RecordingError: if a value is invalid, a name is another spelling of ours or belongs to
            another sweep, here or on the leaderboard, or the run is complete already or being
            recorded by another process.
        JournalError: if the journal cannot be used.
    """
    settings = _read_settings(method, backbone, seed, hyperparameters, sweep, dev, code)
    journal = sweep_folder(Path(expand_url(str(runs))).absolute(), settings.sweep) / JOURNAL_FILE
    try:
        has_sweep(journal)
    except OtherSweepError as error:
        raise RecordingError(
            f"{error}; a name belongs to one runs folder, so give these runs another one: "
            "record(sweep=...)"
        ) from None
    except StoreError:  # it is filled when it answers
        pass
    recorded = RecordedRuns(journal)
    with ExitStack() as locks:
        run = _start_run(settings, recorded, locks)
        start_filling(journal)
        try:
            yield run
        except BaseException as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            by_person = isinstance(error, KeyboardInterrupt)
            cause = "person" if by_person else "error"
            _end_run(run, recorded, error=mask_text(reason), cause=cause)
            raise
        _end_run(run, recorded)


@dataclass(frozen=True)
class _Settings:
    """What a run is recorded with, checked."""

    sweep: str
    identity: Mapping[str, str]
    """Its method and backbone."""
    seed: int
    values: Mapping[str, Any]
    dev: str
    code: str | None
    """The hash of its code."""


def _read_settings(
    method: str,
    backbone: str,
    seed: int,
    hyperparameters: Mapping[str, Any],
    sweep: str | None,
    dev: str,
    code: Path | str | None,
) -> _Settings:
    """Check the arguments of `record`; RecordingError names the wrong one."""
    identity = {"method": method, "backbone": backbone}
    for kind, given in {**identity, "dev": dev}.items():
        try:
            refuse_other_spelling(kind, given)
        except ValueError as problem:
            raise RecordingError(f"{kind}: {problem}") from None
    name = sweep or re.sub(r"[^A-Za-z0-9_.-]", "-", f"{method}-{backbone}-recorded")
    values = {str(key): _read_value(str(key), value) for key, value in hyperparameters.items()}
    try:
        _SLUG.validate_python(name)
    except ValidationError as error:
        raise RecordingError(f"sweep: {first_problem(error)}, got {name!r}") from None
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < _SEED_LIMIT:
        raise RecordingError(f"seed: got {seed!r}, expected a whole number from 0")
    code_sha256 = None if code is None else _hash_code(Path(expand_url(str(code))))
    return _Settings(name, identity, seed, values, dev, code_sha256)


def _start_run(settings: _Settings, recorded: RecordedRuns, locks: ExitStack) -> Recording:
    """Record the start of a run, and of its sweep for it; `locks` hold the run's lock.

    RecordingError if the sweep is another one, or the run is complete or being recorded.
    """
    name, seed, journal, started = settings.sweep, settings.seed, recorded.journal, events.now()
    script = Path(sys.argv[0]).name or "an interpreter"
    start: dict[str, Any] = {
        "provenance": {**sweep_provenance(), events.RECORDED_FROM: script},
        "packages": installed_packages(),
        "diffs": code_diffs(),
    }
    with share_journal(journal) as append:
        group = read_journal_id(journal)  # other folders have other data, also under this name
        configuration = canonical_hash(
            [
                events.RECORDED,
                group,
                settings.identity,
                settings.values,
                settings.dev,
                settings.code,
            ]
        )
        trial = canonical_hash([events.RECORDED, configuration, seed])
        lock = lock_run(journal, trial)
        if lock is None:
            raise RecordingError(
                f"seed {seed} of these hyperparameters is being recorded by another process in "
                f"sweep {name!r}; give each process its own seed or hyperparameters"
            )
        locks.callback(lock.release)
        history = recorded.read_on()
        _refuse_other_sweep(history, settings, journal)
        known = history.trials.get(trial)
        if known is not None and known.state == "COMPLETE":
            raise RecordingError(
                f"seed {seed} of these hyperparameters is complete in sweep {name!r} (trial "
                f"{trial[:8]}, dev {percent(known.best_value)}); record another seed, name "
                "what has changed as a hyperparameter or by code=__file__, or give sweep= "
                "another name"
            )
        number = known.number if known is not None else len(history.trials)
        same: dict[str, Any] = {
            "sweep": name,
            **settings.identity,
            "dev": settings.dev,
            "time": started,
        }
        append(make_sweep_start(**same, source=events.RECORDED, **start))
        append(
            make_trial_start(
                **same,
                source=events.RECORDED,
                trial=trial,
                seed=seed,
                number=number,
                configuration=configuration,
                code=settings.code,
                values=settings.values,
                group=group,
            )
        )
        recorded.end_dead(append)
    return Recording(seed, trial, number, name, journal, group, dev_metric(settings.dev))


def _end_run(run: Recording, recorded: RecordedRuns, **failure: Any) -> None:
    """Record the end of a run, and of its sweep if no other run of it lives.

    Says so if the leaderboard leaves the sweep out.
    """
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
            make_end(
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
    with left_out_told(run.journal):
        if not has_sweep(run.journal):
            fill_leaderboard(run.journal)


def _refuse_other_sweep(history: History, settings: _Settings, journal: Path) -> None:
    """Raise RecordingError if a name belongs to another sweep.

    The dev set can change as long as no run has reported a score and none lives.
    """
    if history.spec is None:
        return
    if history.spec.get("source") != events.RECORDED:
        raise RecordingError(
            f"sweep {settings.sweep!r} is one of cse-sweep ({journal}); give the recorded runs "
            "another name: record(sweep=...)"
        )
    known = {name: (history.spec.get(name), value) for name, value in settings.identity.items()}
    if not history.complete or any(trial.curve for trial in history.trials.values()):
        known["dev set"] = history.dev.search_name, settings.dev
    for name, (stored, value) in known.items():
        if stored != value:
            raise RecordingError(
                f"sweep {settings.sweep!r} has {name} {stored}, and this run {value}; give it a "
                "sweep of its own: record(sweep=...)"
            )


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
