"""Receive every report of the trials; no other code in the driver does.

A report is told to the study, and `Pruning` decides whether the trial goes on; then it is written
to the journal, with what the pruner noted. So a study that is replayed need not judge again.
"""

import logging
import math
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from cse_methods.data.dev_selection import dev_metric
from cse_platform.runner.failure_policy import GOES_ON, STOPPED
from cse_platform.runner.failures import End, Failure
from cse_platform.runner.models import wait_for_room
from cse_platform.runner.pruning import Pruning
from cse_platform.runner.state import SweepState
from cse_platform.secrets import mask_text, mask_url
from cse_platform.sweep.objectives import is_metric, metric_of
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import (
    FailureCause,
    TrialCheckpoint,
    TrialFinished,
    TrialPoint,
    TrialState,
)
from cse_platform.tracking.history import TrialHistory, costs_of_report

_log = logging.getLogger(__name__)


class Results:
    """Receives the reports and the ends of one sweep's trials.

    Its creation deletes the checkpoints of earlier starts that nothing needs.
    """

    def __init__(self, state: SweepState, stores: SweepStores) -> None:
        self.state, self.errors = state, stores.errors
        self.checkpoints = stores.checkpoints
        self.pruning = Pruning(state)
        last = [t.checkpoint for t in state.history.trials.values() if _needs_checkpoint(t)]
        needed = [path for _, path in filter(None, last)]
        state.folders.delete_stale_checkpoints(needed=needed)
        self._pruned: dict[str, str] = {}
        """Reasons why trials were pruned, by key."""
        self._stopped: set[str] = set()
        self._last_step: dict[str, int] = {}
        """The last step by trial, in its current process. A resumed trial repeats the steps after
        its checkpoint."""
        self._falls: set[str] = set()
        """Trials that have reported a step out of order."""
        self._waiting: set[str] = set()
        self._refused: dict[str, str] = {}
        self._cut_off: Counter[tuple[str, End]] = Counter()
        self._models: dict[str, str | None] = {}
        """Why a worker could not keep its model, by trial; None if it could."""
        self._provenance: dict[str, dict[str, str]] = {}
        """Provenance by trial, merged from its reports, each of which has only what is new."""

    def point(
        self,
        key: str,
        *,
        step: int,
        metrics: Mapping[str, float],
        checkpoint: str | None = None,
        provenance: Mapping[str, str] | None = None,
    ) -> bool:
        """Record one dev point after `step` optimiser steps. Returns True if the trial is to stop.

        A repeated step is dropped: its first values stay. An invalid report ends the trial.
        `checkpoint` is the location of a complete checkpoint of this step; `provenance` is what the
        worker has not reported before.
        """
        trial, spec = self.state.history.trials[key], self.state.spec
        self._waiting.discard(key)
        self._note_provenance(key, provenance or {})
        self._warn_if_not_rising(trial, step)
        if step in trial.curve:
            if checkpoint is not None:
                self.checkpoint(key, step=step, place=checkpoint)
            return False
        epoch = self._count_epoch_sentences(trial)
        costs = costs_of_report(metrics, provenance or {}, epoch_sentences=epoch)
        metrics = {**metrics, **costs}
        if refusal := self._find_refusal(step, metrics):
            self.refuse(key, refusal)
            return True
        before, measured = trial.checkpoint, spec.dev.with_means(metrics)
        point = TrialPoint(
            sweep=spec.sweep,
            trial=key,
            step=step,
            value=measured[spec.dev.search_metric],
            metrics=measured,
            checkpoint=checkpoint,
        )
        self.state.history.apply(point)
        why = self.pruning.why_stop(trial, step=step)
        notes = self.state.search.read_pruner_notes(trial)
        self.state.record(point.model_copy(update={"pruner_notes": notes}))
        if checkpoint is not None:
            self._replace_checkpoint(key, before)
        if why is None or metrics.get("train/progress") == 1:
            return False
        self._pruned[key] = why
        return True

    def checkpoint(self, key: str, *, step: int, place: str) -> None:
        """Record a complete checkpoint of a step that was reported before."""
        before = self.state.history.trials[key].checkpoint
        if before is not None and before[0] >= step:
            if place != before[1]:
                self.state.folders.delete_checkpoint(place)
            return
        sweep = self.state.spec.sweep
        self.state.record(TrialCheckpoint(sweep=sweep, trial=key, step=step, checkpoint=place))
        self._replace_checkpoint(key, before)

    def _replace_checkpoint(self, key: str, before: tuple[int, str] | None) -> None:
        """Delete the previous checkpoint, now that the journal names a newer one."""
        del self._cut_off[key, "crash"]
        if before is not None:
            self.state.folders.delete_checkpoint(before[1])

    def _count_epoch_sentences(self, trial: TrialHistory) -> int | None:
        """Count the sentences of a trial's epoch, rounded to whole batches; None if unknown."""
        size = trial.batch_size
        return None if size is None else self.state.identity.corpus_sentences // size * size

    def _warn_if_not_rising(self, trial: TrialHistory, step: int) -> None:
        """Warn once if a trial reports a step that is not above the one before."""
        before = self._last_step.get(trial.key, -1)
        self._last_step[trial.key] = max(step, before)
        if step > before or trial.key in self._falls:
            return
        self._falls.add(trial.key)
        lost = "its scores are dropped" if step in trial.curve else "it is recorded nevertheless"
        _log.warning(
            "trial %d reports step %d after step %d: %s; a method reports rising steps, each once",
            trial.number,
            step,
            before,
            lost,
        )

    def refuse(self, key: str, why: str) -> None:
        """Mark a trial whose report is invalid; it is recorded as failed when it ends."""
        self._refused[key] = why

    def model_kept(self, key: str, *, problem: str | None) -> None:
        """Note that a trial's worker has stored its model, or the problem that prevented it."""
        self._models[key] = problem

    def _has_kept_model(self, trial: TrialHistory) -> bool:
        problem = self._models.get(trial.key, "its worker has not said so")
        if problem is not None and trial.checkpoint is not None:
            where = mask_url(trial.checkpoint[1])
            _log.warning("the best checkpoint in %s cannot be kept: %s", where, mask_text(problem))
        return problem is None

    def stop(self, key: str) -> None:
        """Mark a trial that a person stops; its results count as those of a pruned trial."""
        self._stopped.add(key)

    def warn_waiting(self, key: str, why: str) -> None:
        """Warn once that a trial is alive but has to wait."""
        if key not in self._waiting:
            self._waiting.add(key)
            number = self.state.history.trials[key].number
            _log.warning(
                "trial %d waits: %s; it goes on when there is some", number, mask_text(why)
            )

    def warn_unread(self, key: str, unread: Collection[str]) -> None:
        """Warn of searched settings that the method never read, after the first trial only.

        Args:
            key: a trial that came to its last step, and whose end is not recorded yet.
            unread: all of its hyperparameters that were not read.
        """
        history = self.state.history
        if any(t.state == "COMPLETE" and t.reused_from is None for t in history.trials.values()):
            return
        trial = history.trials[key]
        if names := [name for name in trial.searched if name in unread]:
            _log.warning(
                "trial %d never read %s, which the search turns: trials that differ in nothing "
                "else are the same; take it out of 'space', or give it a condition (`when`) if "
                "another setting decides whether it has an effect",
                trial.number,
                " and ".join(names),
            )

    def record_end(self, key: str) -> None:
        """Record the end of a trial that came to its last step, or was stopped early."""
        trial = self.state.history.trials[key]
        if key in self._refused:
            self._finish_trial(trial, "FAIL", error=self._refused[key], cause="trial")
        elif (best := trial.best(checkpoint=self.state.spec.dev.checkpoint_name)) is None:
            early = key in self._stopped
            reason = STOPPED if early else "it reported no dev score that is a number"
            self._finish_trial(trial, "FAIL", error=reason, cause="person" if early else "trial")
        elif key in self._pruned or key in self._stopped:
            self._finish_trial(trial, "PRUNED", why=self._pruned.get(key, STOPPED))
        elif why := self._explain_unmeasured(best):
            self._finish_trial(trial, "FAIL", error=why, cause="trial")
        else:
            self._finish_trial(trial, "COMPLETE")

    def record_failure(self, key: str, failure: Failure) -> None:
        """Resume a trial that raised an error or lost its process, or record that it failed.

        The whole traceback is written to a file in the sweep's folder.
        """
        if any(key in ends for ends in (self._pruned, self._stopped, self._refused)):
            self.record_end(key)  # it was being stopped anyway
            return
        trial = self.state.history.trials[key]
        file = self.errors / f"trial-{trial.number}.txt"
        logs = f"cse-sweep logs {self.state.spec.sweep} --trial {trial.number}"
        text = f"{failure.traceback.rstrip()}\n\nWhat it printed: {logs}\n"
        wait_for_room(
            lambda: _write_traceback(file, text),
            what=f"the traceback of trial {trial.number}",
        )
        self._cut_off[key, failure.end] += 1
        if self._cut_off[key, failure.end] <= GOES_ON[failure.end]:
            _log.warning(
                "trial %d was cut off (%s); it goes on from step %d",
                trial.number,
                failure.said,
                trial.checkpoint[0] if trial.checkpoint else 0,
            )
            self._last_step.pop(key, None)
            self.state.live.discard(key)
            self.state.left_over.append(trial)
        else:
            cause: FailureCause = "machine" if failure.end == "crash" else "trial"
            self._finish_trial(trial, "FAIL", error=failure.said, cause=cause)

    def _finish_trial(
        self,
        trial: TrialHistory,
        state: TrialState,
        *,
        error: str | None = None,
        cause: FailureCause | None = None,
        why: str | None = None,
    ) -> None:
        best = trial.best(checkpoint=self.state.spec.dev.checkpoint_name)
        kept = state == "COMPLETE" and self._has_kept_model(trial)
        self.state.record(
            TrialFinished(
                sweep=self.state.spec.sweep,
                trial=trial.key,
                state=state,
                best_step=None if best is None else best.step,
                best_value=None if best is None else best.value,
                best_metrics={} if best is None else best.metrics,
                model=self.state.folders.model_location(trial.key) if kept else None,
                error=error,
                cause=cause,
                why=why,
                wall_seconds=trial.busy_seconds,
                gpus=self.state.spec.resources.slot.gpu,
                costs=trial.costs.totals(),
                provenance=self._provenance.pop(trial.key, {}),
            )
        )
        if trial.checkpoint is not None and not _needs_checkpoint(trial):
            self.state.folders.delete_checkpoint(trial.checkpoint[1])
        self.state.live.discard(trial.key)
        for end in GOES_ON:  # it may be retried, and then counts anew
            del self._cut_off[trial.key, end]
        self._pruned.pop(trial.key, None)
        self._last_step.pop(trial.key, None)
        self._stopped.discard(trial.key)
        self._refused.pop(trial.key, None)
        self._models.pop(trial.key, None)
        self.state.search.tell(trial)

    def _note_provenance(self, key: str, facts: Mapping[str, str]) -> None:
        # The first report of a process names its host; another process may run elsewhere.
        known = {} if "host" in facts else self._provenance.get(key, {})
        self._provenance[key] = {**known, **facts}

    def _find_refusal(self, step: int, metrics: Mapping[str, float]) -> str | None:
        """Explain why a report is invalid; None if it is valid. NaN is valid until the end."""
        dev = self.state.spec.dev
        for name in map(dev_metric, (*dev.picking, *dev.climbed)):
            if name not in metrics:
                return f"it reported no {name} at step {step}"
            if abs(metrics[name]) > 1:
                return f"it reported {name} = {metrics[name]:g} at step {step}, no fraction"
        known = dev.with_means(metrics)
        for name in self._list_measured_metrics() if step > 0 else ():
            if name not in known:
                hint = did_you_mean(name, known)
                return f"it reported no {name} at step {step}, which the search is after{hint}"
        return None

    def _list_measured_metrics(self) -> list[str]:
        """List the metrics of the search's objectives and constraints."""
        return [metric_of(name) for name in self.state.spec.search.measured if is_metric(name)]

    def _explain_unmeasured(self, best: TrialPoint) -> str | None:
        """Explain why a trial fails: a metric of the search is not finite at its best step."""
        for name in self._list_measured_metrics():
            if not math.isfinite(best.metrics[name]):
                return f"its {name} is {best.metrics[name]} at its best step, {best.step}"
        return None


def _needs_checkpoint(trial: TrialHistory) -> bool:
    """Whether a trial resumes from its checkpoint, or has no other copy of its model.

    A retried trial starts over and needs none.
    """
    return trial.state == "RUNNING" or (trial.state == "COMPLETE" and trial.model is None)


def _write_traceback(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
