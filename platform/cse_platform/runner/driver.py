"""Drive one sweep from its checked file to its last trial."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cse_methods.code_hash import outside_sources
from cse_platform.control.requests import Requests
from cse_platform.errors import JournalError, SweepRefusedError
from cse_platform.kept_models import wait_for_room
from cse_platform.numbers import format_count
from cse_platform.own_folders import OwnFolders
from cse_platform.runner.model_retention import delete_surplus_models
from cse_platform.runner.prior_results import (
    fill_in_stage_values,
    find_retried,
    hash_environment,
    refuse_other_content,
)
from cse_platform.runner.state import SweepState
from cse_platform.search.prior_results import (
    best_folders,
    gather_prior_results,
    name_best,
    refuse_lost_models,
)
from cse_platform.search.study import SearchStudy
from cse_platform.signals import interrupts_deferred
from cse_platform.standard_streams import EchoHandler
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.store import check_uri
from cse_platform.stores.optuna.sink import SearchStoreSink
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.sweep.identity import (
    DevData,
    Identity,
    has_nothing_to_add,
    refuse_changes,
    settings_hash,
)
from cse_platform.sweep.references import find_stage_references
from cse_platform.sweep.spec import SweepSpec, best_references, with_best
from cse_platform.sweep.start_points import start_points
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking import journal
from cse_platform.tracking.events import Launch, SweepFinished, SweepRequested, SweepStarted
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.method_code import METHOD_SOURCE, collect_method_code, keep_method_code
from cse_platform.tracking.provenance import code_diffs, installed_packages, sweep_provenance
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder, Sink, SinkHealth
from cse_platform.tracking.submission import BEGUN, ENDED

if TYPE_CHECKING:
    from cse_platform.runner.tune import RayExecutor

EndState = Literal["COMPLETE", "INTERRUPTED", "UNCHANGED"]
"""How a start ended. UNCHANGED: there was nothing left to do."""

Watch = Callable[[SweepState], AbstractContextManager[object]]
"""Shows a sweep's progress while its context is open."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The result of one start of a sweep."""

    state: EndState
    history: History
    launch: Launch
    """The launch of the sweep's file."""
    behind: tuple[SinkHealth, ...] = ()
    """Stores that have not received every event yet."""


def drive_sweep(
    spec: SweepSpec,
    stores: SweepStores,
    executor: "RayExecutor",
    *,
    launch: Launch | None = None,
    reuse: bool = True,
    watch: Watch = lambda state: nullcontext(),
) -> Outcome:
    """Run a sweep to its end, whether it is new, was cut off, or has been given a larger budget.

    `spec` must be checked, with its data source filled in. `launch` is that of its file; without
    one, the sweep is launched alone.

    Raises:
        SweepRefusedError: if the sweep of that name has a different file or different content, if
            the cluster lacks the resources of a trial, or if another driver holds the sweep.
        LeaseLostError: if another driver has taken the sweep over.
    """
    with (
        open_store(stores.leaderboard) as leaderboard,
        Journal(stores.journal) as journal,
        Lease(leaderboard, spec.sweep, journal) as lease,
        closing(Requests(leaderboard, spec.sweep)) as requests,
    ):
        driver = SweepDriver(
            spec, stores, executor, leaderboard, journal, lease, launch=launch, reuse=reuse
        )
        outcome = driver.run(requests, watch)
    _log.info("sweep %s %s", spec.sweep, ENDED)
    return outcome


class SweepDriver:
    """Drives one sweep whose stores are open and whose lease is held; `run` executes all steps.

    Each step keeps in the driver what the next ones need. Every check that can refuse the sweep
    comes before the start is recorded, so a refused start leaves no record.
    """

    def __init__(
        self,
        spec: SweepSpec,
        stores: SweepStores,
        executor: "RayExecutor",
        leaderboard: Store,
        journal: Journal,
        lease: Lease,
        *,
        launch: Launch | None = None,
        reuse: bool = True,
    ) -> None:
        self.spec, self.stores, self.executor, self.reuse = spec, stores, executor, reuse
        self.leaderboard, self.journal, self.lease = leaderboard, journal, lease
        self.history = History(event for _, event in journal.read())
        launch = launch or Launch(settings=settings_hash([spec]))
        self.launch = self.history.launches.get(launch.settings, launch)
        """The launch that this start belongs to: the first one with these settings."""

    def run(self, requests: Requests, watch: Watch) -> Outcome:
        """Execute all steps, from reading the journal to the sweep's end."""
        self.read_requests(requests.take())
        self.find_stage_values()
        check_uri(self.stores.mlflow)
        if has_work := self.identify():
            self.prepare()
        open_sink, stores = self.executor.open_sink, self.stores
        experiment, artifacts = self.spec.experiment, stores.artifacts
        sinks: list[Sink] = [
            LeaderboardSink(self.leaderboard, self.lease),
            open_sink(SearchStoreSink, stores, self.resolved),
            open_sink(MLflowMirror, stores.mlflow, experiment=experiment, artifacts=artifacts),
        ]
        recorder = Recorder(self.journal, sinks, self.lease.confirm)
        end: EndState = "UNCHANGED"
        try:
            if has_work:
                end = self.run_to_end(recorder, requests, watch)
        finally:
            # What a store still lacks, the next start delivers, or the driver that has the lease.
            health = recorder.close(0 if self.lease.is_lost else FLUSH_SECONDS)
        behind = tuple(sink for sink in health if sink.behind)
        return Outcome(end, self.history, self.launch, behind)

    def read_requests(self, requests: Iterable[SweepRequested]) -> None:
        """Add requests that arrived while no driver ran to the journal and the history.

        Requests that the history already has are skipped.

        Raises SweepRefusedError if the journal is an older copy.
        """
        refuse_older_copy(self.leaderboard, self.journal, self.spec.sweep)
        for request in requests:
            if request.request not in self.history.requests:
                self.history.apply(self.journal.append(request)[1])

    def dump_spec(self) -> dict[str, Any]:
        """Dump the sweep as JSON for its journal, without store URLs, which can hold passwords."""
        return self.spec.model_dump(mode="json", exclude={"stores"})

    def find_stage_values(self) -> None:
        """Fill in the values that the sweep takes from earlier stages.

        Raises SweepRefusedError if one of them is still missing, or if a sweep of that name was
        started from a different file.
        """
        self.stage_values = fill_in_stage_values(self.spec, self.history, self.stores)
        self.spec = self.stage_values.spec
        if awaited := find_stage_references(self.spec.fixed):
            raise SweepRefusedError(
                f"sweep {self.spec.sweep!r} takes {' and '.join(map(str, awaited.values()))}, "
                "which is not complete yet; run the whole file"
            )
        refuse_changes(self.history.spec, self.dump_spec())

    def identify(self) -> bool:
        """Hash encoders and data. Returns whether there is anything to do.

        Raises SweepRefusedError if the trials so far would have different results now.
        """
        spec, dev = self.spec, DevData(self.spec)
        references = best_references(spec)
        best = self.stage_values.best | best_folders(spec, dev, self.leaderboard, references)
        self.best = self.history.best or best
        refuse_lost_models(spec, self.history.best, self.leaderboard)
        self.method = spec.find_method()
        self.resolved = with_best(spec, {r: self.best[r.placeholder] for r in references})
        self.identity = Identity(self.resolved, self.method, dev)
        self.packages = installed_packages()
        self.environment = hash_environment(spec, self.identity, self.packages)
        self.to_retry = find_retried(self.history, self.environment)
        no_more = has_nothing_to_add(self.history.spec, self.dump_spec())
        refuse_other_content(self.history, self.resolved, self.identity)
        return bool(self.to_retry) or not (self.history.complete and no_more)

    def prepare(self) -> None:
        """Look up the results of earlier sweeps, replay the search, and make the start's event.

        Raises SweepRefusedError if the sweep's folder in the storage is that of another runs
        folder.
        """
        spec, method = self.spec, self.method
        self.folders = OwnFolders(self.stores.storage, spec.sweep, self.stores.runs)
        self.folders.refuse_other_owner(self.journal.id)
        prior = gather_prior_results(
            self.history, self.resolved, self.leaderboard, dev=self.identity.dev
        )
        self.search = SearchStudy(
            self.resolved,
            start_points=start_points(self.resolved, method, prior.leaders or {}),
            history=self.history,
            learned=prior.learned,
        )
        outside = next(iter(outside_sources(method).values()), None)
        code, kept = collect_method_code(method), dict[str, str]()
        if code is not None:
            what = f"the source of {spec.method}"
            location = wait_for_room(lambda: keep_method_code(code, self.stores.folder), what=what)
            kept = {METHOD_SOURCE: location}
        origins = self.stage_values.origins.items()
        stage_origins = {f"fixed.{name}": origin for name, origin in origins}
        self.event = SweepStarted(
            sweep=spec.sweep,
            method=spec.method,
            backbone=spec.backbone,
            spec=self.dump_spec(),
            best=self.best,
            leaders=prior.leaders,
            learned=prior.learned,
            content=self.identity.content(),
            environment=self.environment,
            launch=self.launch,
            packages=self.packages,
            provenance=sweep_provenance(outside) | kept | stage_origins,
            diffs=code_diffs(outside),
        )
        self.notes = [
            *self.stage_values.notes(),
            *name_best(spec, self.best, self.leaderboard),
            *prior.notes(self.resolved),
        ]
        if self.to_retry:
            self.notes.insert(0, f"trying {format_count(len(self.to_retry), 'failed trial')} again")

    def begin(self, recorder: Recorder) -> SweepState:
        """Record a start. Returns the state that the executor works on."""
        self.folders.claim(self.journal.id)
        state = SweepState(
            self.resolved,
            self.method,
            self.identity,
            self.history,
            recorder,
            self.search,
            self.leaderboard,
            self.lease,
            self.folders,
            self.reuse,
            self.to_retry,
        )
        state.record(self.event)
        for note in self.notes:
            state.send_message(note)
        return state

    def run_to_end(self, recorder: Recorder, requests: Requests, watch: Watch) -> EndState:
        """Begin the sweep, run its trials, and record its end or interruption."""
        end: EndState = "INTERRUPTED"

        def finish() -> None:
            why = state.gave_up
            state.record(SweepFinished(sweep=self.spec.sweep, state=end, why=why))
            self.folders.close()

        with ExitStack() as at_end:
            with interrupts_deferred():  # otherwise a Ctrl-C could leave a start without its end
                state = self.begin(recorder)
                at_end.callback(finish)
            try:
                with warnings_recorded(state), watch(state):
                    _log.info("sweep %s %s", self.spec.sweep, BEGUN)
                    done = self._run_and_score(state, requests)
                if done:
                    delete_surplus_models(state)
                    end = "COMPLETE"
                    self.folders.close()
                    self.folders.delete_checkpoints()
            except Exception as error:
                state.send_message(str(error) or repr(error), "error")
                raise
        return end

    def _run_and_score(self, state: SweepState, requests: Requests) -> bool:
        """Run and score trials until no more are wanted. Returns False after Ctrl-C.

        Raises SweepRefusedError if the executor lacks the resources of a trial, or if every trial
        so far has failed with the same error.
        """
        while True:
            state.finished = False
            self.executor.run_trials(state, requests, self.stores)
            if state.gave_up is not None:
                sweep, limit = self.spec.sweep, self.spec.search.give_up_after
                raise SweepRefusedError(
                    f"sweep {sweep!r} has stopped, because every trial so far has failed with "
                    f"the same error: {state.gave_up}; correct the file, the code, the data or "
                    "a package and run the same command, or force it with cse-sweep retry "
                    f"{sweep}; --set search.give_up_after=N allows N such failures (now {limit})"
                )
            if state.live or not state.finished:
                return False  # after a Ctrl-C
            self.executor.score_models(
                state, apply_requests=lambda: state.apply_requests(requests.take())
            )
            if not (state.to_retry or state.searches_on):  # as a person may have asked meanwhile
                return True


def refuse_older_copy(leaderboard: Store, journal: Journal, sweep: str) -> None:
    """Raise SweepRefusedError if the leaderboard has more events of a journal than its file."""
    try:
        journal.refuse_older_copy(LeaderboardSink(leaderboard).position(journal.id))
    except JournalError:
        raise SweepRefusedError(
            f"the leaderboard has events of sweep {sweep!r} that {journal.path} lacks: the file "
            "is an older copy; put the newest copy back, or, if there is none, run it as "
            "another sweep, which reuses the complete trials: --set sweep=NEWNAME"
        ) from None


@contextmanager
def warnings_recorded(state: SweepState) -> Iterator[None]:
    """Also write every warning of the platform to the journal while the context is open."""
    handler, logger = _JournalLogHandler(state), logging.getLogger("cse_platform")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _JournalLogHandler(EchoHandler):
    def __init__(self, state: SweepState) -> None:
        super().__init__(logging.WARNING)
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.root.handlers:
            super().emit(record)
        if record.name != journal.__name__:  # a journal that cannot be written cannot record that
            self._state.send_message(record.getMessage(), "warning")
