"""`cse-sweep FILE --dry-run`: check everything that a run opens, and print what it would cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import disk_usage
from statistics import fmean
from typing import TYPE_CHECKING

from cse_methods.config import MethodConfig
from cse_methods.encoders.backbones import locate_backbone, resolve_backbone, weight_bytes
from cse_methods.errors import DataError
from cse_methods.referenced_tasks.snapshots import with_snapshots
from cse_platform.errors import JournalError, NoStoreError, StoreError, SweepRefusedError
from cse_platform.launch.check import CheckedSweep, check_stages, naming_stage
from cse_platform.launch.outcome import format_counts
from cse_platform.leaderboard.trials import past_trials
from cse_platform.numbers import clock, format_count, short_settings
from cse_platform.search.budgets import trials_left, trials_to_begin
from cse_platform.search.confirmation import count_left_behind, plan_scoring
from cse_platform.search.study import SearchStudy
from cse_platform.standard_streams import announce, echo
from cse_platform.stores.sql.lease import (
    LeaseOwner,
    lease_owners,
    refuse_name_of_other_journal,
    waiting_requests,
)
from cse_platform.stores.sql.store import open_for_reading
from cse_platform.sweep import preflight
from cse_platform.sweep.file import DraftFile
from cse_platform.sweep.identity import DevData, Identity, has_nothing_to_add, refuse_changes
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.references import find_stage_references
from cse_platform.sweep.spec import SweepSpec, best_references, with_best
from cse_platform.sweep.start_points import start_points
from cse_platform.sweep.stores import SweepStores, nearest_existing
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import read_journal, read_journal_id, refuse_deleted
from cse_platform.tracking.provenance import installed_packages

if TYPE_CHECKING:
    from cse_platform.search.prior_results import PriorResults

CHECKPOINT = 4
"""The size of a running trial's checkpoint, in encoders: the weights, the optimiser's two moments,
and the best weights so far."""
SAMPLES = 10
"""The number of configurations that a dry run shows."""


def _describe_disk(checked: CheckedSweep, at_once: int) -> str:
    """Describe the peak disk space of kept models and running trials' checkpoints.

    It is that of a trial if their number is unknown. An ended trial keeps no checkpoint, and only a
    complete one keeps its model.
    """
    spec, models = checked.spec, checked.stores.models
    encoder = locate_backbone(resolve_backbone(spec.backbone))
    if encoder is None:
        return "unknown until the encoder is fetched"
    weights = weight_bytes(encoder)
    if spec.planned is None:
        return f"{_format_bytes(weights)} a trial"
    needed, kept = weights * (spec.planned + CHECKPOINT * at_once), ""
    if spec.kept_trials is not None:
        left = _format_bytes(weights * spec.kept_trials)
        kept = f", then {left} of the best {spec.kept} configurations"
    if "://" in models:
        return f"up to {_format_bytes(needed)} in {models}{kept}"
    free = disk_usage(nearest_existing(Path(models))).free
    short = ", which is not enough" if needed > free else ""
    total = f"up to {_format_bytes(needed)} of models and checkpoints{kept}"
    return f"{total}; {_format_bytes(free)} are free{short}"


def _format_bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def _describe_time(
    checked: CheckedSweep, past: "_PastStarts", configs: Sequence[MethodConfig], at_once: int
) -> str:
    """Describe how long what is left of the sweep takes, and from what that is estimated.

    The hours and GPU-hours are those of a single trial if the number of trials is unknown.
    """
    spec, history, gpu = checked.spec, past.history, checked.spec.resources.gpu
    to_begin, others = trials_to_begin(spec, history), past.other_trials
    count = f"{format_count(at_once, 'trial')} at once"
    if past.planned_trials is not None:
        planned = format_count(past.planned_trials, "trial")
        count = f"{planned}, {min(at_once, past.planned_trials)} at once"
    if checked.sizes is None:
        return f"{count}; the time is unknown until the corpus is fetched"
    sentences = [
        preflight.count_steps(config, sentences=len(checked.sizes.corpus.sentences))
        * getattr(config, "batch_size", 1)
        for config in configs
    ]
    durations = _scale_past_seconds(checked, sum(sentences) / len(sentences))
    if not durations:
        return f"{count}; the time is unknown, because no such trial has run"
    known = f"from {format_count(len(durations), 'past trial')}"
    mean = fmean(durations)
    searched = trials_left(spec, history, seconds=mean, at_once=at_once)
    pruned = "" if isinstance(spec.pruner, NoPruner) else ", minus what the pruner saves"
    if searched is None:
        return f"{count}; about {clock(mean)} each{pruned} ({known})"
    trials = max(searched + others, 1)
    fitting = min(at_once, max(round(trials), 1))
    if to_begin is None or searched < to_begin:
        count = f"about {format_count(round(trials), 'trial')}, {fitting} at once"
    hours = f", {mean * trials * gpu / 3600:.2g} GPU-hours" if gpu else ""
    return f"{count}: about {clock(mean * trials / fitting)}{hours}{pruned} ({known})"


def _scale_past_seconds(checked: CheckedSweep, work: float) -> list[float]:
    """Scale the durations of similar past trials to the number of sentences of a trial here.

    The time until the first dev point is not scaled, because it does not depend on that number.
    """
    spec = checked.spec
    gpu = spec.resources.gpu > 0
    try:
        with open_for_reading(checked.stores.leaderboard) as store, store.session() as session:
            past = past_trials(session, method=spec.method, backbone=spec.backbone, gpu=gpu)
    except StoreError:
        return []  # there is no leaderboard yet
    seconds = []
    for trial in past:
        sentences = (trial.last_step or 0) * trial.hyperparameters.get("batch_size", 1)
        if work and sentences and trial.wall_seconds and trial.first_reported:
            before = (trial.first_reported - trial.started).total_seconds()
            start = min(before, trial.wall_seconds)
            seconds.append(start + (trial.wall_seconds - start) * work / sentences)
    return seconds


def print_plans(
    draft: DraftFile, *, runs: Path, address: str | None, ship: bool, offline: bool
) -> None:
    """Check data, encoders and stores of each stage; print ten configurations and the costs."""
    stages = check_stages(draft, runs=runs, address=address, offline=offline)
    machine = _find_capacity(address, stages, ship=ship)
    for index, stage in enumerate(stages):
        at_once = min(machine[index], stage.spec.resources.at_most or machine[index])
        checked, values = _resolve_found_values(stage)
        with naming_stage(stage.steps):
            past = _check_past_starts(checked)
        earlier = [stage.spec for stage in stages[:index]]
        wanted = preflight.find_unresolved_references(checked.spec, earlier)
        if wanted or past.history.best:
            from cse_platform.search.prior_results import (
                best_folders,
                make_no_best_error,
                name_best,
            )

            try:
                leaderboard = open_for_reading(checked.stores.leaderboard)
            except NoStoreError:
                if past.history.best:
                    raise
                raise make_no_best_error(checked.spec, wanted[0]) from None
            with leaderboard:
                found = best_folders(checked.spec, DevData(checked.spec), leaderboard, wanted)
                values += name_best(checked.spec, past.history.best or found, leaderboard)
        _print_plan(checked, past, values, earlier, at_once=at_once)


def _find_capacity(address: str | None, stages: Sequence[CheckedSweep], *, ship: bool) -> list[int]:
    """Count the simultaneous trials of each stage; print a line for each node that gets none.

    A cluster that is too small is refused. While something must be downloaded first, no node is
    asked.
    """
    if address is None:
        return [max(preflight.count_at_once(checked.spec.resources), 1) for checked in stages]
    from cse_platform.runner import nodes

    announce("asking the Ray cluster")
    nodes.join_with_code(address, [checked.spec for checked in stages], ship=ship)
    for checked in stages:
        nodes.refuse_too_small(checked.spec.resources)
        if not (checked.missing or checked.to_install):
            for line in nodes.describe_bad_nodes(checked.spec):
                echo(line)
    return [nodes.capacity(checked.spec.resources) for checked in stages]


def _resolve_found_values(checked: CheckedSweep) -> tuple[CheckedSweep, list[str]]:
    """Fill in values that earlier stages have found. Returns the stage, and a line for each."""
    if not find_stage_references(checked.spec.fixed):
        return checked, []
    from cse_platform.runner.prior_results import fill_in_stage_values

    resolved = fill_in_stage_values(checked.spec, _read_history(checked.stores), checked.stores)
    awaited = find_stage_references(resolved.spec.fixed)
    lines = [f"{name}: {source}, known later" for name, source in awaited.items()]
    return replace(checked, spec=resolved.spec), [*resolved.notes(), *lines]


def _read_history(stores: SweepStores) -> History:
    """Read the history of a sweep from its journal; empty if it never ran here.

    Raises JournalError, as a start does, if the sweep is being deleted.
    """
    refuse_deleted(stores.journal)
    if not stores.journal.exists():
        return History()
    return History(event for _, event in read_journal(stores.journal))


@dataclass(frozen=True)
class _PastStarts:
    """What a sweep of this name has done, and what a start would do with it."""

    history: History
    spec: SweepSpec
    """The sweep, with the best encoders that its trials use."""
    is_complete: bool
    """Whether a start would have nothing to do."""
    retried: Sequence[TrialHistory] = ()
    """Failed trials that a start tries again."""
    holder: LeaseOwner | None = None
    """Its driver, if one runs it now."""

    @property
    def other_trials(self) -> int:
        """The number of trials that are left besides those that the search still draws."""
        # Cut-off trials go on, failed ones may be tried again, and further seeds are still to come.
        begun = len(self.history.unfinished()) + len(self.retried)
        confirmed = len(self.history.trials) - self.history.searched
        left_behind = count_left_behind(self.history, self.spec)
        return begun + max(self.spec.confirming + left_behind - confirmed, 0)

    @property
    def planned_trials(self) -> int | None:
        """The number of trials that are left; None if a budget of time decides it."""
        to_begin = trials_to_begin(self.spec, self.history)
        return None if to_begin is None else to_begin + self.other_trials


def _check_past_starts(checked: CheckedSweep) -> _PastStarts:
    """Read what the sweep has done; refuse it if its file or content differs from then, or if its
    name is that of another journal.
    """
    spec, history, holder = checked.spec, _read_history(checked.stores), None
    file, journal = checked.stores.journal, ""
    if file.exists():
        with suppress(JournalError):  # its first line is still to be written
            journal = read_journal_id(file)
    with (
        suppress(NoStoreError),  # a run will create it
        open_for_reading(checked.stores.leaderboard) as store,
        store.session() as session,
    ):
        folder = str(file.parent.absolute())
        refuse_name_of_other_journal(session, spec.sweep, journal, folder)
        for request in waiting_requests(session, spec.sweep):  # which the start takes, as a retry
            history.apply(request)
        if history.best:
            from cse_platform.search.prior_results import refuse_lost_models

            refuse_lost_models(spec, history.best, store)
        holder = lease_owners(session).get(spec.sweep)
        holder = holder if holder is not None and holder.lives else None
    dumped = spec.model_dump(mode="json")
    refuse_changes(history.spec, dumped)
    is_complete = history.complete and has_nothing_to_add(history.spec, dumped)
    references = best_references(spec)
    known = all(reference.placeholder in history.best for reference in references)
    if checked.missing or checked.to_install or not (history.trials and known):
        return _PastStarts(history, spec, is_complete, holder=holder)
    from cse_platform.runner.prior_results import (
        find_retried,
        hash_environment,
        refuse_other_content,
    )

    resolved = with_best(spec, {ref: history.best[ref.placeholder] for ref in references})
    identity = Identity(resolved, spec.find_method(), DevData(spec))
    refuse_other_content(history, resolved, identity)
    retried = find_retried(history, hash_environment(spec, identity, installed_packages()))
    return _PastStarts(history, resolved, is_complete and not retried, retried, holder)


def _print_plan(
    checked: CheckedSweep,
    past: _PastStarts,
    values: Sequence[str],
    earlier: Sequence[SweepSpec],
    *,
    at_once: int,
) -> None:
    spec, history = past.spec, past.history
    echo(_format_head(spec))
    if (holder := past.holder) is not None:
        running = f"process {holder.pid} on {holder.host}; a start is refused until it ends"
        echo(f"  running: {running}")
    if history.trials:
        is_over = past.is_complete or past.planned_trials == 0
        counts = Counter[str](trial.state for trial in history.trials.values())
        echo(f"  begun: {format_counts(counts)}{'' if is_over else '; what follows is left'}")
        if is_over:
            _print_rest(checked, past)
            return
    prior = _gather_prior_results(checked, earlier)
    search = SearchStudy(
        spec,
        start_points=start_points(spec, spec.find_method(), prior.leaders or {}),
        history=history,
        learned=prior.learned,
    )
    to_begin = trials_to_begin(spec, history)
    drawn = search.preview(
        SAMPLES if to_begin is None else min(SAMPLES, to_begin),
        enqueued=[history.enqueued[request] for request in history.list_waiting()],
    )
    configs = [spec.config(assignment) for assignment in drawn or spec.examples]
    if drawn and not any(drawn):
        echo("  nothing is searched")
    for assignment in filter(None, drawn):
        echo(f"  {short_settings(assignment)}")
    fetched = [f"to fetch: {line}" for line in checked.missing]
    installed = [f"to install: {line}" for line in checked.to_install]
    for line in [*values, *checked.own_sets, *fetched, *installed, *_describe_conditions(checked)]:
        echo(f"  {line}")
    echo(f"  disk: {_describe_disk(checked, at_once)}")
    for line in [*checked.doubts, *prior.notes(spec)]:
        echo(f"  note: {line}")
    if checked.shortage:
        echo(f"  not here: {checked.shortage}")
    echo(f"  time: {_describe_time(checked, past, configs, at_once)}")


def _print_rest(checked: CheckedSweep, past: _PastStarts) -> None:
    """Print what a sweep without trials to run has left: at most scores."""
    what, spec = "nothing" if past.is_complete else "no trial", past.spec
    echo(f"  time: none, because {what} is left to run; a larger --trials extends it")
    if spec.evaluate is not None and not checked.missing:
        tasks = with_snapshots(spec.evaluate.parsed_tasks)
        for note in plan_scoring(past.history, spec, tasks).notes():
            echo(f"  note: {note}")


def _describe_conditions(checked: CheckedSweep) -> Iterator[str]:
    """Describe what all trials share: dev sets, seeds, corpus and length."""
    spec = checked.spec
    yield f"dev: the search climbs {spec.dev.search_name}; checkpoints: {spec.dev.checkpoint_name}"
    seeds = " ".join(map(str, spec.seeds.further))
    yield f"seeds: {spec.seeds.search} in the search" + f", then {seeds}" * bool(seeds)
    if sizes := checked.sizes:
        corpus = sizes.corpus
        unit = f"rows of {len(corpus.columns)} sentences" if corpus.columns else "sentences"
        yield f"corpus: {corpus.name}, {len(corpus.sentences):,} {unit}"
        steps = dict.fromkeys((f"{sizes.fewest_steps:,}", f"{sizes.most_steps:,}"))
        yield f"steps: {' to '.join(steps)} a trial"


def _format_head(spec: SweepSpec) -> str:
    confirm, tests = spec.seeds.confirm, spec.evaluate
    more = len(spec.seeds.further)
    further = (
        f" and {format_count(more, 'seed')} of the best {confirm.top}" if confirm and more else ""
    )
    tested = f"; test sets for the best {tests.top}: {' '.join(tests.tasks)}" if tests else ""
    trials = [] if spec.budget is None else [format_count(spec.budget, "trial")]
    limits = trials if spec.search.budget is None else [*trials, *spec.search.budget.describe()]
    limits = limits or ["every point of a grid"]
    at_most = "at most " if len(limits) > 1 else ""
    head = f"{spec.sweep}: {spec.method} on {spec.backbone}, {at_most}{', '.join(limits)}"
    return head + further + tested


def _gather_prior_results(checked: CheckedSweep, earlier: Sequence[SweepSpec]) -> "PriorResults":
    """Gather what the search uses of earlier sweeps, except those of the same file."""
    from cse_platform.search.prior_results import PriorResults, gather_prior_results

    stores, search = checked.stores, checked.spec.search
    coming = {spec.sweep for spec in earlier}
    sources = tuple(name for name in search.learn_from if name not in coming)
    if not sources and "leaderboard" not in search.start_from:
        return PriorResults()
    narrowed = search.model_copy(update={"learn_from": sources})
    spec = checked.spec.model_copy(update={"search": narrowed})
    try:
        with open_for_reading(stores.leaderboard) as store:
            return gather_prior_results(
                _read_history(stores), spec, store, dev=DevData(spec).columns
            )
    except NoStoreError as error:
        if sources:
            raise SweepRefusedError(f"cannot learn from {sources[0]!r}: {error}") from error
        return PriorResults(leaders={})
    except DataError:  # the dev sets are not downloaded yet
        return PriorResults()
