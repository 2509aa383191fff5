"""Receive every report of the trials; no other code in the driver does.

`Pruning` decides whether the trial goes on; then the report is written to the journal, with what
the pruner noted, so that a study that is replayed need not judge again. Only then do the history
and the study have it: memory never knows what the journal does not.
"""

import logging
from collections.abc import Collection, Mapping

from cse_methods.data.dev_selection import dev_metric
from cse_platform.kept_models import wait_for_room
from cse_platform.runner.failure_policy import CAUSES, GOES_ON, STOPPED
from cse_platform.runner.failures import Failure
from cse_platform.runner.report_messages import Report, checkpoint_location
from cse_platform.runner.state import LiveTrial, SweepState, needs_checkpoint
from cse_platform.search.pruning import Pruning
from cse_platform.secrets import mask_text, mask_url
from cse_platform.sweep.rehearsal import BRIEF, SMOKE
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import (
    TrialCheckpoint,
    TrialPoint,
    TrialState,
    round_to_fraction,
)
from cse_platform.tracking.history import TrialHistory, costs_of_report
from cse_platform.tracking.output import output_file

_log = logging.getLogger(__name__)


class ReportReceiver:
    """Receives the reports and the ends of one sweep's trials.

    Its creation deletes the checkpoints of earlier starts that nothing needs. Of a repeated step,
    the first values stay.
    """

    def __init__(self, state: SweepState, stores: SweepStores) -> None:
        self.state, self._folder, self.errors = state, stores.folder, stores.errors
        self.pruning = Pruning(
            state.search, state.history, state.leaderboard, dev=state.identity.dev
        )
        self._unread_told = False
        last = [t.checkpoint for t in state.history.trials.values() if needs_checkpoint(t)]
        needed = [path for _, path in filter(None, last)]
        state.folders.delete_stale_checkpoints(needed=needed)

    def receive(self, live: LiveTrial, report: Report) -> bool:
        """Process what a worker reports of its trial. Returns True if the trial is to stop."""
        live.raised = report.error or live.raised
        if report.waits is not None and not live.wait_warned:
            live.wait_warned = True
            message = "trial %d waits: %s; it continues when there is room"
            _log.warning(message, live.trial.number, mask_text(report.waits))
        if report.model_problem is not None:
            live.model_problem = report.model_problem or None
        if report.unread:
            self._warn_unread(live.trial, report.unread)
        if (step := report.step) is None:
            return False
        live.wait_warned = False
        # The first report of a process names its host; another process may run elsewhere.
        known = {} if "host" in report.provenance else live.provenance
        live.provenance = {**known, **report.provenance}
        self._warn_if_not_rising(live, step)
        is_new, saved_step, location = step not in live.trial.curve, report.checkpoint_step, None
        if saved_step is not None:
            location = checkpoint_location(
                self.state.folders.checkpoints, report.attempt, saved_step
            )
        own_location = location if is_new and saved_step == step else None
        stops = is_new and self._record_point(live, step, report, own_location)
        if saved_step is not None and location is not None and own_location is None:
            self.record_checkpoint(live, step=saved_step, location=location)
        return stops

    def _record_point(
        self, live: LiveTrial, step: int, report: Report, location: str | None
    ) -> bool:
        """Record one dev point after `step` optimiser steps. Returns True if the trial is to stop.

        An invalid one ends the trial. `location` is that of a complete checkpoint of this
        step.
        """
        trial, spec = live.trial, self.state.spec
        size, sentences = trial.batch_size, self.state.identity.corpus_sentences
        epoch = None if size is None else sentences // size * size  # whole batches
        costs = costs_of_report(report.metrics, report.provenance, epoch_sentences=epoch)
        metrics = {**report.metrics, **costs}
        if refusal := self._find_refusal(step, metrics):
            live.refused = refusal
            return True
        former, measured = trial.checkpoint, spec.dev.with_means(metrics)
        point = TrialPoint(
            sweep=spec.sweep,
            trial=trial.key,
            step=step,
            value=measured[dev_metric(spec.dev.search_name)],
            metrics=measured,
            checkpoint=location,
        )
        reported = trial.with_point(point, picked_by=spec.dev.checkpoint_name)
        why, notes = self.pruning.judge(reported, step=step)
        self.state.record(point.model_copy(update={"pruner_notes": notes}))
        self.state.search.report(trial, step=step, notes=notes)
        if location is not None:
            self._replace_checkpoint(live, former)
        if why is None or metrics.get("train/progress") == 1:
            return False
        live.stopped = why
        return True

    def record_checkpoint(self, live: LiveTrial, *, step: int, location: str) -> None:
        """Record a complete checkpoint of a step that was reported before."""
        former = live.trial.checkpoint
        if former is not None and former[0] >= step:
            if location != former[1]:
                self.state.folders.delete_checkpoint(location)
            return
        sweep, key = self.state.spec.sweep, live.trial.key
        self.state.record(TrialCheckpoint(sweep=sweep, trial=key, step=step, checkpoint=location))
        self._replace_checkpoint(live, former)

    def _replace_checkpoint(self, live: LiveTrial, former: tuple[int, str] | None) -> None:
        """Delete the previous checkpoint, now that the journal names a newer one."""
        del live.cut_offs["crash"]
        if former is not None:
            self.state.folders.delete_checkpoint(former[1])

    def _warn_if_not_rising(self, live: LiveTrial, step: int) -> None:
        """Warn once if a trial reports a step that is not above the one before."""
        before, live.last_step = live.last_step, max(step, live.last_step)
        if step <= before and not live.order_warned:
            live.order_warned = True
            repeated = step in live.trial.curve
            lost = "its scores are dropped" if repeated else "it is recorded anyway"
            _log.warning(
                "trial %d reports step %d after step %d: %s; a method reports rising steps, each "
                "once", live.trial.number, step, before, lost,
            )  # fmt: skip

    def stop(self, live: LiveTrial) -> None:
        """Stop a trial for a person: it counts as pruned, or as failed if it has no dev score.

        A running one ends once its process has stopped; one that waits to resume ends at once.
        """
        live.stopped = live.stopped or STOPPED
        if live in self.state.left_over:
            self.state.left_over.remove(live)
            self.record_end(live)

    def _warn_unread(self, trial: TrialHistory, unread: Collection[str]) -> None:
        """Warn once of settings of the file that the method never read, at a first trial's end.

        `unread` are all of its hyperparameters that were not read. Of those in 'fixed', `epochs`
        does not count beside `max_steps`, nor what a rehearsal sets by itself.
        """
        trials, spec = self.state.history.trials.values(), self.state.spec
        if self._unread_told or any(
            t.state == "COMPLETE" and t.reused_from is None for t in trials
        ):
            return
        excused = {"epochs"} if trial.values.get("max_steps") is not None else set()
        excused |= BRIEF.keys() if SMOKE in spec.tags else set()
        searched = [name for name in trial.searched if name in unread]
        fixed = [name for name in spec.fixed if name in unread and name not in excused]
        self._unread_told = bool(searched or fixed)
        if searched:
            _log.warning(
                "trial %d never read %s, which is in 'space': trials that differ only in it are "
                "the same; remove it from 'space', or add a condition (`when`) if another "
                "setting decides whether it has an effect",
                trial.number,
                " and ".join(searched),
            )
        if fixed:
            _log.warning(
                "trial %d never read %s, which is in 'fixed': it had no effect; remove it from "
                "'fixed', or let the method read it",
                trial.number,
                " and ".join(fixed),
            )

    def record_end(self, live: LiveTrial) -> None:
        """Record the end of a trial that came to its last step, or was stopped early."""
        best = live.trial.best(picked_by=self.state.spec.dev.checkpoint_name)
        error, cause = live.refused, "trial"
        if error is None and best is None:
            error = "it reported no dev score above step 0"
            if step := live.trial.last_step:
                error = (
                    f"its dev score is not a number at step {step}, as if all sentences had the "
                    "same embedding; try a lower learning_rate"
                )
            if live.stopped == STOPPED:
                error, cause = STOPPED, "person"
        if error is not None:
            self._finish_trial(live, "FAIL", error=error, cause=cause)
        else:
            self._finish_trial(live, "PRUNED" if live.stopped else "COMPLETE", why=live.stopped)

    def record_failure(self, live: LiveTrial, failure: Failure) -> None:
        """Resume a trial that raised an error or lost its process, or record that it failed.

        The whole traceback is written to a file in the sweep's folder.
        """
        if live.stopped or live.refused:
            self.record_end(live)  # it was being stopped anyway
            return
        trial, file = live.trial, self.errors / f"trial-{live.trial.number}.txt"
        earlier = f"\nBefore, it failed with:\n{file.read_text()}" if file.exists() else ""

        def write_traceback() -> None:
            self.errors.mkdir(parents=True, exist_ok=True)
            text = f"{failure.traceback.rstrip()}\n"
            if output_file(self._folder, trial.number).exists():
                logs = f"cse-sweep logs {self.state.spec.sweep} --trial {trial.number}"
                text += f"\nIts output: {logs}\n"
            file.write_text(text + earlier)

        wait_for_room(write_traceback, what=f"the traceback of trial {trial.number}")
        live.cut_offs[failure.end] += 1
        if live.cut_offs[failure.end] <= GOES_ON[failure.end]:
            step = trial.checkpoint[0] if trial.checkpoint else 0
            again = failure.message == live.interrupted_by
            reason = "again, as before" if again else f"({failure.message})"
            message = "trial %d was interrupted %s; it continues from step %d"
            _log.warning(message, trial.number, reason, step)
            self.state.live.pop(trial.key, None)
            resumed = LiveTrial(
                trial, live.cut_offs, live.provenance, failure.message, live.order_warned
            )
            self.state.left_over.append(resumed)
        else:
            self._finish_trial(live, "FAIL", error=failure.message, cause=CAUSES[failure.end])

    def _finish_trial(self, live: LiveTrial, state: TrialState, **reasons: str | None) -> None:
        trial, problem = live.trial, live.model_problem
        best = trial.best(picked_by=self.state.spec.dev.checkpoint_name)
        if state == "COMPLETE" and problem is not None and trial.checkpoint is not None:
            folder = mask_url(trial.checkpoint[1])
            _log.warning("the best checkpoint in %s cannot be kept: %s", folder, mask_text(problem))
        kept = state == "COMPLETE" and problem is None
        self.state.end_trial(
            trial,
            state,
            best_step=None if best is None else best.step,
            best_value=None if best is None else best.value,
            best_metrics={} if best is None else best.metrics,
            model=self.state.folders.model_location(trial.key) if kept else None,
            wall_seconds=trial.busy_seconds,
            gpus=self.state.spec.resources.gpu,
            costs=trial.costs.totals(),
            provenance=live.provenance,
            **reasons,
        )

    def _find_refusal(self, step: int, metrics: Mapping[str, float]) -> str | None:
        """Explain why a report is invalid; None if it is valid. NaN is valid until the end."""
        dev = self.state.spec.dev
        for name in map(dev_metric, (*dev.picking, *dev.climbed)):
            if name not in metrics:
                return f"it reported no {name} at step {step}"
            if abs(round_to_fraction(metrics[name])) > 1:
                return f"it reported {name} = {metrics[name]:g} at step {step}, not a fraction"
        return None
