"""A sweep's history: what its journal says, put together. The driver decides by it alone."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from cse_methods.data.dev_selection import DevSelection
from cse_platform.tracking import events
from cse_platform.tracking.effort import SearchEffort
from cse_platform.tracking.trial_history import TrialHistory


class History:
    """All trials of one sweep by key, in the order they were started."""

    def __init__(self, past: Iterable[events.Event] = ()) -> None:
        self.spec: dict[str, Any] | None = None
        self.best: dict[str, str] = {}
        self.leaders: dict[str, dict[str, Any]] | None = None
        """What `start_from: [leaderboard]` stands for; None where it was never asked for."""
        self.learned: tuple[events.LearnedTrial, ...] = ()
        """What the sampler knows of other sweeps."""
        self.content: dict[str, Any] = {}
        """What the numbers of the trials follow from, at the last start."""
        self.environment: str | None = None
        """What a failure can come from, at the last start."""
        self.complete = False
        self.paused = False
        """Whether no trial is to be started until a person says so."""
        self.asked_trials = 0
        """How many trials the search was asked to take while it ran; its file may ask for more."""
        self.enqueued: dict[str, dict[str, Any]] = {}
        """Configurations that were asked for beside the search's own, by request."""
        self.spent: str | None = None
        """The budget that has ended the search, in words, where it was not the number of trials."""
        self.search_limit: int | None = None
        """How many trials the search takes from then on."""
        self.effort = SearchEffort()
        self.messages: list[events.DriverMessage] = []
        """What the driver has said since its last start."""
        self.requests: set[str] = set()
        """All that were heard."""
        self.trials: dict[str, TrialHistory] = {}
        self.attempts: dict[int, TrialHistory] = {}
        """Each trial of the search by its number in the study, those included that were tried
        again since."""
        for event in past:
            self.apply(event)

    def apply(self, event: events.Event) -> None:
        """Apply one event; an event that is repeated changes nothing."""
        self.effort.apply(event)
        match event:
            case events.SweepStarted():
                if self.spec is not None and self.spec.get("search") != event.spec.get("search"):
                    self.spent = self.search_limit = None
                self.spec, self.best, self.complete = event.spec, event.best, False
                self.content, self.environment = event.content, event.environment
                self.learned = event.learned or ()
                self.leaders = event.leaders if event.leaders is not None else self.leaders
                self.messages = []
                for trial in self.unfinished():
                    trial.last_heard = None  # nothing ran while the driver was away
            case events.SweepRequested() if event.request not in self.requests:
                self.requests.add(event.request)
                self._request(event)
            case events.DriverMessage():
                self.messages.append(event)
            case events.SearchEnded():
                self.spent, self.search_limit = event.budget, self.searched
            case events.SweepFinished():
                self.complete = event.state == "COMPLETE"
            case events.TrialStarted():
                self._start(event)
            case events.TrialReused():
                self._reuse(event)
            case events.TrialPoint():
                self._point(event)
            case events.TrialFinished():
                self._finish(event)
            case events.ModelDeleted():
                trial = self.trials[event.trial]
                trial.model, trial.model_deleted = None, True
            case events.TrialEvaluated():
                done = self.trials[event.trial].evaluated.setdefault(event.settings, set())
                done |= set(event.tasks)

    def unfinished(self) -> list[TrialHistory]:
        """Trials that were started and have no end, oldest first."""
        return [trial for trial in self.trials.values() if trial.state == "RUNNING"]

    @property
    def searched(self) -> int:
        """How many trials the search has begun."""
        return sum(trial.role != "confirm" for trial in self.trials.values())

    def configurations(self) -> dict[str, list[TrialHistory]]:
        found: dict[str, list[TrialHistory]] = {}
        for trial in self.trials.values():
            if trial.state == "COMPLETE":
                found.setdefault(trial.configuration, []).append(trial)
        return found

    @property
    def _checkpoint(self) -> str:
        """The dev set that picks checkpoints."""
        stored = ((self.spec or {}).get("dev") or {}).get("checkpoint")
        return DevSelection().checkpoint if stored is None else str(stored)

    def _request(self, event: events.SweepRequested) -> None:
        match event.action:
            case "pause":
                self.paused = True
            case "resume":
                self.paused = False
                if event.trials is not None and self.spec is not None:
                    self.complete = False
                    self.asked_trials = event.trials
                    self.spec = event.with_budget(self.spec)
                    self.spent = self.search_limit = None
            case "enqueue":
                self.complete = False
                self.enqueued[event.request] = event.values
                if self.search_limit is not None:
                    self.search_limit += 1
            case "retry":
                for trial in self.trials.values():
                    asked = trial.number in event.numbers and trial.state == "PRUNED"
                    trial.asked_again |= asked or (
                        trial.state == "FAIL"
                        and (not event.numbers or trial.number in event.numbers)
                    )

    def _start(self, event: events.TrialStarted) -> None:
        known = self.trials.get(event.trial)
        if known is None or event.resumed_from is None:
            self._drop_failed(event)
            known = TrialHistory(key=event.trial, started=event.time, **events.asked_of(event))
            self.trials[event.trial] = known
            self._note_attempt(known)
        known.environment = self.environment
        known.last_heard, known.resumed_from = event.time, event.resumed_from
        if known.checkpoint is not None and known.checkpoint[0] != event.resumed_from:
            known.checkpoint = None  # it was gone

    def _drop_failed(self, event: events.TrialStarted | events.TrialReused) -> None:
        """Forget the failed trial that has the number of this second attempt, and another key."""
        if event.number < len(self.trials):  # numbers count up, except those of second attempts
            for key, trial in list(self.trials.items()):
                if trial.number == event.number and key != event.trial:
                    del self.trials[key]

    def _reuse(self, event: events.TrialReused) -> None:
        self._drop_failed(event)
        self.trials[event.trial] = TrialHistory(
            key=event.trial,
            started=event.time,
            finished=event.time,
            state="COMPLETE",
            curve=event.curve,
            kept=_kept(event),
            best_step=event.best_step,
            best_value=event.best_value,
            best_metrics=event.best_metrics,
            wall_seconds=event.wall_seconds,
            gpus=event.gpus,
            model=event.model,
            reused_from=event.reused_from,
            **events.asked_of(event),
        )
        self._note_attempt(self.trials[event.trial])

    def _note_attempt(self, trial: TrialHistory) -> None:
        if trial.search_number is not None:
            self.attempts[trial.search_number] = trial

    def _point(self, event: events.TrialPoint) -> None:
        trial = self.trials[event.trial]
        trial.ran_until(event.time)
        if event.step in trial.curve:
            return
        trial.add_point(event, checkpoint=self._checkpoint)
        if event.checkpoint is not None:
            trial.checkpoint = (event.step, event.checkpoint)

    def _finish(self, event: events.TrialFinished) -> None:
        trial = self.trials[event.trial]
        trial.ran_until(event.time)
        trial.state, trial.error, trial.finished = event.state, event.error, event.time
        trial.why, trial.cause = event.why, event.cause
        trial.best_step, trial.best_value = event.best_step, event.best_value
        trial.best_metrics = event.best_metrics
        trial.model, trial.model_deleted = event.model, False
        trial.wall_seconds, trial.gpus = event.wall_seconds, event.gpus


def _kept(reused: events.TrialReused) -> dict[int, float]:
    """What would have been kept, by step; before the best step only where it is known.

    The event has the curve that the search climbs, and not that of another set that picks.
    """
    steps = sorted(step for step in reused.curve if step > 0)
    rising = dict(zip(steps, accumulate((reused.curve[step] for step in steps), max), strict=True))
    if max(rising.values(), default=reused.best_value) == reused.best_value:
        return rising
    return {step: reused.best_value for step in steps if step >= reused.best_step}
