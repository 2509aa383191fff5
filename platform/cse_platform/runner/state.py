"""The state of a running sweep, which the planner and the results share."""

import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from cse_methods.contract import Method
from cse_methods.tasks import Tasks
from cse_platform.errors import StoreDownError
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.store import Store
from cse_platform.runner.cluster.checks import NodeChecks
from cse_platform.runner.models import FolderDeletions
from cse_platform.search.study import SearchStudy
from cse_platform.secrets import mask_text
from cse_platform.sweep.blocks import Slot
from cse_platform.sweep.identity import Identity
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import DriverMessage, Event, MessageLevel, TestAccessed
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.packing import accessed_source
from cse_platform.tracking.provenance import user_and_host
from cse_platform.tracking.recorder import Recorder

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_HANG_SECONDS = 1.0
"""Seconds after which a search store that does not answer is left alone for some time."""
_REST_FACTOR = 3.0
"""How long it is left alone, as a multiple of the time it took, which blocks the driver."""


Reuse = Literal["same code", "unknown code too", "nothing"]
"""Which complete trials of other sweeps are taken over."""


@dataclass
class SweepState:
    """A running sweep. The history is what the journal says; everything is decided by it."""

    spec: SweepSpec
    method: Method
    identity: Identity
    history: History
    recorder: Recorder
    search: SearchStudy
    leaderboard: Store
    lease: Lease
    reuse: Reuse = "same code"
    to_retry: list[TrialHistory] = field(default_factory=list)
    """Failed trials that are still to be tried again."""
    live: set[str] = field(default_factory=set)
    """Keys of the trials that Ray has now."""
    stalled: set[str] = field(default_factory=set)
    """Keys of the trials that have said nothing for long."""
    left_over: list[TrialHistory] = field(default_factory=list)
    """Trials that were cut off and go on from their last checkpoint."""
    finished: bool = False
    gave_up: str | None = None
    """Why all trials so far have failed, once that ends the sweep."""
    scored: tuple[int, int] | None = None
    """Of the trials that dev has chosen: how many are scored on test sets, and how many there
    are; None before."""
    search_error: str | None = None
    """The error of a search store that does not answer; None while it does."""
    search_rests: float = 0.0
    """Until when the search store is left alone, by `time.monotonic`."""
    ray_is_up: bool = False
    """Whether Ray has been started, or joined."""
    nodes: NodeChecks | None = None
    """Which nodes of a joined cluster get trials; None where all do."""
    deletions: FolderDeletions = field(default_factory=FolderDeletions)
    """Checkpoints that nothing needs any more."""
    slot: Slot = field(init=False)
    """The resources that a running trial occupies."""

    def __post_init__(self) -> None:
        self.slot = self.spec.resources.slot

    @property
    def budget(self) -> int | None:
        """Number of trials of the search, including those that a person has put in.

        None while no number limits it.
        """
        if self.history.search_limit is not None:
            return self.history.search_limit
        return None if self.spec.budget is None else self.spec.budget + len(self.history.enqueued)

    @property
    def checked(self) -> Set[str] | None:
        """The ids of the nodes that get trials; None if all nodes do."""
        return None if self.nodes is None else self.nodes.passed

    @property
    def searches_on(self) -> bool:
        """Whether the search takes more trials than it has begun."""
        return self.budget is None or self.history.searched < self.budget

    @property
    def wants_more(self) -> bool:
        """Whether trials are to be run beside those that have been."""
        return bool(self.to_retry) or self.searches_on

    @property
    def planned(self) -> int | None:
        """Greatest number of trials, further seeds and averages included; None while unknown."""
        if self.finished:
            return len(self.history.trials)
        if self.budget is None:
            return None
        return self.budget + self.spec.confirming + self.spec.averaging

    def record(self, event: Event) -> None:
        """Write to the journal; returns when it is written.

        LeaseLostError, before anything is written, if another driver has taken the sweep over.
        """
        self.lease.check()
        self.history.apply(self.recorder.record(event))

    def record_test_access(self, trial: str, tasks: Tasks) -> None:
        """Record that test sets are about to be opened for a trial; as `record`."""
        self.record(
            TestAccessed(
                sweep=self.spec.sweep,
                trial=trial,
                tasks=tasks.names,
                source=accessed_source(tasks, self.spec.data),
                who=user_and_host(),
                command="cse-sweep",
            )
        )

    def say(self, text: str, level: MessageLevel = "note") -> None:
        """Tell everybody who follows the sweep, here or elsewhere; safe to call from any thread."""
        if not self.lease.is_lost:
            message = DriverMessage(sweep=self.spec.sweep, level=level, text=mask_text(text))
            self.history.apply(self.recorder.record(message))

    def cut_off(self) -> None:
        """Note that nothing runs any more; the next planner finds in the history what goes on."""
        self.live.clear()
        self.left_over.clear()
        self.stalled.clear()

    def with_search(self, call: Callable[[], _T]) -> _T | None:
        """Call the search store; None while it is down.

        Reports that it missed are repeated from the history before its next answer. StoreLostError,
        where no wait helps, if it answers and has lost what the journal knows. LeaseLostError, and
        no call, if another driver has taken the sweep over.
        """
        self.lease.check()
        if (began := time.monotonic()) < self.search_rests:
            return None
        try:
            if self.search_error is not None:
                self.search.reconcile(self.history)
                _log.warning("the search store is back")
            answer = call()
        except StoreDownError as error:
            if self.search_error is None:
                _log.warning("%s; no new trials until it is back", error)
            self.search_error = str(error)
            if (taken := time.monotonic() - began) > _HANG_SECONDS:
                self.search_rests = time.monotonic() + _REST_FACTOR * taken
            return None
        self.search_error = None
        return answer
