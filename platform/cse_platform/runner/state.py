"""The state of a running sweep and of its running trials, which planner and results share."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from cse_methods.contract import Method
from cse_methods.tasks import Tasks
from cse_platform.own_folders import OwnFolders
from cse_platform.runner.failures import End
from cse_platform.runner.nodes import NodeChecks
from cse_platform.runner.report_messages import RaisedError
from cse_platform.search.budgets import trial_budget
from cse_platform.search.confirmation import count_left_behind
from cse_platform.search.study import SearchStudy
from cse_platform.secrets import mask_text
from cse_platform.signals import interrupt
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import Store
from cse_platform.sweep.identity import Identity
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking import events
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.output import OutputFile
from cse_platform.tracking.packing import make_test_accesses
from cse_platform.tracking.recorder import Recorder


@dataclass(eq=False)
class LiveTrial:
    """One attempt at a trial, in one process: what the driver knows of it besides its history.

    Readings of the clock are in seconds, without the time during which the driver was blocked.
    """

    trial: TrialHistory
    cut_offs: Counter[End] = field(default_factory=Counter)
    """How often the trial was cut off, in earlier attempts too; a checkpoint resets crashes."""
    provenance: dict[str, str] = field(default_factory=dict)
    """Merged from its reports, each of which has only what is new."""
    interrupted_by: str | None = None
    """What ended the attempt before this one."""
    order_warned: bool = False
    """Whether a warning was given that its steps do not rise."""
    wait_warned: bool = False
    """Whether a warning was given that it waits; each report resets it."""
    last_step: int = -1
    """The highest reported step. A resumed trial repeats the steps after its checkpoint."""
    stopped: str | None = None
    """Why it is stopped early: the pruner's reason, or that a person stops it."""
    refused: str | None = None
    """Why its report is invalid; it is recorded as failed when it ends."""
    raised: RaisedError | None = None
    """The error that its worker has reported."""
    model_problem: str | None = "its worker has not said so"
    """Why its worker could not keep its model; None if it could."""
    output: OutputFile | None = None
    """The file of its output; None before it has printed anything."""
    ray_trial: Any = None
    """Ray Tune's object for it; None before Ray has it."""
    may_run_on: frozenset[str] | None = None
    """Ray's ids of the nodes that it may run on; None if all may run it."""
    node: str | None = None
    """Ray's id of the node that it runs on; None before its first report."""
    begun_at: float | None = None
    """The clock when its process was first seen running."""
    reported_at: float | None = None
    """The clock at its last report."""
    longest_gap: float = 0.0
    """The longest time between two of its reports."""
    killed: str | None = None
    """The time limit for which its process was killed."""


@dataclass
class SweepState:
    """A running sweep. The history is read from the journal, and all decisions follow from it."""

    spec: SweepSpec
    method: Method
    identity: Identity
    history: History
    recorder: Recorder
    search: SearchStudy
    leaderboard: Store
    lease: Lease
    folders: OwnFolders
    reuse: bool = True
    to_retry: list[TrialHistory] = field(default_factory=list)
    """Failed trials that are still to be retried."""
    live: dict[str, LiveTrial] = field(default_factory=dict)
    """The trials that Ray holds now, by key."""
    left_over: list[LiveTrial] = field(default_factory=list)
    """Trials that were cut off and are to resume from their last checkpoint."""
    refused: set[str] = field(default_factory=set)
    """Requests that enqueued a configuration which the method refuses."""
    finished: bool = False
    gave_up: str | None = None
    """The error of all trials so far, if that has ended the sweep."""
    scored: tuple[int, int] | None = None
    """How many of the trials selected on dev are scored on test sets, and how many there are; None
    before the scoring, and if there are none."""
    nodes: NodeChecks | None = None
    """The nodes of a joined cluster that get trials; None where all nodes do."""

    @property
    def budget(self) -> int | None:
        """Number of trials of the search, enqueued ones included; None while it is unlimited."""
        return trial_budget(self.spec, self.history)

    @property
    def next_enqueued(self) -> str | None:
        """The oldest request whose configuration is still to be started; None if there is none."""
        waiting = self.history.list_waiting()
        return next((request for request in waiting if request not in self.refused), None)

    @property
    def searches_on(self) -> bool:
        """Whether the search may begin more trials; an enqueued one begins whatever the budget."""
        within_budget = self.budget is None or self.history.searched < self.budget
        return within_budget or self.next_enqueued is not None

    @property
    def planned(self) -> int | None:
        """The largest possible number of trials, further seeds included; None if unknown."""
        if self.finished:
            return len(self.history.trials)
        if self.budget is None:
            return None
        left_behind = count_left_behind(self.history, self.spec)
        return self.budget + self.spec.confirming + left_behind

    def record(self, event: events.Event) -> None:
        """Write an event to the journal, and apply it to the history; returns once it is written.

        Raises LeaseLostError, before anything is written, if another driver has taken the sweep.
        """
        self.lease.check()
        self.history.apply(self.recorder.record(event))

    def end_trial(self, trial: TrialHistory, state: events.TrialState, **results: Any) -> None:
        """Record the end of a trial, with its results, and let go of what it occupied.

        A complete trial without another copy of its model keeps its checkpoint.
        """
        sweep = self.spec.sweep
        self.record(events.TrialFinished(sweep=sweep, trial=trial.key, state=state, **results))
        if trial.checkpoint is not None and not needs_checkpoint(trial):
            self.folders.delete_checkpoint(trial.checkpoint[1])
        self.live.pop(trial.key, None)
        self.search.tell(trial)

    def record_test_access(self, trial: str, tasks: Tasks) -> None:
        """Record that test sets are about to be opened for a trial; raises as `record` does."""
        sweep = self.spec.sweep
        for access in make_test_accesses(
            tasks, self.spec.data, sweep=sweep, trial=trial, command="cse-sweep"
        ):
            self.record(access)

    def send_message(self, text: str, level: events.MessageLevel = "note") -> None:
        """Send a message to all who follow the sweep, here or elsewhere; callable by any thread."""
        if not self.lease.is_lost:
            message = events.DriverMessage(sweep=self.spec.sweep, level=level, text=mask_text(text))
            self.history.apply(self.recorder.record(message))

    def apply_requests(
        self,
        requests: Iterable[events.SweepRequested],
        *,
        stop_trial: Callable[[LiveTrial], None] = lambda live: None,
    ) -> None:
        """Record new requests in the journal and act on them; the planner does the rest.

        `stop_trial` ends a trial that would go on.
        """
        for request in requests:
            if request.request in self.history.requests:
                continue
            self.record(request)
            if request.action == "stop" and request.numbers:
                for live in [*self.live.values(), *self.left_over]:
                    if live.trial.number in request.numbers:
                        stop_trial(live)
            elif request.action == "stop":
                interrupt()
            elif request.action == "retry":
                trials = self.history.trials.values()
                requested = [trial for trial in trials if trial.retry_requested]
                self.to_retry += [trial for trial in requested if trial not in self.to_retry]


def needs_checkpoint(trial: TrialHistory) -> bool:
    """Whether a trial resumes from its checkpoint, or has no other copy of its model.

    A retried trial starts over and needs none.
    """
    return trial.state == "RUNNING" or (trial.state == "COMPLETE" and trial.model is None)
