"""Runs one sweep, from its checked file to its last trial."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from cse_methods.code_hash import outside_sources
from cse_methods.contract import Method
from cse_methods.errors import BackboneError
from cse_methods.registry import get_method
from cse_platform.errors import JournalError, StoreError, SweepRefusedError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.ingest.sweep_events import holds_rehearsals
from cse_platform.leaderboard.store import Store, open_store
from cse_platform.leaderboard.trial_references import best_kept_trial
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.render.formats import counted
from cse_platform.runner.evaluation import evaluate_selected
from cse_platform.runner.models import NOT_ITS_MODEL, delete_folder, holds_other_model
from cse_platform.runner.planning.compatibility import (
    environment_hash,
    refuse_other_content,
    to_try_again,
)
from cse_platform.runner.planning.confirmation import chosen_trials, pareto_front
from cse_platform.runner.planning.prior_results import gather, value_notes, with_found_values
from cse_platform.runner.planning.requests import Requests
from cse_platform.runner.publishing import Publisher
from cse_platform.runner.run_trials import run_trials
from cse_platform.runner.state import Reuse, SweepState
from cse_platform.search.study import SearchStudy
from cse_platform.secrets import mask_url
from cse_platform.signals import interrupts_deferred
from cse_platform.sweep.identity import DevData, Identity, has_nothing_to_add, refuse_changes
from cse_platform.sweep.references import BestReference, find_stage_references
from cse_platform.sweep.spec import SweepSpec, best_references, with_best
from cse_platform.sweep.start_points import start_points
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking import journal
from cse_platform.tracking.events import MODEL_DIGITS, ModelDeleted, SweepFinished, SweepStarted
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.mlflow.mirror import MLflowMirror
from cse_platform.tracking.provenance import code_diffs, installed_packages, sweep_provenance
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder, SinkHealth
from cse_platform.tracking.submission import BEGUN, ENDED


@contextmanager
def warnings_told(state: SweepState) -> Iterator[None]:
    """Write every warning of the platform to the journal, too, while the context is open."""
    handler, logger = _JournalLogHandler(state), logging.getLogger("cse_platform")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _JournalLogHandler(logging.Handler):
    def __init__(self, state: SweepState) -> None:
        super().__init__(logging.WARNING)
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.root.handlers:
            logging.lastResort.handle(record)  # as Python does where nobody handles a record
        if record.name != journal.__name__:  # that it cannot be written cannot be written to it
            self._state.say(record.getMessage(), "warning")


_log = logging.getLogger(__name__)


def delete_surplus_models(state: SweepState) -> None:
    """Delete models except those of the best configurations and those that other sweeps need.

    Each deletion is recorded before it happens, so no record ever names a model that is gone. While
    the leaderboard is down, which knows what others need, nothing is deleted.
    """
    if state.spec.kept is None:
        return
    surplus = surplus_models(state.history, state.spec, configurations=state.spec.kept)
    try:
        with state.leaderboard.session() as session:
            used = used_elsewhere(session, [trial.key for trial in surplus], sweep=state.spec.sweep)
    except StoreError as error:
        _log.warning("%s; so no model was deleted", error)
        return
    for trial in surplus:
        model = trial.model
        if trial.key not in used and model is not None and _may_delete(model, trial.key):
            state.record(ModelDeleted(sweep=state.spec.sweep, trial=trial.key))
            delete_folder(model)


def _may_delete(place: str, trial: str) -> bool:
    """Whether a place has nothing but the model of this trial; if not, a warning says so."""
    try:
        if not holds_other_model(place, trial):
            return True
    except BackboneError as error:
        _log.warning("%s; so it was not deleted", error)
    else:
        message = NOT_ITS_MODEL.format(trial[:MODEL_DIGITS])
        _log.warning("%s %s; so it was not deleted", mask_url(place), message)
    return False


def surplus_models(
    history: History, spec: SweepSpec, *, configurations: int
) -> Collection[TrialHistory]:
    """Find trials that ran here and kept a model, but are of none of the best configurations.

    Those on the Pareto front keep theirs, too. The trial with the highest value keeps its model in
    any case: it is what `best:` stands for.
    """
    trials = history.trials.values()
    front = pareto_front(history, spec.search) if spec.search.objectives else []
    chosen = [*chosen_trials(history, spec, top=configurations), *chain.from_iterable(front)]
    best = {trial.key for trial in chosen}
    highest = max((t.best_value or 0.0 for t in trials if t.model is not None), default=0.0)
    return [
        trial
        for trial in trials
        if trial.model is not None
        and trial.reused_from is None
        and trial.key not in best
        and trial.best_value != highest
    ]


EndState = Literal["COMPLETE", "INTERRUPTED", "UNCHANGED"]
"""UNCHANGED: there was nothing left to do."""

Watch = Callable[[SweepState], AbstractContextManager[object]]
"""Shows a sweep's progress while its context is open."""


@dataclass(frozen=True)
class Outcome:
    """The result of one start of a sweep."""

    state: EndState
    history: History
    behind: tuple[SinkHealth, ...] = ()
    """Stores that do not have everything yet."""


def run_sweep(
    spec: SweepSpec,
    places: SweepStores,
    publisher: Publisher,
    *,
    address: str | None = None,
    ship: bool = True,
    reuse: Reuse = "same code",
    watch: Watch = lambda state: nullcontext(),
) -> Outcome:
    """Run a sweep to its end: from the start, from where it was cut off, or by a larger budget.

    The spec is checked, and its data source is written out. The publisher may still be at work when
    the sweep has ended. Without an address of a Ray cluster, Ray is started on this machine. The
    code travels to a cluster's nodes, unless `ship` is False.

    Raises:
        SweepRefusedError: if the sweep of that name was another one, by its file or by what its
            numbers follow from, if the cluster does not have what a trial asks for, or if another
            driver holds the sweep.
        LeaseLostError: if another driver has taken the sweep over.
    """
    with (
        open_store(places.leaderboard) as leaderboard,
        Journal(places.journal) as journal,
        Lease(leaderboard, spec.sweep, journal) as lease,
        Requests(leaderboard, spec.sweep) as requests,
    ):
        history = _read_history(leaderboard, journal, requests, spec)
        spec, origins = _complete_spec(spec, history, places)
        asked = spec.model_dump(mode="json", exclude={"stores"})  # URLs can hold passwords
        refuse_changes(history.spec, asked)
        mirror = MLflowMirror(places.mlflow, experiment=spec.experiment, artifacts=places.artifacts)
        begin = prepare(spec, asked, places, journal.id, history, leaderboard, reuse, origins)
        recorder = Recorder(journal, [LeaderboardSink(leaderboard, lease), mirror])
        state: EndState = "INTERRUPTED" if begin else "UNCHANGED"
        try:
            if begin is not None:
                publisher.start(journal)
                state = run_to_end(
                    lambda: begin(recorder, lease),
                    requests,
                    places,
                    address=address,
                    ship=ship,
                    watch=watch,
                )
        finally:
            try:
                health = recorder.close(0 if lease.is_lost else FLUSH_SECONDS)
            except BaseException:  # by somebody who does not want to wait for it
                publisher.stop()
                raise
            behind = tuple(sink for sink in health if sink.behind)
            if behind or lease.is_lost:  # the next start shows what these stores lack
                publisher.stop()
            else:
                publisher.finish(journal, complete=state != "INTERRUPTED")
    _log.info("sweep %s %s", spec.sweep, ENDED)
    return Outcome(state, history, behind)


def _read_history(
    leaderboard: Store, journal: Journal, requests: Requests, spec: SweepSpec
) -> History:
    """Read the sweep's history, and take into it what was asked while no driver ran.

    Raises:
        SweepRefusedError: if the journal is an older copy, or rehearsals and real sweeps would mix.
    """
    refuse_older_copy(leaderboard, journal, spec.sweep)
    history = History(event for _, event in journal.read())
    _refuse_rehearsals(leaderboard, history, spec)
    for request in requests.take():
        if request.request not in history.requests:
            history.apply(journal.append(request)[1])
    return history


def _complete_spec(
    spec: SweepSpec, history: History, places: SweepStores
) -> tuple[SweepSpec, Mapping[str, str]]:
    """Give the spec the budget that was asked for and the values that earlier stages found.

    Returns the spec and where each such value is from; SweepRefusedError if one is not found yet.
    """
    spec, origins = with_found_values(spec.with_budget(history.asked_trials), history, places)
    if awaited := find_stage_references(spec.fixed):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {' and '.join(map(str, awaited.values()))}, which is "
            "not complete; run the whole file"
        )
    return spec, origins


def refuse_older_copy(leaderboard: Store, journal: Journal, sweep: str) -> None:
    """Raise SweepRefusedError if the leaderboard has more of a journal than its file has."""
    try:
        journal.refuse_older_copy(LeaderboardSink(leaderboard).position(journal.id))
    except JournalError:
        raise SweepRefusedError(
            f"the leaderboard has events of sweep {sweep!r} that {journal.path} lacks: the file is "
            "an older copy; put the newest copy back, or, where there is none, run it as another "
            "sweep, which takes over the trials that are complete: --set sweep=NEWNAME"
        ) from None


def _refuse_rehearsals(leaderboard: Store, history: History, spec: SweepSpec) -> None:
    """Raise SweepRefusedError where a sweep and a rehearsal would share a journal or a store."""
    with leaderboard.session() as session:
        there = {holds_rehearsals(session)}
    there |= {None if history.spec is None else bool(history.spec.get("smoke"))}
    if not there <= {None, spec.smoke}:
        kind = "sweeps that are no rehearsals" if spec.smoke else "rehearsals, made by --smoke"
        raise SweepRefusedError(
            f"the leaderboard or the journal of sweep {spec.sweep!r} holds {kind}, and neither "
            "ever holds both; name another folder by --runs, or another leaderboard"
        )


def prepare(
    spec: SweepSpec,
    asked: dict[str, Any],
    places: SweepStores,
    journal: str,
    history: History,
    leaderboard: Store,
    reuse: Reuse,
    origins: Mapping[str, str],
) -> Callable[[Recorder, Lease], SweepState] | None:
    """Do everything that can fail before the first trial: encoders, data, the search store.

    `asked` is the sweep as JSON, for the journal with the identity `journal`; best encoders are
    looked up in the leaderboard. `origins` says which settings have values of earlier stages.

    Returns a function that begins the sweep, so that no start is recorded of a refused one; None if
    the sweep has nothing left to do.
    """
    method, dev, references = get_method(spec.method), DevData(spec), best_references(spec)
    best = history.best or best_folders(spec, dev, leaderboard, references)
    resolved = with_best(spec, {r: best[r.placeholder] for r in references})
    identity, packages = Identity(resolved, method, dev), installed_packages()
    content = identity.content()
    environment = environment_hash(asked, content, packages)
    failed = to_try_again(history, environment)
    unchanged = history.complete and has_nothing_to_add(history.spec, asked) and not failed
    unknown_code = unchanged or reuse == "unknown code too"
    refuse_other_content(history, resolved, identity, unknown_code=unknown_code)
    if unchanged:
        return None
    evidence = gather(history, resolved, leaderboard, dev=dev.columns)
    points = start_points(resolved, method, evidence.leaders or {})
    search = SearchStudy(
        resolved,
        url=places.search,
        start_points=points,
        journal=journal,
        history=history,
        learned=evidence.learned,
    )
    now = {"content": content, "environment": environment, "packages": packages}
    taken = {"best": best, "leaders": evidence.leaders, "learned": evidence.learned}
    notes = [*value_notes(spec, origins), *evidence.notes(resolved)]
    started = _make_start_event(spec, method, origins, spec=asked, **taken, **now)

    def begin(recorder: Recorder, lease: Lease) -> SweepState:
        stores = (recorder, search, leaderboard, lease)
        state = SweepState(resolved, method, identity, history, *stores, reuse, list(failed))
        state.record(started)
        if failed:
            state.say(f"trying {counted(len(failed), 'failed trial')} again")
        for note in notes:
            state.say(note)
        return state

    return begin


def _make_start_event(
    sweep: SweepSpec, method: Method, origins: Mapping[str, str], **facts: Any
) -> SweepStarted:
    """Make the event of a start, with the code and the values of earlier stages."""
    outside = next(iter(outside_sources(method).values()), None)
    found_values = {f"fixed.{name}": origin for name, origin in origins.items()}
    return SweepStarted(
        sweep=sweep.sweep,
        method=sweep.method,
        backbone=sweep.backbone,
        provenance=sweep_provenance(None, method=outside) | found_values,
        diffs=code_diffs(None, method=outside),
        **facts,
    )


def run_to_end(
    begin: Callable[[], SweepState],
    requests: Requests,
    places: SweepStores,
    *,
    address: str | None,
    ship: bool,
    watch: Watch,
) -> EndState:
    """Run the planner's trials on Ray, and record the sweep's end or interruption."""
    end: EndState = "INTERRUPTED"

    def finish() -> None:
        state.record(SweepFinished(sweep=state.spec.sweep, state=end, why=state.gave_up))
        state.search.close_store()
        state.deletions.close()

    with ExitStack() as at_end:
        with interrupts_deferred():  # else a recorded start could lack its end
            state = begin()
            at_end.callback(finish)
        try:
            with warnings_told(state), watch(state):
                _log.info("sweep %s %s", state.spec.sweep, BEGUN)
                done = False
                while not done and run_trials(state, requests, places, address=address, ship=ship):
                    evaluate_selected(state, heed=lambda: requests.heed(state))
                    done = not state.wants_more  # which can have been asked for meanwhile
            if done:
                delete_surplus_models(state)
                end = "COMPLETE"
                state.deletions.close()
                delete_folder(places.checkpoints)
        except Exception as error:
            state.say(str(error) or repr(error), "error")
            raise
    return end


def best_folders(
    spec: SweepSpec, dev: DevData, leaderboard: Store, references: Sequence[BestReference]
) -> dict[str, str]:
    """Find the folder of each best encoder, by placeholder; SweepRefusedError if one is missing."""
    folders = {}
    for reference in references:
        with leaderboard.session() as session:
            best = best_kept_trial(
                session,
                method=reference.method,
                backbone=reference.backbone,
                dev_identity=dev.columns["identity"],
            )
        if best is None or best.model is None:
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} wants the best {reference.method} on {reference.backbone}, "
                "and the leaderboard has none with these dev sets; train one first, for example "
                "in an earlier stage of the same file"
            )
        if holds_other_model(best.model, best.key):
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} wants the best {reference.method} on {reference.backbone}, "
                f"and {mask_url(best.model)} {NOT_ITS_MODEL.format(best.key[:MODEL_DIGITS])}; put "
                "the model back there, or train it again, for example in an earlier stage of the "
                "same file"
            )
        folders[reference.placeholder] = best.model
    return folders
